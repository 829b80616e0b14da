"""The names of the files of a run, and the metadata of its checkpoints."""

import os
import re
from pathlib import Path
from typing import Annotated, NotRequired, TypedDict

import msgspec
from msgspec import Meta

import agents
from agents import CheckpointError

from ._named import Table

IDENTITY = "identity"
"""The entry of the metadata with the settings that identify a run."""
PARTNERS = "partners"
"""The entry of a policy with the policies that were its partners in training."""

_Count = Annotated[int, Meta(ge=0, le=2**62)]


class _Settings(TypedDict, total=False):
    """The settings of a run; `config_from` checks all other entries."""

    algorithm: str


class _Partner(TypedDict):
    """The policy file of a partner, its `checksum`, and the `run_digest` of its run."""

    name: str
    sha256: str
    run: NotRequired[str | None]


class _Metadata(TypedDict, total=False):
    """The entries of the metadata that are used; others, such as event counts, may be present."""

    update: _Count
    num_updates: _Count
    env_steps: _Count
    stage: Annotated[int, Meta(ge=1, le=2**31)]
    eval_return_mean: float
    chosen_by: float
    checkpoint: str
    ended: str
    runs: list[str]
    members: list[dict[str, float]]
    run: _Settings
    partners: list[_Partner]


def read_metadata(path: Path) -> Table:
    """Reads the metadata of a checkpoint with `agents.read_metadata`, and checks their types.

    **Arguments:**

    - `path`: the checkpoint.

    **Returns:** the metadata.

    **Raises:** `CheckpointError` when the checkpoint is missing or damaged, or an entry has a type
    that runs do not write.
    """
    metadata = agents.read_metadata(path)
    try:
        msgspec.convert(metadata, _Metadata)
    except msgspec.ValidationError as error:
        says = str(error).partition("\n")[0]
        raise CheckpointError(
            f"The metadata of {str(path)!r} does not belong to a run: {says:.200}."
        ) from error
    return metadata


SETTINGS_FILE, VIDEO_FILE = "config.toml", "episode.gif"
SWEEP_FILE = "sweep.json"
"""The file that marks the folder of a sweep."""
ABANDONED = ".abandoned"
"""The suffix of a checkpoint from steps that a resumed run has discarded."""
WANDB_ID = "wandb-id.txt"
"""The file with the id of the Weights & Biases run, which a resumed run continues."""

_FILES = (
    *("result.json", "curve.png", VIDEO_FILE, "metrics.csv", SETTINGS_FILE),
    *("checkpoints/last.safetensors", "checkpoints/best.safetensors", "policy.safetensors"),
)
"""The files that every complete run has."""

RESULTS = ("result.json", "policy.safetensors", "checkpoints/last.safetensors")
"""The files that --auto-resume never replaces by those of a new run."""

_PATTERN = re.compile(
    r"(config\.toml|wandb-id\.txt|metrics\.csv|result\.json|(curve|confusion)\.png|episode\.gif|policy\.safetensors"
    r"|checkpoints/(last|best|seeds|(step|best|seeds)-[0-9]+)\.safetensors(\.abandoned)?"
    r"|tensorboard/events\.out\.tfevents\.[^/]+"
    r"|trace/plugins/profile/[^/]+/[^/]+\.(xplane\.pb|json\.gz))(\.partial)?"
)
"""The paths of all files that a run can write, including optional files and unfinished ones
(`.partial`). The files in `wandb/` are left out: their names are unique to each run, and they may
not be uploaded yet.
"""
_FOLDERS = ("checkpoints", "tensorboard", "trace")


def is_complete(folder: Path, video: bool = True) -> bool:
    """Whether a run has written all its files; `video` sets whether they include a GIF."""
    names = (name for name in _FILES if video or name != VIDEO_FILE)
    return all(os.path.lexists(folder / name) for name in names)


def has_checkpoint(folder: Path) -> bool:
    """Whether a folder has the latest state of a run, of several seeds, or of a group of seeds."""
    names = ("last", "seeds", "seeds-*")
    return any(any(folder.glob(f"checkpoints/{name}.safetensors")) for name in names)


def has_learned(folder: Path) -> bool:
    """Whether the folder of a run has any results, beyond its settings."""
    files = [name for name in _FILES if name != SETTINGS_FILE]
    return any(os.path.lexists(folder / name) for name in files)


def seed_folders(folder: Path) -> list[Path]:
    """The folders of the seeds in the folder of a run with several seeds, sorted by seed."""
    found = [path for path in folder.glob("seed-*") if re.fullmatch(r"seed-[0-9]+", path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("seed-")))


def own_files(folder: Path) -> list[Path]:
    """The files of a run in a folder, by their names; the settings file comes last.

    Links are included. Files in the folders of seeds (see `seed_folders`) are left out.
    """
    # Links to folders are not followed.
    inside = list(folder.iterdir()) if _is_folder(folder) else []
    for part in filter(_is_folder, (folder / name for name in _FOLDERS)):
        inside += part.rglob("*")
    found = [x for x in inside if _PATTERN.fullmatch(x.relative_to(folder).as_posix())]
    return sorted(found, key=lambda path: (path.name == SETTINGS_FILE, path))


def links(folder: Path) -> list[Path]:
    """The paths in a folder that a run cannot use: links, files in place of folders, and anything
    but files in place of files.
    """
    entries = [folder / name for name in _FOLDERS] + seed_folders(folder)
    return [
        *(path for path in entries if os.path.lexists(path) and not _is_folder(path)),
        *(path for path in own_files(folder) if path.is_symlink() or not path.is_file()),
    ]


def _is_folder(path: Path) -> bool:
    """Whether it is a folder, and not a link to a folder."""
    return path.is_dir() and not path.is_symlink()
