"""Many runs at once: seeds, sweeps, and candidates of which the best one goes on."""
