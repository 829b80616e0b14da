"""What the parts of the program share: the settings of a run, and what follows from them."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import jax
from jax.sharding import Mesh
from jaxtyping import PRNGKeyArray

from agents import TrainState
from agents.runs._process import Process
from agents.runs.folders._history import History
from agents.runs.settings._experiment import Experiment
from agents.runs.worlds._world_config import AbstractWorldConfig
from eqgrid import AbstractEnv, AbstractVectorEnv
from eqgrid.grid import RandomLayouts

from ._curriculum import Stage
from ._identity import identity

STOP_CODES = {"interrupted": 130, "terminated": 143, "hung up": 129}
"""The exit codes of runs that a signal stopped."""


@final
@dataclasses.dataclass(frozen=True)
class Plan:
    """What follows from the settings: environments, and how many updates fit the steps.

    **Arguments:**

    - `settings`: those of the world, with the text of a layout in the place of its file.
    - `world`: the world of evaluations and films.
    - `parts`: the worlds that are trained in side by side, by name, where there are several.
    - `train_env`, `eval_env`: as many environments as are trained in, and evaluated in.
    - `num_updates`: how many updates the run has.
    - `updates_per_block`, `steps_per_update`: updates between two evaluations, and what one takes.
    - `mesh`: the devices to train on, where there are several.
    """

    settings: AbstractWorldConfig
    world: AbstractEnv
    parts: Mapping[str, RandomLayouts]
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

    - `settings`: those of the whole run.
    - `stages`, `plans`: its stages, at least one, and what follows from their settings.
    - `process`: its clock, and the signals that ask it to end.
    - `folder`: where it writes.
    - `files`: what `digests` said of the files that its settings name.
    - `state`: where to go on from, of a run that is resumed.
    - `history`: what it did before this process.
    - `number`: which stage it is in, from 0.
    """

    settings: Experiment
    stages: tuple[Stage, ...]
    plans: tuple[Plan, ...]
    process: Process
    folder: Path
    files: Mapping[str, str]
    state: TrainState | None = None
    history: History = dataclasses.field(default_factory=History)
    number: int = 0

    @property
    def algorithm(self) -> str:
        """Its name, for people and for files."""
        return self.settings.algorithm

    @property
    def identity(self) -> dict[str, Any]:
        """What its checkpoints say of it, whatever its settings file says later."""
        return identity(self.settings, self.files)

    @property
    def stage(self) -> Stage:
        """The stage that it is in."""
        return self.stages[self.number]

    @property
    def config(self) -> Experiment:
        """The settings of that stage."""
        return self.stage.config

    @property
    def in_curriculum(self) -> bool:
        """Whether it has stages that were asked for."""
        return bool(self.settings.stage)

    @property
    def is_last_stage(self) -> bool:
        return self.number == len(self.stages) - 1

    @property
    def keys(self) -> PRNGKeyArray:
        """One key each for training, for evaluations and for the film."""
        return jax.random.split(jax.random.key(self.settings.seed), 3)

    @property
    def plan(self) -> Plan:
        """What follows from them."""
        return self.plans[self.number]

    @property
    def candidate_updates(self) -> int:
        """How many updates its candidates have, if there are several: whole blocks."""
        block = self.candidate_block
        return self._most_of_candidates // block * block if block else 0

    @property
    def candidate_block(self) -> int:
        """How many updates they have between two evaluations: about as many as the run, so that
        blocks of equal length leave little out.
        """
        blocks = math.ceil(self._most_of_candidates / self.plan.updates_per_block)
        return self._most_of_candidates // max(1, blocks)

    @property
    def _most_of_candidates(self) -> int:
        if self.config.candidates == 1:
            return 0
        updates = self.config.candidate_steps // self.plan.steps_per_update
        return min(updates, self.plan.num_updates // 2)

    @property
    def steps_of_others(self) -> int:
        """How many environment steps the candidates had that did not go on."""
        own = self.candidate_updates * self.plan.steps_per_update
        return (self.config.candidates - 1) * own

    def seconds(self) -> float:
        """How long it has taken so far, in all its processes."""
        return self.history.wall_seconds + self.process.seconds()
