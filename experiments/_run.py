"""What the parts of the program share: the settings of a run, and what follows from them."""

import dataclasses
from pathlib import Path
from typing import final

from jax.sharding import Mesh

from agents import TrainState
from eqgrid import AbstractVectorEnv
from experiments._config import Config
from experiments._history import History
from experiments._process import Process

NOTHING_LEARNED = "interrupted before anything was learned, so nothing was written."
STOP_CODES = {"interrupted": 130, "terminated": 143, "hung up": 129}
"""The exit codes of runs that a signal stopped."""


@final
@dataclasses.dataclass(frozen=True)
class Plan:
    """What follows from the settings: environments, and how many updates fit the steps."""

    train_env: AbstractVectorEnv
    eval_env: AbstractVectorEnv
    num_updates: int
    updates_per_block: int
    steps_per_update: int
    mesh: Mesh | None


@final
@dataclasses.dataclass(frozen=True)
class Run:
    """One run of one process.

    **Arguments:**

    - `algorithm`: its name, for people and for files.
    - `config`, `plan`: its settings, and what follows from them.
    - `process`: its clock, and the signals that ask it to end.
    - `folder`: where it writes.
    - `state`: where to go on from, of a run that is resumed.
    - `history`: what it did before this process.
    """

    algorithm: str
    config: Config
    plan: Plan
    process: Process
    folder: Path
    state: TrainState | None = None
    history: History = dataclasses.field(default_factory=History)

    def seconds(self) -> float:
        """How long it has taken so far, in all its processes."""
        return self.history.wall_seconds + self.process.seconds()
