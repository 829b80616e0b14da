"""Home folders in paths, and atomic writing: a killed program leaves no incomplete file."""

import contextlib
import errno
import os
import re
from pathlib import Path


def expand_home(text: str) -> str:
    """Replaces `~` by the home folder at the beginning of a path, or of each of several paths with
    commas between them.

    If there is no home folder, or the text has several lines, it is unchanged.

    **Arguments:**

    - `text`: the text of a setting.
    """
    home = os.path.expanduser("~")
    return text if "\n" in text else _TILDE.sub(lambda found: found[1] + home, text)


_TILDE = re.compile(r"(^|,\s*)~(?=[/\\,]|$)")


def write_atomic(path: Path, content: bytes) -> None:
    """Writes a file atomically: to a temporary file, which is read back and then renamed.

    **Arguments:**

    - `path`: the file, in a folder that exists; an older file is replaced.
    - `content`: the bytes of the file.

    **Raises:** `OSError` with the name of the file when it cannot be written; an older file at
    `path` is then unchanged.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if partial.read_bytes() != content:
            raise OSError(errno.EIO, "the file has other content than was written")
        os.replace(partial, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # the error of a full disk has no file name
        raise
    # The renamed file survives a power failure once its folder is flushed, if the system can do so.
    with contextlib.suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
