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
WANDB_ID = "wandb-id.txt"
"""The file with the id of the Weights & Biases run, which a resumed run continues."""

_FILES = (
    *("result.json", "curve.png", VIDEO_FILE, "metrics.csv", SETTINGS_FILE),
    *("checkpoints/last.safetensors", "checkpoints/best.safetensors", "policy.safetensors"),
)
"""The files that every complete run has."""

RESULTS = ("result.json", "policy.safetensors")
"""The results of a run, which a run in the same folder replaces only if it resumes it."""


def is_complete(folder: Path, video: bool = True) -> bool:
    """Whether a run has written all its files; `video` sets whether they include a GIF."""
    names = (name for name in _FILES if video or name != VIDEO_FILE)
    return all(os.path.lexists(folder / name) for name in names)


def has_checkpoint(folder: Path) -> bool:
    """Whether a folder has the latest state of a run or of several seeds."""
    return any(os.path.exists(folder / f"checkpoints/{x}.safetensors") for x in ("last", "seeds"))


def seed_folders(folder: Path) -> list[Path]:
    """The folders of the seeds in the folder of a run with several seeds, sorted by seed."""
    found = [path for path in folder.glob("seed-*") if re.fullmatch(r"seed-[0-9]+", path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("seed-")))
