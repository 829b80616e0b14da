"""The metadata in the checkpoints of runs, checked when they are read."""

from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgspec
from msgspec import Meta

import agents
from agents import CheckpointError

IDENTITY = "identity"
"""The entry of the metadata with the settings that identify a run."""

_Count = Annotated[int, Meta(ge=0, le=2**62)]


class _Settings(TypedDict, total=False):
    """The settings of a run; `config_from` checks all the others."""

    algorithm: str


class _Metadata(TypedDict, total=False):
    """What is read of the metadata: there may be more, such as the counts of events."""

    update: _Count
    num_updates: _Count
    env_steps: _Count
    stage: Annotated[int, Meta(ge=1, le=2**31)]
    eval_return_mean: float
    chosen_by: float
    checkpoint: str
    runs: list[str]
    run: _Settings


def read_metadata(path: Path) -> dict[str, Any]:
    """`agents.read_metadata` of a file that a run wrote.

    **Raises:** `CheckpointError` when there is no checkpoint, or it is damaged, or an entry is not
    what a run writes.
    """
    metadata = agents.read_metadata(path)
    try:
        msgspec.convert(metadata, _Metadata)
    except msgspec.ValidationError as error:
        says = str(error).partition("\n")[0]
        raise CheckpointError(
            f"The metadata of {str(path)!r} are not those of a run: {says:.200}."
        ) from error
    return metadata
