"""The folder of a run: for one process at a time, and cleared of an older run when asked."""

import contextlib
import itertools
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from agents import write_whole
from experiments._errors import RunError, UsageError, reason

FILM_FILE = "episode.gif"
"""What the film of a run is called in its folder."""
_LOCK, _OLDER = "run.lock", "older-run"
_FILES = (
    *("result.json", "curve.png", FILM_FILE, "metrics.csv", "config.toml"),
    *("checkpoints/last.safetensors", "checkpoints/best.safetensors", "policy.safetensors"),
)
"""What a run writes."""
CANDIDATES_FILE = "checkpoints/candidates.safetensors"
"""Where the candidates of a run are while they learn."""

_MORE = ("metrics.jsonl", "tensorboard", "wandb", "trace", "checkpoints/seeds.safetensors")
_MORE += (CANDIDATES_FILE,)
"""What it writes when it is asked to, and `checkpoints/step-*.safetensors`, and `seed-*`."""


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
    missing = [path for path in (out, *out.parents) if not os.path.lexists(path)] if out else []
    folder = out or _new_folder(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UsageError(f"{str(folder)!r} is no folder: choose another --out.") from None
    except OSError as error:
        raise cannot_be_written(folder, error) from error
    try:
        with locked(folder):
            _check_free(folder, overwrite)
            try:
                _claim(folder, settings)
                yield folder
            finally:
                _tidy(folder)
    finally:
        with contextlib.suppress(OSError):
            for path in missing or ([] if out else [folder]):
                path.rmdir()  # those that were made and are empty again


@contextlib.contextmanager
def reopen_folder(folder: Path) -> Iterator[Path]:
    """The folder of a run that goes on, with other processes kept out of it.

    **Raises:** `UsageError` when the folder is in use.
    """
    with locked(folder):
        yield folder


def _new_folder(name: str) -> Path:
    """A folder in `runs/` that was not there before."""
    runs = Path("runs")
    try:
        runs.mkdir(exist_ok=True)
        for number in itertools.count(1):
            folder = runs / (name if number == 1 else f"{name}-{number}")
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                return folder
    except OSError as error:
        raise cannot_be_written(runs, error) from error
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


def folder_name(algorithm: str, layout: str, seed: int) -> str:
    """The name of a run's folder: any layout becomes a short name that every system can write."""
    return f"{algorithm}-{short_name(layout)}-{seed}-{time.strftime('%Y%m%d-%H%M%S')}"


def short_name(layout: str) -> str:
    """A layout's name, the stem of its file's name, or `custom` for its text."""
    if "\n" in layout.strip():
        return "custom"
    name = re.sub(r"[^\w.+-]+", "_", Path(layout).stem)
    return name.encode()[:100].decode(errors="ignore") or "custom"


def seed_folders(folder: Path) -> list[Path]:
    """The folders of the seeds in that of a run with many seeds, in the order of their numbers."""
    found = [path for path in folder.glob("seed-*") if re.fullmatch(r"seed-[0-9]+", path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("seed-")))


def cannot_be_written(folder: Path, error: OSError) -> RunError:
    return RunError(f"The folder {str(folder)!r} cannot be written: {reason(error)}.")


def forget_older(folder: Path) -> None:
    """Removes the run that this one replaces, which was kept until this one had learned something.

    **Raises:** `OSError` when it cannot be removed.
    """
    if (folder / _OLDER).exists():
        shutil.rmtree(folder / _OLDER)


def _check_free(folder: Path, overwrite: bool) -> None:
    """**Raises:** `UsageError` when there is something in a folder that is to stay."""
    try:
        names = {path.name for path in folder.iterdir()} - {_LOCK}
        ours = "config.toml" not in names or b"algorithm" in (folder / "config.toml").read_bytes()
    except OSError as error:
        raise cannot_be_written(folder, error) from error
    if names and not overwrite:
        raise UsageError(
            f"The folder {str(folder)!r} exists and is not empty: choose another --out, or add "
            "--overwrite to replace the run in it."
        )
    if not ours:
        raise UsageError(
            f"The folder {str(folder)!r} has the config.toml of another program: choose another "
            "--out."
        )


def _claim(folder: Path, settings: str) -> None:
    try:
        _set_aside(folder)
        (folder / "checkpoints").mkdir(exist_ok=True)
        write_whole(folder / "config.toml", settings.encode())
    except OSError as error:
        raise cannot_be_written(folder, error) from error


def _set_aside(folder: Path) -> None:
    """Moves an older run out of the way; what no run wrote stays where it is."""
    if _has_learned(folder):
        forget_older(folder)  # of a process that was killed later
    else:
        _bring_back(folder)
    _move(folder, folder / _OLDER)


def is_complete(folder: Path, film: bool = True) -> bool:
    """Whether a run has written all its files; a film is one of them unless told otherwise."""
    names = (name for name in _FILES if film or name != FILM_FILE)
    return all(os.path.lexists(folder / name) for name in names)


def _has_learned(folder: Path) -> bool:
    files = (*(name for name in _FILES if name != "config.toml"), CANDIDATES_FILE)
    return any(os.path.lexists(folder / name) for name in files)


def _bring_back(folder: Path) -> None:
    _move(folder / _OLDER, folder)
    forget_older(folder)


def _move(source: Path, target: Path) -> None:
    """Moves what a run wrote, and nothing else."""
    steps = (source / "checkpoints").glob("step-*.safetensors")
    seeds = [path.name for path in _seeds_begun(source)]
    for name in (*_FILES, *_MORE, *seeds, *(f"checkpoints/{path.name}" for path in steps)):
        if os.path.lexists(source / name):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(source / name, target / name)


def _seeds_begun(folder: Path) -> list[Path]:
    return [path for path in seed_folders(folder) if (path / "config.toml").exists()]


def _tidy(folder: Path) -> None:
    """Leaves the run that learned something: this one, or else the older one, if there was one."""
    with contextlib.suppress(OSError):
        if _has_learned(folder):
            forget_older(folder)
        else:
            (folder / "config.toml").unlink(missing_ok=True)
            for name in ("tensorboard", "wandb"):  # they are opened before anything is learned
                shutil.rmtree(folder / name, ignore_errors=True)
            for path in _seeds_begun(folder):
                shutil.rmtree(path, ignore_errors=True)
            _bring_back(folder)
    with contextlib.suppress(OSError):
        (folder / "checkpoints").rmdir()
