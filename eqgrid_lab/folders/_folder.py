"""Makes, locks and empties the folders of runs and of results.

Only files with the names of a run's files are removed, one by one, and the settings file last. If
the process is killed in between, the settings file still marks the folder as the folder of a run.
"""

import contextlib
import itertools
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from agents import write_atomic

from ..base import (
    SETTINGS_FILE,
    SWEEP_FILE,
    RunError,
    UsageError,
    has_learned,
    links,
    mirrored,
    own_files,
    reason,
    seed_folders,
)
from ..settings import is_written_by_a_run


def check_replaceable(folder: Path) -> None:
    """Checks that a new run would replace only files of an older run in a folder.

    **Arguments:**

    - `folder`: the folder of the new run.

    **Raises:** `UsageError` when other files have names that a run needs, and `OSError` when the
    folder cannot be read.
    """
    where = f"The folder {str(folder)!r}"
    if os.path.lexists(folder / SWEEP_FILE):
        raise UsageError(
            f"{where} contains a sweep, which --overwrite does not replace: choose another --out."
        )
    if (files := own_files(folder)) and not _is_run(folder):
        exists = os.path.lexists(folder / SETTINGS_FILE)
        why = "does not belong to a run" if exists else "is missing"
        raise UsageError(
            f"{where} has {files[0].relative_to(folder).as_posix()!r}, but contains no run that "
            f"--overwrite could replace: its {SETTINGS_FILE} {why}. Choose another --out."
        )
    for part in (folder, *seed_folders(folder)):
        for path in links(part):
            raise UsageError(
                f"{where} has {str(path.relative_to(folder))!r}, which a run did not create: it "
                "is a link, or another kind of file. Move it away, or choose another --out."
            )
    for seed in seed_folders(folder):
        if not _is_run(seed) and (files := own_files(seed)):
            raise UsageError(
                f"{where} has {str(files[0].relative_to(folder))!r}, which was not written by the "
                "run of a seed. Move it away, or choose another --out."
            )


def remove_run(folder: Path) -> None:
    """Removes the files of a run, and the files of its seeds.

    **Raises:** `OSError` when they cannot be removed.
    """
    for part in (*filter(_is_run, seed_folders(folder)), folder):
        for path in own_files(part):
            path.unlink()
            _remove_empty(path.parent, folder)


def _remove_empty(folder: Path, root: Path) -> None:
    """Removes a folder and its parents inside `root`, as long as they are empty."""
    with contextlib.suppress(OSError):
        while folder != root:
            folder.rmdir()
            folder = folder.parent


def _is_run(folder: Path) -> bool:
    return is_written_by_a_run(folder / SETTINGS_FILE)


_LOCK = "run.lock"


@contextlib.contextmanager
def open_folder(
    name: str,
    out: Path | None,
    overwrite: bool,
    settings: str,
    *,
    keep: bool = False,
    check: Callable[[], object] = bool,
) -> Iterator[Path]:
    """Context manager that makes and locks the folder of a new run, and writes its `config.toml`.

    If the run ends before it has learned anything, its files are removed.

    **Arguments:**

    - `name`: the name of a new folder in `runs/`; a number is appended if it exists.
    - `out`: the folder to use instead, if any.
    - `overwrite`: whether to replace the files of an older run in `out`; other files are kept.
    - `settings`: the text of `config.toml`.
    - `keep`: whether to keep the files without results, unless an error is raised.
    - `check`: as in `mirrored`; also called before the files of an older run are removed.

    **Returns:** the folder, inside the context.

    **Raises:** `UsageError` when the folder is in use or may not be replaced, and `RunError` when
    it cannot be written.
    """
    with made_folder(name, out, overwrite, check) as folder, locked(folder):
        with writing_into(folder):
            if names_in(folder) and not overwrite:
                raise UsageError(
                    f"The folder {str(folder)!r} exists and is not empty: choose another --out, or "
                    "add --overwrite to replace the run in it."
                )
            check_unlocked(seed_folders(folder))
            check()
            check_replaceable(folder)
            known = _wandb_files(folder)  # of older runs, which are kept
            remove_run(folder)
        try:
            with writing_into(folder):
                (folder / "checkpoints").mkdir(exist_ok=True)
                write_atomic(folder / SETTINGS_FILE, settings.encode())
            yield folder
        except BaseException:
            keep = False
            raise
        finally:
            with contextlib.suppress(OSError):
                if not keep and not has_learned(folder):
                    remove_run(folder)
                    new = _wandb_files(folder) - known
                    for path in sorted(new, reverse=True):  # files before folders
                        is_folder = path.is_dir() and not path.is_symlink()
                        (path.rmdir if is_folder else path.unlink)()
                    for path in new:
                        _remove_empty(path.parent, folder)
            with contextlib.suppress(OSError):
                (folder / "checkpoints").rmdir()


@contextlib.contextmanager
def made_folder(
    name: str,
    out: Path | None,
    overwrite: bool = False,
    check: Callable[[], object] = bool,
) -> Iterator[Path]:
    """Context manager that makes a folder, and removes it at the end if it is new and empty.

    The files in the local folder of an address are copied there.

    **Arguments:**

    - `name`: the name of a new folder in `runs/`; a number is appended if it exists.
    - `out`: the folder to use instead, if any.
    - `overwrite`, `check`: as in `mirrored`.

    **Returns:** the folder, inside the context.

    **Raises:** `UsageError` when `out` is not a folder, `RunError` when the folder cannot be
    written, and as `mirrored`.
    """
    runs = Path("runs")
    with writing_into(out or runs):
        if out:
            folder = out
            new = [path for path in (out, *out.parents) if not os.path.lexists(path)]
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except FileExistsError:
                raise UsageError(f"{str(out)!r} is not a folder: choose another --out.") from None
        else:
            runs.mkdir(exist_ok=True)
            names = (f"{name}-{number}" if number > 1 else name for number in itertools.count(1))
            folder = next(path for path in map(runs.joinpath, names) if _make_new(path))
            new = [folder]
    try:
        with mirrored(folder, overwrite, check):
            yield folder
    finally:
        with contextlib.suppress(OSError):
            for path in new:
                path.rmdir()


def _make_new(folder: Path) -> bool:
    """Makes a folder. **Returns:** whether it did not exist before."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        return True
    return False


@contextlib.contextmanager
def locked(folder: Path, seconds: float = 0) -> Iterator[None]:
    """Context manager that locks a folder against other processes.

    Nothing is locked if the file system is read-only or has no locks.

    **Arguments:**

    - `folder`: the folder.
    - `seconds`: how long to wait for another process to unlock it.

    **Raises:** `UsageError` when it is still locked, or its lock file was not created by a run.
    """
    lock = FileLock(folder / _LOCK, timeout=seconds)
    with contextlib.suppress(OSError):  # there is no lock file, or it cannot be read
        status = (folder / _LOCK).lstat()
        # A killed run leaves an empty lock file, which can be used again.
        if not stat.S_ISREG(status.st_mode) or status.st_size > 0:
            raise UsageError(
                f"The folder {str(folder)!r} has a {_LOCK!r} that a run did not create: move it "
                "away, or choose another folder."
            )
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


def check_unlocked(folders: Iterable[Path]) -> None:
    """**Raises:** `UsageError` when another process has locked one of the folders."""
    for folder in folders:
        with locked(folder):
            pass


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


def _wandb_files(folder: Path) -> set[Path]:
    """All files and folders of Weights & Biases in the folders of a run and of its seeds."""
    found = set[Path]()
    for wandb in (part / "wandb" for part in (folder, *seed_folders(folder))):
        if wandb.is_dir() and not wandb.is_symlink():
            found |= {wandb, *wandb.rglob("*")}
    return found
