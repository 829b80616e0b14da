"""The training loop: compiled blocks of updates, hooks, devices and processes."""
