"""Errors that are told to a person in one line."""


class UsageError(Exception):
    """What was asked for cannot be done: exit code 2."""


class RunError(Exception):
    """What was begun could not be finished: exit code 1."""
