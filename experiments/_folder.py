"""The folder of a run: made for one run alone, and cleared of an older one when asked."""

import contextlib
import itertools
import re
import shutil
import time
from pathlib import Path

from _errors import RunError, UsageError, reason

FILES = ("result.json", "curve.png", "episode.gif", "metrics.csv", "checkpoints", "config.toml")
"""What a run writes, in the order in which an older run is cleared away: results go first."""


def open_folder(name: str, out: Path | None, overwrite: bool, settings: str) -> Path:
    """Makes the folder of a run, with its settings in `config.toml`.

    Whoever creates that file has the folder: of two runs that start at once, one gets it.

    **Arguments:**

    - `name`: what a folder in `runs/` is called; a number is added when that one is taken.
    - `out`: a folder that was asked for instead.
    - `overwrite`: clear away what an older run left in `out`, and nothing else.
    - `settings`: the text of `config.toml`.

    **Raises:** `UsageError` when the folder is in use, `RunError` when it cannot be written.
    """
    if out is not None:
        return _claim(out, overwrite, settings)
    for number in itertools.count(1):
        folder = Path("runs") / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise _cannot_be_written(folder, error) from error
        return _claim(folder, False, settings)
    raise AssertionError("numbers do not end")


def folder_name(algorithm: str, layout: str, seed: int) -> str:
    """The name of a run's folder: any layout becomes a short name that every system can write."""
    return f"{algorithm}-{short_name(layout)}-{seed}-{time.strftime('%Y%m%d-%H%M%S')}"


def short_name(layout: str) -> str:
    """A layout's name, the stem of its file's name, or `custom` for its text."""
    if "\n" in layout.strip():
        return "custom"
    return re.sub(r"[^\w.+-]+", "_", Path(layout).stem)[:60] or "custom"


def discard_unused(folder: Path) -> None:
    """Removes the folder of a run that ended before it learned anything."""
    with contextlib.suppress(OSError):
        if not (folder / "metrics.csv").exists():
            (folder / "checkpoints").rmdir()
            (folder / "config.toml").unlink()
            folder.rmdir()


def _claim(folder: Path, overwrite: bool, settings: str) -> Path:
    used = UsageError(
        f"The folder {str(folder)!r} exists and is not empty: choose another --out, or add "
        "--overwrite to replace the run in it."
    )
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
        if not folder.is_dir():
            raise UsageError(f"{str(folder)!r} is no folder: choose another --out.")
        if any(folder.iterdir()) and not overwrite:
            raise used
        if overwrite:
            _clear(folder)
        with (folder / "config.toml").open("x", encoding="utf-8") as file:
            file.write(settings)
        (folder / "checkpoints").mkdir(exist_ok=True)
    except FileExistsError as error:
        raise used from error
    except OSError as error:
        raise _cannot_be_written(folder, error) from error
    return folder


def _clear(folder: Path) -> None:
    for name in FILES:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _cannot_be_written(folder: Path, error: OSError) -> RunError:
    return RunError(f"The folder {str(folder)!r} cannot be written: {reason(error)}.")
