"""The folder of a run or of results: for one process at a time, and never one that is in use."""

import contextlib
import itertools
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from agents import write_whole
from agents.runs._run_files import SETTINGS_FILE, has_learned
from agents.runs.display._errors import RunError, UsageError, reason

from ._older_run import bring_back, check_replaceable, discard, forget_older, set_aside

_LOCK = "run.lock"


@contextlib.contextmanager
def open_folder(name: str, out: Path | None, overwrite: bool, settings: str) -> Iterator[Path]:
    """Makes the folder of a run, with its settings in `config.toml`, and keeps other processes out
    of it. An older run is replaced when this one has learned something; before that, it comes back.
    The folder of a run that learned nothing is removed.

    **Arguments:**

    - `name`: what a folder in `runs/` is called; a number is added when that one is taken.
    - `out`: a folder that was asked for instead.
    - `overwrite`: replace the files of an older run in `out`, and nothing else.
    - `settings`: the text of `config.toml`.

    **Raises:** `UsageError` when the folder is in use, `RunError` when it cannot be written.
    """
    with made_folder(name, out) as folder, locked(folder):
        with writing_into(folder):
            if names_in(folder) and not overwrite:
                raise UsageError(
                    f"The folder {str(folder)!r} exists and is not empty: choose another --out, or "
                    "add --overwrite to replace the run in it."
                )
            check_replaceable(folder)
            known = _of_wandb(folder)
            set_aside(folder)
        try:
            with writing_into(folder):
                (folder / "checkpoints").mkdir(exist_ok=True)
                write_whole(folder / SETTINGS_FILE, settings.encode())
            yield folder
        finally:
            _tidy(folder, known)


@contextlib.contextmanager
def made_folder(name: str, out: Path | None) -> Iterator[Path]:
    """Makes a folder, and removes it in the end if it is empty and was not there before.

    **Arguments:**

    - `name`: what a folder in `runs/` is called; a number is added when that one is taken.
    - `out`: a folder that was asked for instead.

    **Raises:** `UsageError` when `out` is no folder, `RunError` when it cannot be written.
    """
    missing = [path for path in (out, *out.parents) if not os.path.lexists(path)] if out else []
    folder = out or _new_folder(name)
    with writing_into(folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise UsageError(f"{str(out)!r} is no folder: choose another --out.") from None
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):
            for path in missing or ([] if out else [folder]):
                path.rmdir()


def _new_folder(name: str) -> Path:
    """A folder in `runs/` that was not there before."""
    runs = Path("runs")
    with writing_into(runs):
        runs.mkdir(exist_ok=True)
        for number in itertools.count(1):
            folder = runs / (name if number == 1 else f"{name}-{number}")
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                return folder
    raise AssertionError("numbers do not end")


@contextlib.contextmanager
def locked(folder: Path, seconds: float = 0) -> Iterator[None]:
    """Keeps other processes out of a folder.

    **Arguments:**

    - `folder`: a folder.
    - `seconds`: how long to wait until another process has left it.

    **Raises:** `UsageError` when it is still in use.
    """
    lock = FileLock(folder / _LOCK, timeout=seconds)
    if not _may_be_locked(folder / _LOCK):
        raise UsageError(
            f"The folder {str(folder)!r} has a {_LOCK!r} that no run has made: move it away, or "
            "choose another folder."
        )
    try:
        lock.acquire()
    except Timeout:
        raise UsageError(
            f"Another process is writing into the folder {str(folder)!r}: choose another one."
        ) from None
    except (OSError, NotImplementedError):
        pass  # a file system without locks, or one that is read-only
    try:
        yield
    finally:
        if lock.is_locked:
            lock.release()
            with contextlib.suppress(OSError):
                (folder / _LOCK).unlink()


def _may_be_locked(path: Path) -> bool:
    """Whether there is nothing, or a regular file without content, which a kill may have left."""
    try:
        status = path.lstat()
    except OSError:
        return True
    return stat.S_ISREG(status.st_mode) and status.st_size == 0


def folder_name(algorithm: str, layout: str, seed: int) -> str:
    """The name of a run's folder: any layout becomes a short name that every system can write."""
    return f"{algorithm}-{short_name(layout)}-{seed}-{time.strftime('%Y%m%d-%H%M%S')}"


def short_name(layout: str) -> str:
    """A layout's name, the stem of its file's name, or `custom` for its text."""
    if "\n" in layout.strip():
        return "custom"
    name = re.sub(r"[^\w.+-]+", "_", Path(layout).stem)
    return name.encode()[:100].decode(errors="ignore") or "custom"


@contextlib.contextmanager
def writing_into(folder: Path) -> Iterator[None]:
    """**Raises:** `RunError` when what is inside cannot write into the folder."""
    try:
        yield
    except OSError as error:
        raise cannot_be_written(folder, error) from error


def cannot_be_written(folder: Path, error: OSError) -> RunError:
    """What to raise where a folder cannot be written."""
    return RunError(f"The folder {str(folder)!r} cannot be written: {reason(error)}.")


def names_in(folder: Path) -> set[str]:
    """What is in a folder, without the lock.

    **Raises:** `RunError` when it cannot be read.
    """
    with writing_into(folder):
        return {path.name for path in folder.iterdir()} - {_LOCK}


def _of_wandb(folder: Path) -> set[Path]:
    """The files of Weights & Biases in the folder, whose names are not known."""
    there = folder / "wandb"
    return set() if there.is_symlink() or not there.is_dir() else {there, *there.rglob("*")}


def _tidy(folder: Path, known: set[Path]) -> None:
    """Leaves the run that learned something: this one, or else the older one, if there was one.

    **Arguments:**

    - `folder`: the folder of the run.
    - `known`: what Weights & Biases had in it before; it is opened before anything is learned.
    """
    with contextlib.suppress(OSError):
        if has_learned(folder):
            forget_older(folder)
        else:
            discard(folder)
            for path in sorted(_of_wandb(folder) - known, reverse=True):  # what is inside first
                (path.rmdir if path.is_dir() and not path.is_symlink() else path.unlink)()
            bring_back(folder)
    with contextlib.suppress(OSError):
        (folder / "checkpoints").rmdir()
