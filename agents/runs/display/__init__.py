"""The output of a run: messages, logs, plots and films."""
