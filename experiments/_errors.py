"""Errors that are told to a person in one line."""

import sys


class UsageError(Exception):
    """What was asked for cannot be done: exit code 2."""


class RunError(Exception):
    """What was begun could not be finished: exit code 1."""


def complain(sentence: str, code: int) -> int:
    """Says what is wrong, and gives the exit code back."""
    print(f"error: {sentence}", file=sys.stderr)
    return code
