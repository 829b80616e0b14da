"""Errors and warnings that are printed as one line."""

import re
import sys
import traceback
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import final

from agents import CheckpointError
from eqgrid.errors import is_for_users


class UsageError(Exception):
    """The arguments or settings are wrong: exit code 2."""


class RunError(Exception):
    """The run failed: exit code 1."""


class Stopped(Exception):
    """Raised by `StopSignals.check` after a signal, where the program can safely end. The message
    is the name of the signal.
    """


@contextmanager
def as_usage_error(
    before: str = "",
    of: type[Exception] | tuple[type[Exception], ...] = ValueError,
    *,
    scripts: Container[str] = (),
    own_script: str = "",
) -> Iterator[None]:
    """Context manager that turns an error with a message for users into a `UsageError`.

    A `raise` statement of eqgrid has such a message. Errors of the user's code and of other
    libraries are faults of a program, so they keep their type and their traceback.

    **Arguments:**

    - `before`: a text to put in front of the error's message.
    - `of`: the type or types of errors to turn into a `UsageError`.
    - `scripts`: modules whose `raise` statements have messages for users, too.
    - `own_script`: a module of the user: errors in its functions keep their traceback.

    **Raises:** `UsageError` when an error of such a type is raised inside.
    """
    try:
        yield
    except of as error:
        frames = traceback.walk_tb(error.__traceback__)
        is_own = any(frame.f_globals.get("__name__") == own_script for frame, _ in frames)
        if is_own or not (isinstance(error, UsageError) or is_for_users(error, scripts)):
            raise
        raise UsageError(before + " ".join(str(error).splitlines())) from error


@contextmanager
def with_note(sentence: str) -> Iterator[None]:
    """Context manager that adds a sentence below the traceback of an error, for code of the user
    or of another library. A `UsageError` has a sentence of its own.
    """
    try:
        yield
    except UsageError:
        raise
    except Exception as error:
        error.add_note(sentence)
        raise


def print_error(sentence: str, code: int) -> int:
    """Prints an error on standard error, and returns the given exit code."""
    print(f"error: {_one_line(sentence)}", file=sys.stderr)
    return code


def warn(sentence: str) -> None:
    """Prints a warning on standard error."""
    print(f"warning: {_one_line(sentence)}", file=sys.stderr)


def _one_line(sentence: str) -> str:
    """Escapes line breaks and other control characters, which names of files may contain."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda found: repr(found[0])[1:-1], sentence)


def reason(error: OSError) -> str:
    """Why an operation failed: the operating system's description, such as `No space left on
    device`, or else the message or the type of the error.
    """
    return error.strerror or str(error).rstrip(".") or type(error).__name__


@final
class Failures:
    """Collects the files that cannot be written, so that such failures do not stop the run.

    The first failure to write a file prints a warning. The run still tries later writes of the
    file. At the end, `report` prints the files whose last write failed.
    """

    def __init__(self) -> None:
        self._sentences: dict[Path, str] = {}

    @contextmanager
    def writing(self, path: Path) -> Iterator[None]:
        """Context manager for code that writes the file at `path`: records a failure, if any.

        `OSError` and `CheckpointError` are caught; other errors are raised.
        """
        try:
            yield
        except (OSError, CheckpointError) as error:
            sentence = str(error)
            if isinstance(error, OSError):
                sentence = f"The file {str(path)!r} cannot be written: {reason(error)}."
            if path not in self._sentences:
                warn(f"{sentence} The run continues and will retry.")
            self._sentences[path] = sentence
        else:
            self._sentences.pop(path, None)

    def report(self) -> bool:
        """Prints an error for each file whose last write failed.

        **Returns:** whether there are any such files.
        """
        for sentence in self._sentences.values():
            print_error(sentence, 1)
        return bool(self._sentences)
