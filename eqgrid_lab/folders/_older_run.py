"""Replacing an older run: it is set aside, and restored if the new run learns nothing.

Only files with the names of a run's files are moved, one by one. A process can be killed between
two of them, so the location of the settings file tells how far it came: the settings are the last
file to be set aside, the last to be removed, and the first to be restored.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from ..base import OLDER, SETTINGS_FILE, UsageError, has_learned, links, own_files, seed_folders
from ..settings import is_written_by_a_run


def check_replaceable(folder: Path) -> None:
    """Checks that the files in a folder which a new run would replace are those of an older run.

    **Arguments:**

    - `folder`: the folder of the new run.

    **Raises:** `UsageError` when other files have names that a run needs, and `OSError` when the
    folder cannot be read.
    """
    where, older = f"The folder {str(folder)!r}", folder / OLDER
    there = os.path.lexists(folder / SETTINGS_FILE)
    taken = own_files(folder) + own_files(older)
    if taken and not _is_run(folder if there else older):
        why = "is not that of a run" if there else "is missing"
        raise UsageError(
            f"{where} has {taken[0].relative_to(folder).as_posix()!r}, but holds no run that "
            f"--overwrite could replace: its {SETTINGS_FILE} {why}. Choose another --out."
        )
    for part in (folder, *seed_folders(folder), older, *seed_folders(older)):
        for path in links(part):
            raise UsageError(
                f"{where} has {str(path.relative_to(folder))!r}, which no run has made: it is a "
                "link, or of another kind. Move it away, or choose another --out."
            )
    for seed in seed_folders(folder):
        if not _is_run(seed) and (files := own_files(seed)):
            raise UsageError(
                f"{where} has {str(files[0].relative_to(folder))!r}, which no run of a seed has "
                "written. Move it away, or choose another --out."
            )


def set_aside(folder: Path) -> None:
    """Moves the files of an older run into the subfolder `older-run`.

    **Raises:** `OSError` when they cannot be moved; files that were moved are then moved back.
    """
    older = folder / OLDER
    if _is_run(older):  # an earlier process was killed while it replaced a run
        (forget_older if has_learned(folder) else discard)(folder)
    bring_back(folder)
    seeds = [file for seed in seed_folders(folder) if _is_run(seed) for file in own_files(seed)]
    try:
        _move([*seeds, *own_files(folder)], folder, older, root=folder)
    except OSError:
        with contextlib.suppress(OSError):
            bring_back(folder)
        raise


def bring_back(folder: Path) -> None:
    """Moves the files of an older run back, if there is one.

    **Raises:** `OSError` when they cannot be moved.
    """
    _move(reversed(_files_of_older(folder)), folder / OLDER, folder, root=folder)


def forget_older(folder: Path) -> None:
    """Removes the files of the older run, if there is one.

    **Raises:** `OSError` when they cannot be removed.
    """
    for path in _files_of_older(folder):
        path.unlink()
        _remove_empty(path.parent, folder)


def discard(folder: Path) -> None:
    """Removes the files of a new run that learned nothing.

    **Raises:** `OSError` when they cannot be removed.
    """
    for part in (*filter(_is_run, seed_folders(folder)), folder):
        for path in own_files(part):
            path.unlink()
            _remove_empty(path.parent, folder)


def _files_of_older(folder: Path) -> list[Path]:
    older = folder / OLDER
    if older.is_symlink():
        return []
    return [x for part in (*seed_folders(older), older) for x in own_files(part)]


def _move(files: Iterable[Path], source: Path, target: Path, root: Path) -> None:
    for path in files:
        new = target / path.relative_to(source)
        new.parent.mkdir(parents=True, exist_ok=True)
        os.replace(path, new)
        _remove_empty(path.parent, root)


def _remove_empty(folder: Path, root: Path) -> None:
    """Removes a folder and its parents inside `root`, as long as they are empty."""
    with contextlib.suppress(OSError):
        while folder != root:
            folder.rmdir()
            folder = folder.parent


def _is_run(folder: Path) -> bool:
    return is_written_by_a_run(folder / SETTINGS_FILE)
