"""Policies: networks, action distributions, critic inputs, and networks of several agents."""
