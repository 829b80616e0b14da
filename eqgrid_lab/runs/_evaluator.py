"""Evaluates the current policies during training, with programs that are compiled in a thread."""

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import chain
from typing import Any, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray, Shaped

from agents import (
    AbstractTrainState,
    ActorCritic,
    Evaluation,
    TrainProgress,
    compile_evaluation,
    evaluate,
)
from agents.training import on_each_device
from eqgrid import AbstractVectorEnv, NormalizeObservation
from eqgrid.typing import PyTree

from ..show import mean_returns, returns_of_agents


def evaluated_metrics(totals: Mapping[str, Sequence[str]]) -> list[str]:
    """The names of the metrics of whole episodes, which the gate of a stage can use.

    **Arguments:**

    - `totals`: as in `mean_totals`.
    """
    return ["eval_return_mean", "eval_return_std", "eval_length_mean", *chain(*totals.values())]


def mean_totals(
    episodes: Evaluation, totals: Mapping[str, Sequence[str]]
) -> dict[str, Float[np.ndarray, " agents"]]:
    """The means over episodes of the summed entries of `info`, for each agent.

    **Arguments:**

    - `episodes`: the episodes.
    - `totals`: the names of the summed entries, and the columns for each of them, as in
        `WorldSettings.totals`.

    **Returns:** the means by column.
    """
    means = {}
    for name, columns in totals.items():
        if not columns:  # a world without events
            continue
        of_agents = np.asarray(episodes.totals[name]).mean(axis=0).reshape(-1, len(columns))
        means |= dict(zip(columns, of_agents.T, strict=True))
    return means


def team_returns(episodes: Evaluation) -> Float[np.ndarray, " episodes"]:
    """The return of each episode: the mean over its agents."""
    return np.asarray(episodes.episode_return).mean(axis=-1)


@final
@dataclasses.dataclass(frozen=True)
class Evaluator:
    """Evaluates the current policy of one run, with frozen observation statistics.

    **Arguments:**

    - `env`: the evaluation environments, each of which plays one episode.
    - `key`: the source of randomness, independent of training.
    - `clock`: returns the seconds since the run started.
    - `rows`: the results of the evaluations so far; new ones are appended.
    - `totals`: as in `mean_totals`.
    - `count`: counts the steps of the current stage, in a curriculum.
    """

    env: AbstractVectorEnv
    key: PRNGKeyArray
    clock: Callable[[], float]
    rows: list[dict[str, float]] = dataclasses.field(default_factory=list)
    totals: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    count: Callable[[dict[str, float]], dict[str, float]] | None = None

    def __call__(self, progress: TrainProgress) -> dict[str, float]:
        """Evaluates the policy after a block of updates. It is the `measure` of `train`."""
        return self.add(progress, next(self.play(progress.state, progress.updates)))

    def add(self, progress: TrainProgress, episodes: Evaluation) -> dict[str, float]:
        """Appends the result of an evaluation to the rows, and returns it.

        **Arguments:**

        - `progress`: the progress of the run.
        - `episodes`: the episodes of the evaluation.
        """
        row = {
            "env_steps": progress.env_steps,
            "wall_seconds": self.clock(),
            **mean_returns(np.asarray(episodes.episode_return), each=self.returns_differ),
            "eval_length_mean": float(np.asarray(episodes.episode_length).mean()),
        }
        for name, of_agents in mean_totals(episodes, self.totals).items():
            row[name] = float(of_agents.sum())
        if self.count is not None:
            row |= self.count(row)
        self.rows.append(row)
        return row

    @property
    def returns_differ(self) -> bool:
        """Whether the agents' returns differed in an evaluation so far."""
        return bool(self.rows) and bool(returns_of_agents(self.rows[-1]))

    def program(self, state: AbstractTrainState) -> Callable[[], None]:
        """A function that compiles the program of evaluations, for states of the same shapes."""
        env = frozen(self.env, state.runner.env_state)
        return functools.partial(compile_evaluation, state.policy, env)

    def play(
        self, state: AbstractTrainState, number: int, repeats: int = 1
    ) -> Iterator[Evaluation]:
        """Plays batches of episodes, one episode in each environment.

        **Arguments:**

        - `state`: the training state, with the policy and the observation statistics.
        - `number`: the number of the evaluation, which determines its random keys.
        - `repeats`: the number of batches.
        """
        env = frozen(self.env, state.runner.env_state)
        for key in _keys(self.key, np.uint32(number), repeats):
            yield evaluate(state.policy, env, key)


@functools.partial(jax.jit, static_argnames="repeats")
def _keys(key: PRNGKeyArray, number: Int[ArrayLike, ""], repeats: int) -> tuple[PRNGKeyArray, ...]:
    """The keys of an evaluation. It is one compiled program, since each of its operations would
    otherwise be compiled separately.
    """
    return tuple(jax.random.split(jax.random.fold_in(key, number), repeats))


def frozen(env: AbstractVectorEnv, env_state: PyTree) -> AbstractVectorEnv:
    """The environments with observation statistics frozen at the statistics of training.

    Environments without `NormalizeObservation` are returned unchanged.

    **Arguments:**

    - `env`: the evaluation environments.
    - `env_state`: the state of the training environments.
    """
    return env.freeze(env_state) if isinstance(env, NormalizeObservation) else env


@final
class EvaluatorOfMany:
    """Evaluates the current policies of several runs in one program.

    Each run plays the same episodes as with its own evaluator. If the runs train on several
    devices, each device evaluates its own runs, and does not wait for the other devices.
    """

    def __init__(self, evaluators: Sequence[Evaluator], mesh: Mesh | None = None):
        self.evaluators, self.mesh = evaluators, mesh
        self.keys = jnp.stack([evaluator.key for evaluator in evaluators])

    def __call__(self, progress: TrainProgress) -> dict[str, float]:
        """Evaluates all policies, and returns means over the runs, as the `measure` of `train`."""
        episodes = self.play(progress.state, progress.updates)
        rows = []
        for i, evaluator in enumerate(self.evaluators):
            of_run = jax.tree.map(lambda x, i=i: x[i], episodes)
            rows.append(evaluator.add(progress, of_run))
        names = [name for name in rows[0] if all(name in row for row in rows)]
        return {name: float(np.mean([row[name] for row in rows])) for name in names}

    def program(self, state: AbstractTrainState) -> Callable[[], None]:
        """A function that compiles the program of evaluations, for states of the same shapes."""
        program: Any = _play_all
        args = self._arguments(state, 0)
        return lambda: program.lower(*args).compile()

    def play(self, state: AbstractTrainState, number: int) -> Evaluation:
        """Plays one batch of episodes for every run.

        **Arguments:**

        - `state`: the training states, with a leading axis of runs.
        - `number`: the number of the evaluation, which determines its random keys.

        **Returns:** the episodes, whose arrays have a leading axis of runs.
        """
        return jax.tree.map(np.asarray, _play_all(*self._arguments(state, number)))

    def _arguments(self, state: AbstractTrainState, number: int) -> tuple[Any, ...]:
        env, evaluation = self.evaluators[0].env, jnp.asarray(np.uint32(number))
        runs = state.policy, state.runner.env_state, self.keys
        return self.mesh, runs, env, evaluation


Runs: TypeAlias = tuple[ActorCritic, PyTree, Shaped[PRNGKeyArray, " runs"]]
"""The policy, the state of the environments, and the key of several runs."""


@eqx.filter_jit
def _play_all(
    mesh: Mesh | None, runs: Runs, env: AbstractVectorEnv, number: Int[Array, ""]
) -> Evaluation:
    """Plays the episodes of every run, on the devices of the mesh."""
    if mesh is None:
        return _play_runs(runs, env, number)
    arrays, rest = eqx.partition((runs, env), eqx.is_array)
    axes = jax.tree.map(lambda _: 0, arrays[0]), jax.tree.map(lambda _: None, arrays[1])

    def play_own(arrays: PyTree, number: Int[Array, ""]) -> tuple[Evaluation, tuple[()]]:
        runs, env = eqx.combine(arrays, rest)
        return _play_runs(runs, env, number), ()

    return on_each_device(play_own, arrays, number, axes=axes, mesh=mesh)[0]


def _play_runs(runs: Runs, env: AbstractVectorEnv, number: Int[Array, ""]) -> Evaluation:
    """Plays the episodes of every run with the same keys as its own evaluator."""

    def play(policy: ActorCritic, env_state: PyTree, key: PRNGKeyArray) -> Evaluation:
        return evaluate(policy, frozen(env, env_state), _keys(key, number, 1)[0])

    return eqx.filter_vmap(play)(*runs)


@contextlib.contextmanager
def compiled_ahead(programs: Sequence[Callable[[], object]]) -> Iterator[Callable[[], None]]:
    """Context manager that compiles programs in a thread, while the code inside compiles and runs
    other programs. This saves time, because XLA releases the lock of the interpreter.

    An error in the thread is ignored, since running the program raises it again.

    **Arguments:**

    - `programs`: functions that compile one program each. The first one starts at once.

    **Returns:** a function that waits for the first program, and then starts the others.
    """
    pool, remaining = ThreadPoolExecutor(1, "compiler"), iter(programs)
    first = [pool.submit(program) for program in itertools.islice(remaining, 1)]

    def wait_for_first() -> None:
        wait(first)
        for program in remaining:  # empty after the first call
            pool.submit(program)

    try:
        yield wait_for_first
    finally:
        pool.shutdown(wait=False)
