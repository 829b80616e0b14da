"""The names of the files of a run, and the metadata of its checkpoints."""

import hashlib
import os
from pathlib import Path
from typing import Annotated, TypedDict

import msgspec
from msgspec import Meta

import agents
from agents import CheckpointError

from ._named import Table

_Count = Annotated[int, Meta(ge=0, le=2**62)]


class _Metadata(TypedDict, total=False):
    """The entries of the metadata that are used; others, such as event counts, may be present."""

    update: _Count
    env_steps: _Count


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
CHECKPOINT = "checkpoints/last.safetensors"
"""The file with the latest state of a run."""
WANDB_ID = "wandb-id.txt"
"""The file with the id of the Weights & Biases run, which a resumed run continues."""

RESULTS = ("result.json", "policy*.safetensors")
"""The results of a run, as patterns, which only a resumed run replaces."""


def has_checkpoint(folder: Path) -> bool:
    """Whether a folder has the latest state of a run."""
    return os.path.exists(folder / CHECKPOINT)


def digest(path: Path) -> str:
    """The checksum (SHA-256) of a file. **Raises:** `OSError` when it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
