"""The files that a run writes, by name."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

SETTINGS_FILE, FILM_FILE = "config.toml", "episode.gif"
CANDIDATES_FILE = "checkpoints/candidates.safetensors"
"""Where the candidates of a run are while they learn."""
ABANDONED = ".abandoned"
"""How the name of a checkpoint ends that belongs to steps from which no run went on."""
OLDER = "older-run"
"""Where an older run is until the one that replaces it has learned something."""

_FILES = (
    *("result.json", "curve.png", FILM_FILE, "metrics.csv", SETTINGS_FILE),
    *("checkpoints/last.safetensors", "checkpoints/best.safetensors", "policy.safetensors"),
)
"""What every run writes, at its end at the latest."""

_PATTERN = re.compile(
    r"(config\.toml|metrics\.(csv|jsonl)|result\.json|curve\.png|episode\.gif|policy\.safetensors"
    r"|checkpoints/(last|best|seeds|candidates|(step|best)-[0-9]+)\.safetensors(\.abandoned)?"
    r"|tensorboard/events\.out\.tfevents\.[^/]+"
    r"|trace/plugins/profile/[^/]+/[^/]+\.(xplane\.pb|json\.gz))(\.partial)?"
)
"""All that a run writes, with what is written when it is asked to. What Weights & Biases writes is
left out: each of its runs has a name of its own, and may not be uploaded yet.
"""
_FOLDERS = ("checkpoints", "tensorboard", "trace")


def is_complete(folder: Path, film: bool = True) -> bool:
    """Whether a run has written all its files, with or without a film."""
    names = (name for name in _FILES if film or name != FILM_FILE)
    return all(os.path.lexists(folder / name) for name in names)


def has_learned(folder: Path) -> bool:
    """Whether there is anything in the folder of a run that would be missed."""
    files = (*(name for name in _FILES if name != SETTINGS_FILE), CANDIDATES_FILE)
    return any(os.path.lexists(folder / name) for name in files)


def seed_folders(folder: Path) -> list[Path]:
    """The folders of the seeds in that of a run with many seeds, in the order of their numbers."""
    found = [path for path in folder.glob("seed-*") if re.fullmatch(r"seed-[0-9]+", path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("seed-")))


def own_files(folder: Path) -> list[Path]:
    """What has the name of a file that a run writes, links among them; the settings are the last.

    Seeds have folders of their own: `seed_folders`.
    """
    found = [path for path in _inside(folder) if _PATTERN.fullmatch(_name(path, folder))]
    return sorted(found, key=lambda path: (path.name == SETTINGS_FILE, path))


def links(folder: Path) -> list[Path]:
    """What a run would write or look into, but is a link, or a folder in the place of a file."""
    entries = [folder / name for name in (*_FOLDERS, OLDER)] + seed_folders(folder)
    return [
        *(path for path in entries if os.path.lexists(path) and not _is_folder(path)),
        *(path for path in own_files(folder) if path.is_symlink() or not path.is_file()),
    ]


def _inside(folder: Path) -> Iterator[Path]:
    """All that is in a folder and in those in it that a run makes; links are not followed."""
    if not _is_folder(folder):
        return
    yield from folder.iterdir()
    for name in _FOLDERS:
        if _is_folder(folder / name):
            yield from (folder / name).rglob("*")


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
