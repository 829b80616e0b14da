"""Settings: flags and settings files, and their checks."""
