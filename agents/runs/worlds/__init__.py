"""The worlds that the command lines offer, and their settings."""
