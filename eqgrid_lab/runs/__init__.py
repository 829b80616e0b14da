"""Runs: training with folders, checkpoints, evaluation, many seeds and sweeps."""

from ._program import run_command_line as run_command_line, run_experiment as run_experiment
