"""Policies: networks, action distributions, what critics are shown, and teams of agents."""
