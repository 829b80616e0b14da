"""Wrappers: environments around environments."""
