"""Runs: what the command lines add to a learner, from its settings to its pictures."""

from ._program import train_command as train_command
