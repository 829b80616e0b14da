"""Wrappers: environments that change the behaviour of another environment."""
