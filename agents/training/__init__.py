"""The loop of training: blocks of updates, hooks, devices and processes."""
