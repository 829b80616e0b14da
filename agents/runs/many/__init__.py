"""Several runs trained together: seeds, sweeps, and candidates."""
