"""The names of the files of a run."""

import hashlib
import os
from pathlib import Path

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
