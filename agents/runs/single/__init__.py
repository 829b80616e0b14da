"""Single runs: building, training, evaluation and results."""
