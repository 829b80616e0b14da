"""Safe reading of files whose paths users give: only regular files up to a size limit."""

import errno
import os
import stat
from pathlib import Path

MAX_TEXT_BYTES = 100_000
"""The largest size in bytes of a text file that is read, such as settings or a layout."""

MAX_FILE_BYTES = 2**34
"""The largest size in bytes of a binary file that is read, such as a checkpoint: 16 GiB."""


def read_regular_file(path: str | Path, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Reads a regular file, and rejects pipes and devices, which may never end.

    **Arguments:**

    - `path`: the file; links are followed.
    - `max_bytes`: the largest allowed size in bytes.

    **Raises:** `OSError` with the reason in `strerror`: the file is missing or too large, or it is
    a folder, a pipe or a device.
    """
    try:
        status = os.stat(path)
    except ValueError as error:
        raise OSError(errno.EINVAL, "this is not a valid file name", str(path)) from error
    if not stat.S_ISREG(status.st_mode):
        says = "it is not a file, but a folder, a pipe or a device"
        raise OSError(errno.EINVAL, says, str(path))
    if status.st_size > max_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {max_bytes:,} bytes", str(path))
    with open(path, "rb") as file:
        return file.read(status.st_size)


def read_regular_text(path: str | Path, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Reads a regular file as UTF-8 text, without the byte order mark that some editors write.

    **Raises:** as `read_regular_file`, and `UnicodeDecodeError`, which is a `ValueError`.
    """
    return read_regular_file(path, max_bytes).decode("utf-8-sig")
