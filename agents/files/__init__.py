"""Checkpoints, policies and trajectories on disk."""
