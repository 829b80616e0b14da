"""Files that a person names, which may be anything: only regular ones of a stated size are read."""

import errno
import os
import stat
from pathlib import Path

MAX_TEXT_BYTES = 100_000
"""The largest text that people write by hand, such as settings or a layout."""

MAX_FILE_BYTES = 2**34
"""The largest file of numbers that programs write, such as a checkpoint: 16 GiB."""


def read_regular_file(path: str | Path, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Reads a file, which a pipe or a device would never end.

    **Arguments:**

    - `path`: the file; a link is followed.
    - `max_bytes`: the largest size that is read.

    **Raises:** `OSError`, whose `strerror` says why: the file is missing or larger than that, or it
    is a folder, a pipe or a device.
    """
    try:
        status = os.stat(path)
    except ValueError as error:
        raise OSError(errno.EINVAL, "no file can have such a name", str(path)) from error
    if not stat.S_ISREG(status.st_mode):
        says = "it is no file, but a folder, a pipe or a device"
        raise OSError(errno.EINVAL, says, str(path))
    if status.st_size > max_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {max_bytes:,} bytes", str(path))
    with open(path, "rb") as file:
        return file.read(status.st_size)


def read_regular_text(path: str | Path, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """The same for a text in UTF-8.

    **Raises:** as `read_regular_file`, and `UnicodeDecodeError`, which is a `ValueError`.
    """
    return read_regular_file(path, max_bytes).decode("utf-8")
