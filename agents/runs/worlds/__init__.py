"""The worlds that the command lines know, each with its settings."""
