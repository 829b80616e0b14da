"""Behaviour cloning: policies that imitate recorded actions, such as those of people."""
