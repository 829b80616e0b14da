"""Errors that are printed in one line."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import final

from agents import CheckpointError


class UsageError(Exception):
    """What was asked for cannot be done: exit code 2."""


class RunError(Exception):
    """What was begun could not be finished: exit code 1."""


class PictureError(RunError):
    """Pictures cannot be drawn here."""


@contextmanager
def as_usage_error(before: str = "", of: type[Exception] = ValueError) -> Iterator[None]:
    """Around what raises an error, with one sentence, when it cannot do what was asked for.

    **Arguments:**

    - `before`: what is put in front of the sentence.
    - `of`: the kind of error.

    **Raises:** `UsageError` instead.
    """
    try:
        yield
    except of as error:
        raise UsageError(f"{before}{error}") from error


def print_error(sentence: str, code: int) -> int:
    """Prints an error, and returns the exit code."""
    print(f"error: {_one_line(sentence)}", file=sys.stderr)
    return code


def warn(sentence: str) -> None:
    """Prints a warning about what is unlikely to be meant."""
    print(f"warning: {_one_line(sentence)}", file=sys.stderr)


def _one_line(sentence: str) -> str:
    """The sentence, with line breaks and other control characters of names written out."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda found: repr(found[0])[1:-1], sentence)


def reason(error: OSError) -> str:
    """What went wrong with a file, in the words of the system."""
    return error.strerror or os.strerror(error.errno or 0)


def system_error(error: OSError) -> str:
    """What the system refused, and with which file."""
    where = f"{str(error.filename)!r}: " if error.filename else ""
    return f"{where}{reason(error)}."


@final
class Failures:
    """What could not be written. One file that fails stops neither the run nor the other files: a
    warning is printed at once, the next file of its kind is tried as usual, and an error is printed
    at the end.
    """

    def __init__(self) -> None:
        self._sentences: dict[Path, str] = {}

    @contextmanager
    def writing(self, path: Path) -> Iterator[None]:
        """Around what writes the file at `path`."""
        try:
            yield
        except (OSError, CheckpointError, PictureError) as error:
            sentence = str(error)
            if not isinstance(error, CheckpointError):
                why = f"{reason(error)}." if isinstance(error, OSError) else sentence
                sentence = f"The file {str(path)!r} cannot be written: {why}"
            if path not in self._sentences:
                warn(f"{sentence} The run goes on, and it is tried again.")
            self._sentences[path] = sentence
        else:
            self._sentences.pop(path, None)

    def report(self) -> bool:
        """Prints what could not be written in the end, a line each.

        **Returns:** whether there was anything.
        """
        for sentence in self._sentences.values():
            print_error(sentence, 1)
        return bool(self._sentences)
