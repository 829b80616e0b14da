"""A run: its settings, what follows from them, and how far it is."""

import dataclasses
import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
from jax.sharding import Mesh
from jaxtyping import PRNGKeyArray

from agents import TrainState, check_even, describe_policy, device_mesh, is_first
from agents.runs._command import Process
from agents.runs._metadata import IDENTITY
from agents.runs.display._errors import UsageError, as_usage_error, warn
from agents.runs.folders._history import History
from agents.runs.settings._experiment import Experiment
from agents.runs.settings._file import dump
from agents.runs.worlds._world_config import AbstractWorldConfig, check_same_game
from eqgrid import AbstractEnv, AbstractVectorEnv
from eqgrid.grid import RandomLayouts

from ._curriculum import Stage
from ._evaluator import evaluated_metrics
from ._identity import identity
from ._policies import portable, world_of, written_out

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


def plan_stages(stages: Sequence[Stage]) -> tuple[Plan, ...]:
    """What follows from the settings of each stage.

    **Raises:** `UsageError` when they cannot be built, or when a policy cannot go from one stage to
    the next.
    """
    if len(stages) == 1 and stages[0].gate is None:
        return (_plan(stages[0]),)
    plans = []
    for number, stage in enumerate(stages, start=1):
        with as_usage_error(f"Stage {number} of the curriculum: ", UsageError):
            plans.append(_plan(stage))
            _check_shapes(plans[0], plans[-1])
    return tuple(plans)


def _check_shapes(first: Plan, plan: Plan) -> None:
    """**Raises:** `UsageError` when a policy for the first world does not fit into the other."""
    seen = [eqx.filter_eval_shape(x.eval_env.reset, jax.random.key(0))[0] for x in (first, plan)]
    spaces = [x.eval_env.action_space for x in (first, plan)]
    if not eqx.tree_equal(*seen) or not eqx.tree_equal(*spaces):
        raise UsageError(
            "its agents see or do other things than those of the first stage: a policy can only go "
            "on where the shapes of observations and the actions are the same."
        )


def _plan(stage: Stage) -> Plan:
    """**Raises:** `UsageError` when the settings cannot be built."""
    config = stage.config
    with as_usage_error():
        # A file is read once, so that a policy is stored with the very layout that it learned in.
        config = dataclasses.replace(config, env=written_out(config.env))
        world, parts = config.env.build(train=False), stage.config.env.parts()
        check_partners(config)
        train_env = config.train_env()
        totals = config.env.totals(world)
        eval_env = config.eval_env(world, config.eval_episodes, tuple(totals))
        policy = eqx.filter_eval_shape(config.policy, train_env, jax.random.key(0))
        config.learner().check(train_env, recurrent=policy.recurrent)
        mesh = _mesh(config)
    if stage.gate is not None:
        stage.gate.check(evaluated_metrics(totals))
    if (obstacle := config.env.obstacle()) is not None and is_first():
        warn(f"{obstacle} Training will end at a return of 0.")
    steps_per_update = config.num_envs * config.ppo.rollout_length
    return Plan(
        config.env,
        world,
        parts,
        train_env,
        eval_env,
        num_updates=math.ceil(config.total_steps / steps_per_update),
        updates_per_block=max(1, config.eval_every // steps_per_update),
        steps_per_update=steps_per_update,
        mesh=mesh,
    )


def check_partners(config: Experiment) -> None:
    """**Raises:** `UsageError` when a partner was trained in another world or with other rules."""
    for path in config.partners.found().policies:
        if (trained_in := world_of(Path(path))) is not None:
            check_same_game(f"The partner {path!r}", trained_in, "this run", config.env)


def _mesh(config: Experiment) -> Mesh | None:
    """The devices to train on, where there are several.

    **Raises:** `ValueError` when there are not as many, or environments cannot be spread evenly.
    """
    if config.devices == 1 and not config.distributed:
        return None
    everywhere = config.distributed or config.devices == "all"
    mesh = device_mesh(None if everywhere else int(config.devices))
    check_even(config.num_envs, mesh)
    return mesh


@final
@dataclasses.dataclass(frozen=True)
class Run:
    """One run of one process.

    **Arguments:**

    - `settings`: those of the whole run.
    - `stages`, `plans`: its stages, at least one, and what follows from their settings.
    - `process`: its clock and its signals.
    - `folder`: where it writes.
    - `files`: the `digests` of the files that its settings name.
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
        """The entry of its checkpoints about its settings and their files."""
        return identity(self.settings, self.files)

    def describe(self, state: TrainState) -> dict[str, Any]:
        """The entries of a checkpoint with which its policy can be loaded without the run's folder:
        the policy and the settings. They are the same for all states of a stage.
        """
        config = dataclasses.replace(self.config, env=portable(self.plan.settings))
        return {
            **describe_policy(state, self.plan.train_env),
            "run": tomllib.loads(dump(config)),
            IDENTITY: self.identity,
        }

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
