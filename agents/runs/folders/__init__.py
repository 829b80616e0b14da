"""The folders of runs and of results: creation, locking, and reading back."""
