"""Evaluations during a run: episodes with the newest policy, whose results all hooks share."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree, Shaped

from agents import ActorCritic, Evaluation, TrainProgress, TrainState, evaluate
from eqgrid import AbstractVectorEnv, NormalizeObservation


def evaluated_metrics(totals: Mapping[str, Sequence[str]]) -> list[str]:
    """The names of what is measured in whole episodes, with these totals."""
    return ["eval_return_mean", "eval_return_std", "eval_length_mean", *chain(*totals.values())]


def mean_totals(
    episodes: Evaluation, totals: Mapping[str, Sequence[str]]
) -> dict[str, Float[np.ndarray, " agents"]]:
    """What was summed in an episode, on average, for every agent.

    **Arguments:**

    - `episodes`: those that were played.
    - `totals`: what was summed in them, and the names of the numbers in it, as in
        `AbstractWorldConfig.totals`.
    """
    means = {}
    for name, columns in totals.items():
        if not columns:  # a world without events
            continue
        of_agents = np.asarray(episodes.totals[name]).mean(axis=0).reshape(-1, len(columns))
        means |= dict(zip(columns, of_agents.T, strict=True))
    return means


def team_returns(episodes: Evaluation) -> Float[np.ndarray, " episodes"]:
    """The return of each episode, as the mean over its agents."""
    return np.asarray(episodes.episode_return).mean(axis=-1)


@final
@dataclasses.dataclass(frozen=True)
class Evaluator:
    """Plays episodes with the newest policy, with keys of its own and fixed statistics.

    **Arguments:**

    - `env`: as many environments as episodes are to be played.
    - `key`: the source of the evaluations' randomness.
    - `clock`: seconds since the run started.
    - `rows`: the results of the evaluations so far; new ones are appended.
    - `totals`: what the environments sum in an episode, and the names of the numbers in it, as in
        `AbstractWorldConfig.totals`.
    """

    env: AbstractVectorEnv
    key: PRNGKeyArray
    clock: Callable[[], float]
    rows: list[dict[str, float]] = dataclasses.field(default_factory=list)
    totals: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)

    def __call__(self, progress: TrainProgress) -> dict[str, float]:
        """What `train` measures after every block."""
        return self.add(progress, next(self.play(progress.state, progress.updates)))

    def add(self, progress: TrainProgress, episodes: Evaluation) -> dict[str, float]:
        """Appends the result of an evaluation to the rows."""
        returns = team_returns(episodes)
        row = {
            "env_steps": progress.env_steps,
            "wall_seconds": self.clock(),
            "eval_return_mean": float(returns.mean()),
            "eval_return_std": float(returns.std()),
            "eval_length_mean": float(np.asarray(episodes.episode_length).mean()),
        }
        for name, of_agents in mean_totals(episodes, self.totals).items():
            row[name] = float(of_agents.sum())
        self.rows.append(row)
        return row

    def play(self, state: TrainState, number: int, repeats: int = 1) -> Iterator[Evaluation]:
        """Batches of episodes, one in each environment.

        **Arguments:**

        - `state`: with the policy, and the statistics that training has arrived at.
        - `number`: which evaluation this is; equal numbers play equal episodes.
        - `repeats`: how many batches.
        """
        env = frozen(self.env, state.runner.env_state)
        for key in jax.random.split(jax.random.fold_in(self.key, number), repeats):
            yield evaluate(state.policy, env, key)


def frozen(env: AbstractVectorEnv, env_state: PyTree) -> AbstractVectorEnv:
    """`env` with the statistics that training has arrived at, if it normalises at all."""
    return env.freeze(env_state) if isinstance(env, NormalizeObservation) else env


@final
class EvaluatorOfMany:
    """Plays episodes with the newest policies of all runs at once: for each run those that its
    own evaluator would play.
    """

    def __init__(self, evaluators: Sequence[Evaluator]):
        self.evaluators = evaluators
        self.keys = jnp.stack([evaluator.key for evaluator in evaluators])

    def __call__(self, progress: TrainProgress) -> dict[str, float]:
        """What `train` measures after every block: the mean over the runs."""
        episodes = self.play(progress.state, progress.updates)
        rows = []
        for i, evaluator in enumerate(self.evaluators):
            own = jax.tree.map(lambda x, i=i: x[i], episodes)
            rows.append(evaluator.add(progress, own))
        return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}

    def play(self, state: TrainState, number: int) -> Evaluation:
        """The episodes of every run.

        **Arguments:**

        - `state`: the states of all runs in one.
        - `number`: which evaluation this is; equal numbers play equal episodes.
        """
        env, env_state = self.evaluators[0].env, state.runner.env_state
        which = jnp.asarray(np.uint32(number))
        episodes = _play_all(state.policy, env, env_state, self.keys, which)
        return jax.tree.map(np.asarray, episodes)


@eqx.filter_jit
def _play_all(
    policies: ActorCritic,
    env: AbstractVectorEnv,
    env_states: PyTree,
    keys: Shaped[PRNGKeyArray, " runs"],
    number: Int[Array, ""],
) -> Evaluation:
    """The episodes of every run, as its own evaluator plays them."""

    def play(policy: ActorCritic, env_state: PyTree, key: PRNGKeyArray) -> Evaluation:
        key = jax.random.split(jax.random.fold_in(key, number), 1)[0]
        return evaluate(policy, frozen(env, env_state), key)

    return eqx.filter_vmap(play)(policies, env_states, keys)
