"""Makes and locks the folders of runs and of results. Folders that exist are never replaced."""

import contextlib
import itertools
import re
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from agents import write_atomic

from ..base import RESULTS, SETTINGS_FILE, RunError, UsageError, has_checkpoint, reason

_LOCK = "run.lock"


@contextlib.contextmanager
def open_folder(
    name: str, out: Path | None, settings: str, *, resume: bool = False
) -> Iterator[Path]:
    """Context manager that makes or opens the folder of a run, and locks it.

    If there is no checkpoint to resume, `config.toml` is written. If a new run ends before it has
    learned anything, its folder is removed.

    **Arguments:**

    - `name`: the name of a new folder in `runs/`; a number is appended if it exists.
    - `out`: the folder to use instead, if any.
    - `settings`: the text of `config.toml`.
    - `resume`: whether `out` may be the folder of a run.

    **Returns:** the folder, inside the context.

    **Raises:** `UsageError` when another process writes into the folder, or it is not empty and
    contains no run to resume, and `RunError` when it cannot be written.
    """
    with made_folder(name, out) as folder, locked(folder):
        where, names = f"The folder {str(folder)!r}", names_in(folder)
        is_begun = has_checkpoint(folder)
        if names and not (resume and SETTINGS_FILE in names):
            hint = is_begun and not resume
            more = ", or add --resume to continue the run in it." if hint else "."
            raise UsageError(f"{where} exists and is not empty: choose another --out{more}")
        if not is_begun and any(next(folder.rglob(result), None) for result in RESULTS):
            raise UsageError(
                f"{where} has results without a checkpoint to resume: choose another --out."
            )
        try:
            if not is_begun:
                with writing_into(folder):
                    write_atomic(folder / SETTINGS_FILE, settings.encode())
            yield folder
        finally:
            if not names:
                with contextlib.suppress(OSError):
                    _remove_unlearned(folder)


def _remove_unlearned(folder: Path) -> None:
    """Removes settings and empty folders, if a folder contains nothing else."""
    paths = [path for path in folder.rglob("*") if path.name != _LOCK]
    if all(path.is_dir() or path.name == SETTINGS_FILE for path in paths):
        for path in sorted(paths, reverse=True):  # files before their folders
            (path.rmdir if path.is_dir() else path.unlink)()


@contextlib.contextmanager
def made_folder(name: str, out: Path | None) -> Iterator[Path]:
    """Context manager that makes a folder, and removes it at the end if it is new and empty.

    **Arguments:**

    - `name`: the name of a new folder in `runs/`; a number is appended if it exists.
    - `out`: the folder to use instead, if any.

    **Returns:** the folder, inside the context.

    **Raises:** `UsageError` when `out` is not a folder, and `RunError` when the folder cannot be
    written.
    """
    runs = Path("runs")
    with writing_into(out or runs):
        if out:
            folder = out
            new = [path for path in (out, *out.parents) if not path.exists()]
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except FileExistsError:
                raise UsageError(f"{str(out)!r} is not a folder: choose another --out.") from None
        else:
            new = [] if runs.exists() else [runs]
            runs.mkdir(exist_ok=True)
            names = (f"{name}-{number}" if number > 1 else name for number in itertools.count(1))
            folder = next(path for path in map(runs.joinpath, names) if _make_new(path))
            new = [folder, *new]
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):
            for path in new:
                path.rmdir()


def _make_new(folder: Path) -> bool:
    """Makes a folder. **Returns:** whether it did not exist before."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(parents=True)  # another process may have removed an empty `runs`
        return True
    return False


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Context manager that locks a folder against other processes.

    Nothing is locked if the file system is read-only or has no locks.

    **Arguments:**

    - `folder`: the folder.

    **Raises:** `UsageError` when another process has locked it.
    """
    lock = FileLock(folder / _LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise UsageError(
            f"Another process is writing to the folder {str(folder)!r}: choose another folder."
        ) from None
    except (OSError, NotImplementedError):
        pass  # the file system has no locks, or is read-only
    try:
        yield
    finally:
        if lock.is_locked:
            lock.release()
            with contextlib.suppress(OSError):
                (folder / _LOCK).unlink()


def folder_name(algorithm: str, layout: str, seed: int) -> str:
    """The name of a run's folder: the algorithm, the layout's short name, the seed and the time.

    **Arguments:**

    - `algorithm`, `seed`: the algorithm and the seed of the run.
    - `layout`: the name, the file or the text of the layout.
    """
    return f"{algorithm}-{short_name(layout)}-{seed}-{time.strftime('%Y%m%d-%H%M%S')}"


def short_name(layout: str) -> str:
    """A short name for a layout: its name, the stem of its file name, or `custom` for its text.

    The short name has at most 100 bytes, and only characters that are safe in file names.
    """
    if "\n" in layout.strip():
        return "custom"
    name = re.sub(r"[^\w.+-]+", "_", Path(layout).stem)
    return name.encode()[:100].decode(errors="ignore") or "custom"


@contextlib.contextmanager
def writing_into(folder: Path) -> Iterator[None]:
    """Context manager that turns an `OSError` into a `RunError` about the folder.

    **Raises:** `RunError` when the code inside raises an `OSError`.
    """
    try:
        yield
    except OSError as error:
        why = reason(error)
        raise RunError(f"The folder {str(folder)!r} cannot be written: {why}.") from error


def names_in(folder: Path) -> set[str]:
    """The names of the files in a folder, without the lock file.

    **Raises:** `RunError` when the folder cannot be read.
    """
    with writing_into(folder):
        return {path.name for path in folder.iterdir()} - {_LOCK}
