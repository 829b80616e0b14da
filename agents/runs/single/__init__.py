"""One run, from its first environment step to its result."""
