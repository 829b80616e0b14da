"""Settings: flags and settings files, checked before anything is built."""
