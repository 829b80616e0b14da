"""Runs: training with folders, checkpoints, evaluation, many seeds and sweeps."""

from ._program import run_experiment as run_experiment
from .cloning import Cloning as Cloning, run_cloning as run_cloning
