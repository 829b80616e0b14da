"""Files that are there as a whole or not at all, whatever ends the process."""

import contextlib
import errno
import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file beside the one at `path`, reads it back, and puts it in the place of that one.

    **Raises:** `OSError` with the name of the file when it cannot be written; what was at `path` is
    then as it was.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        _write(partial, content)
        if partial.read_bytes() != content:
            raise OSError(errno.EIO, "what is read back is not what was written")
        os.replace(partial, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # the error of a full disk has no file name
        raise
    _flush_folder(path.parent)


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    """Lets the new name of a file survive a power failure, where the system can."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
