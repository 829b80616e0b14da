"""The folder of a run: made for one run alone, and cleared of an older one when asked."""

import contextlib
import itertools
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from _errors import RunError, UsageError, reason
from filelock import FileLock, Timeout

_LOCK = "run.lock"
FILES = ("result.json", "curve.png", "episode.gif", "metrics.csv", "checkpoints", "config.toml")
"""What a run writes, in the order in which an older run is cleared away: results go first."""


@contextlib.contextmanager
def open_folder(name: str, out: Path | None, overwrite: bool, settings: str) -> Iterator[Path]:
    """Makes the folder of a run, with its settings in `config.toml`, and keeps other processes out
    of it. At the end, the folder of a run that learned nothing is removed.

    **Arguments:**

    - `name`: what a folder in `runs/` is called; a number is added when that one is taken.
    - `out`: a folder that was asked for instead.
    - `overwrite`: clear away what an older run left in `out`, and nothing else.
    - `settings`: the text of `config.toml`.

    **Raises:** `UsageError` when the folder is in use, `RunError` when it cannot be written.
    """
    folder = _new_folder(name) if out is None else out
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UsageError(f"{str(folder)!r} is no folder: choose another --out.") from None
    except OSError as error:
        raise cannot_be_written(folder, error) from error
    with _locked(folder):
        try:
            _claim(folder, overwrite, settings)
        except OSError as error:
            raise cannot_be_written(folder, error) from error
        try:
            yield folder
        finally:
            _discard_unused(folder)


@contextlib.contextmanager
def reopen_folder(folder: Path) -> Iterator[Path]:
    """The folder of a run that goes on, with other processes kept out of it.

    **Raises:** `UsageError` when the folder is in use.
    """
    with _locked(folder):
        yield folder


def _new_folder(name: str) -> Path:
    """A folder in `runs/` that was not there before."""
    for number in itertools.count(1):
        folder = Path("runs") / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise cannot_be_written(folder, error) from error
        return folder
    raise AssertionError("numbers do not end")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = FileLock(folder / _LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise UsageError(
            f"Another process is writing into the folder {str(folder)!r}: choose another one."
        ) from None
    except (OSError, NotImplementedError):
        pass  # a file system without locks, or one that will be said to be read-only
    try:
        yield
    finally:
        if lock.is_locked:
            lock.release()
            with contextlib.suppress(OSError):
                (folder / _LOCK).unlink()
                folder.rmdir()  # where the lock was all that was left


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file that is there as a whole or not at all, whatever ends the process."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def folder_name(algorithm: str, layout: str, seed: int) -> str:
    """The name of a run's folder: any layout becomes a short name that every system can write."""
    return f"{algorithm}-{short_name(layout)}-{seed}-{time.strftime('%Y%m%d-%H%M%S')}"


def short_name(layout: str) -> str:
    """A layout's name, the stem of its file's name, or `custom` for its text."""
    if "\n" in layout.strip():
        return "custom"
    return re.sub(r"[^\w.+-]+", "_", Path(layout).stem)[:60] or "custom"


def cannot_be_written(folder: Path, error: OSError) -> RunError:
    return RunError(f"The folder {str(folder)!r} cannot be written: {reason(error)}.")


def _claim(folder: Path, overwrite: bool, settings: str) -> None:
    if overwrite:
        _clear(folder)
    elif any(path.name != _LOCK for path in folder.iterdir()):
        raise UsageError(
            f"The folder {str(folder)!r} exists and is not empty: choose another --out, or add "
            "--overwrite to replace the run in it."
        )
    (folder / "checkpoints").mkdir(exist_ok=True)
    write_whole(folder / "config.toml", settings.encode())


def _discard_unused(folder: Path) -> None:
    with contextlib.suppress(OSError):
        if not (folder / "metrics.csv").exists():
            (folder / "checkpoints").rmdir()
            (folder / "config.toml").unlink()


def _clear(folder: Path) -> None:
    for name in FILES:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
