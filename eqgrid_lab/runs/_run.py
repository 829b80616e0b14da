"""`Run`: the settings, the stages and the history of a run; `Plan`: what is built from the settings
of a stage.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import final

import equinox as eqx
import jax
from jax.sharding import Mesh
from jaxtyping import PRNGKeyArray

from agents import (
    AbstractCheckedAlgorithm,
    AbstractTrainState,
    check_even,
    describe_policy,
    device_mesh,
)
from eqgrid import (
    AbstractEnv,
    AbstractVectorEnv,
    AbstractWrapper,
    NormalizeObservation,
    Scheduled,
    Vectorize,
    WithPartner,
    contains_wrapper,
    unwrap,
)
from eqgrid.grid import RandomLayouts

from ..base import (
    PARTNERS,
    Process,
    Table,
    UsageError,
    as_usage_error,
    warn,
)
from ..folders import History
from ..settings import Experiment, PartnerSettings, script_errors, to_table
from ..worlds import WorldSettings
from ._curriculum import Stage
from ._evaluator import evaluated_metrics
from ._policies import check_trained_here, portable, written_out


@final
@dataclasses.dataclass(frozen=True)
class Plan:
    """The environments of a stage, and the numbers of updates and steps of its run.

    **Arguments:**

    - `settings`: the settings of the world, with layout files replaced by their text.
    - `world`: the world of evaluations and videos.
    - `parts`: the worlds of a mixture of layouts, by name; empty for a single layout.
    - `totals`: the entries of `info` that are summed over episodes; see `Experiment.totals`.
    - `train_env`, `eval_env`: the training environments and the evaluation environments.
    - `num_updates`: the number of updates of the whole run.
    - `updates_per_block`: the number of updates between two evaluations.
    - `steps_per_update`: the environment steps of one update, over all environments.
    - `mesh`: the devices to train on, if there are several.
    - `partners`: the names and checksums (SHA-256) of the policy files of partners.
    """

    settings: WorldSettings
    world: AbstractEnv
    parts: Mapping[str, RandomLayouts]
    totals: Mapping[str, tuple[str, ...]]
    train_env: AbstractVectorEnv
    eval_env: AbstractVectorEnv
    num_updates: int
    updates_per_block: int
    steps_per_update: int
    mesh: Mesh | None
    partners: tuple[dict[str, str | None], ...]


_EVAL_STEPS, _EVAL_UPDATES = 100_000, 10
"""By default, this many steps or updates, whichever is longer, are between two evaluations."""


def plan_stages(stages: Sequence[Stage]) -> tuple[Plan, ...]:
    """Makes the plan of each stage.

    **Raises:** `UsageError` when a stage cannot be built, or its observations or actions have other
    shapes than those of the first stage.
    """
    if len(stages) == 1 and stages[0].gate is None:
        return (_plan(stages[0]),)
    plans = []
    for number, stage in enumerate(stages, start=1):
        with as_usage_error(f"Stage {number} of the curriculum: ", UsageError):
            plans.append(_plan(stage))
            envs = [plan.eval_env for plan in (plans[0], plans[-1])]
            shown = [eqx.filter_eval_shape(x.reset, jax.random.key(0))[0] for x in envs]
            if not eqx.tree_equal(*shown) or not eqx.tree_equal(*(x.action_space for x in envs)):
                raise UsageError(
                    "its observations or actions differ from the first stage: a policy needs the "
                    "same shapes of observations and the same actions in all stages."
                )
    return tuple(plans)


def _plan(stage: Stage) -> Plan:
    """Makes the plan of one stage.

    **Raises:** `UsageError` when the settings cannot be built.
    """
    config = stage.config
    with script_errors(type(config)):
        # Layout files are read only here, so that the stored layout is the one used in training.
        config = dataclasses.replace(config, env=written_out(config.env))
        world, parts = config.env.build(train=False), stage.config.env.parts()
        partners = tuple(
            check_trained_here(x, config) for x in config.partners.files(config.env.title)
        )
        totals = config.totals(world)
        train_env = config.train_env()
        _check_partners_change(config, train_env)
        eval_env = config.eval_env(world, config.eval_episodes, tuple(totals))
        is_normalized = contains_wrapper(train_env, NormalizeObservation)
        if is_normalized != isinstance(eval_env, NormalizeObservation):
            raise UsageError(
                "Evaluations use the observation statistics of training: eval_env must return "
                "NormalizeObservation as the outermost wrapper if and only if train_env contains "
                "it."
            )
        policy = eqx.filter_eval_shape(config.policy, train_env, jax.random.key(0))
        learner = config.learner()
        if isinstance(learner, AbstractCheckedAlgorithm):
            learner.check(train_env, policy)
        mesh = _mesh(config)
    if stage.gate is not None:
        stage.gate.check(evaluated_metrics(totals))
    if (obstacle := config.env.obstacle()) is not None:
        warn(f"{obstacle} Training will end at a return of 0.")
    steps_per_update = learner.steps_per_update(train_env)
    num_updates = math.ceil(config.total_steps / steps_per_update)
    # With a large batch on a GPU, an evaluation takes as long as many training steps, so the
    # minimum is a number of updates.
    default = max(_EVAL_STEPS // steps_per_update, min(_EVAL_UPDATES, num_updates // 20))
    every = default if config.eval_every is None else config.eval_every // steps_per_update
    return Plan(
        config.env,
        world,
        parts,
        totals,
        train_env,
        eval_env,
        num_updates=num_updates,
        updates_per_block=max(1, every),
        steps_per_update=steps_per_update,
        mesh=mesh,
        partners=partners,
    )


def _check_partners_change(config: Experiment, train_env: AbstractVectorEnv) -> None:
    """Checks that the script adds the wrappers that the settings of partners need.

    **Raises:** `UsageError` when `train_env` does not contain such a wrapper.
    """
    batch = unwrap(train_env)

    def has(wrapper: type[AbstractWrapper]) -> bool:
        return isinstance(batch, Vectorize) and contains_wrapper(batch.env, wrapper)

    if config.partners.share_steps > 0 and not has(Scheduled):
        raise UsageError(
            "--partners.share-steps has no effect in this script: call self.anneal_partners on "
            "AutoReset in train_env, or leave it out."
        )
    if config.partners != PartnerSettings() and not has(WithPartner):
        raise UsageError(
            "--partners.share has no effect in this script, which trains without partners: call "
            "self.with_partners on the world in train_env, or leave out --partners and settings "
            "files with partners."
        )


def default_mesh(number: int) -> Mesh | None:
    """The devices for a number of runs if the user names none: the cores of a CPU, if they are
    devices of JAX and can share the runs evenly, and otherwise `None`, for the first device.
    """
    # A core trains runs of its own faster than XLA divides one program among cores. GPUs are not
    # used by default, because other commands may need them.
    if jax.default_backend() != "cpu":
        return None
    size = max(n for n in range(1, len(jax.devices()) + 1) if number % n == 0)
    return device_mesh(size) if size > 1 else None


def _mesh(config: Experiment) -> Mesh | None:
    """The devices to train on; `None` for a single device.

    **Raises:** `ValueError` when there are too few devices, or the seeds cannot be spread evenly
    over them. With a single seed, its environments are spread instead.
    """
    if config.devices is None:
        return default_mesh(config.num_seeds)
    if config.devices == 1:
        return None
    mesh = device_mesh(config.devices if isinstance(config.devices, int) else None)
    if config.num_seeds > 1:
        check_even(config.num_seeds, mesh, "seeds")
    else:
        check_even(config.num_envs, mesh)
    return mesh


@final
@dataclasses.dataclass(frozen=True)
class Run:
    """One run, in one process.

    **Arguments:**

    - `settings`: the settings of the whole run.
    - `stages`: its stages; a single one without a curriculum.
    - `plans`: the plan of each stage.
    - `process`: the process, with its clock and signals.
    - `folder`: the folder of the run.
    - `history`: the history of the run before this process.
    - `number`: the index of its current stage, from 0.
    """

    settings: Experiment
    stages: tuple[Stage, ...]
    plans: tuple[Plan, ...]
    process: Process
    folder: Path
    history: History = dataclasses.field(default_factory=History)
    number: int = 0

    @property
    def algorithm(self) -> str:
        """The name of the algorithm, in messages and names of files."""
        return self.settings.algorithm

    @functools.cached_property
    def table(self) -> Table:
        """The settings as a table, from `to_table`."""
        return to_table(self.settings)

    def describe(self, state: AbstractTrainState) -> Table:
        """The metadata of checkpoints: a description of the policy and the settings, from which the
        policy can be loaded, and its training partners.

        It is the same for all states of a stage.
        """
        config = dataclasses.replace(self.config, env=portable(self.plan.settings))
        plans = self.plans[: self.number + 1]
        partners = list({x["sha256"]: x for plan in plans for x in plan.partners}.values())
        return {
            **describe_policy(state, self.plan.train_env),
            "run": to_table(config),
            **({PARTNERS: partners} if partners else {}),
        }

    @property
    def stage(self) -> Stage:
        """The current stage."""
        return self.stages[self.number]

    @property
    def config(self) -> Experiment:
        """The settings of the current stage."""
        return self.stage.config

    @property
    def in_curriculum(self) -> bool:
        """Whether the run has a curriculum."""
        return bool(self.settings.stage)

    @property
    def is_last_stage(self) -> bool:
        return self.number == len(self.stages) - 1

    @functools.cached_property
    def keys(self) -> tuple[PRNGKeyArray, PRNGKeyArray, PRNGKeyArray]:
        """Three random keys: for training, for evaluations, and for the video."""
        return _three_keys(jax.random.key(self.settings.seed))

    @property
    def plan(self) -> Plan:
        """The plan of the current stage."""
        return self.plans[self.number]

    def seconds(self) -> float:
        """The wall-clock time of the run so far, in seconds, including earlier processes."""
        return self.history.wall_seconds + self.process.seconds()


@jax.jit
def _three_keys(key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray, PRNGKeyArray]:
    train_key, eval_key, video_key = jax.random.split(key, 3)
    return train_key, eval_key, video_key
