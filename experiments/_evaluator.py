"""Evaluations during a run: episodes with the newest policy, whose results all hooks share."""

from collections.abc import Callable, Sequence
from typing import final

import jax
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from agents import ActorCritic, Evaluation, TrainProgress, evaluate
from eqgrid import AbstractVectorEnv, NormalizeObservation


def evaluated_metrics(event_names: Sequence[str]) -> list[str]:
    """The names of what is measured in whole episodes, in a world with these events."""
    names = [f"event_{name}" for name in event_names]
    return ["eval_return_mean", "eval_return_std", "eval_length_mean", *names]


@final
class Evaluator:
    """Plays episodes with the newest policy, with keys of its own and statistics held still."""

    env: AbstractVectorEnv
    key: PRNGKeyArray
    clock: Callable[[], float]
    rows: list[dict[str, float]]
    event_names: tuple[str, ...]

    def __init__(
        self,
        env: AbstractVectorEnv,
        key: PRNGKeyArray,
        clock: Callable[[], float],
        rows: Sequence[dict[str, float]] = (),
        event_names: Sequence[str] = (),
    ):
        """**Arguments:**

        - `env`: as many environments as episodes are to be played.
        - `key`: the source of the evaluations' randomness.
        - `clock`: seconds since the run started.
        - `rows`: what came of the evaluations so far.
        - `event_names`: those of the events that the environments sum.
        """
        self.env, self.key, self.clock, self.rows = env, key, clock, list(rows)
        self.event_names = tuple(event_names)

    def __call__(self, progress: TrainProgress) -> dict[str, float]:
        """What `train` measures after every block."""
        state = progress.state
        key = self._keys(progress.updates, 1)[0]
        return self.add(
            progress, evaluate(state.policy, frozen(self.env, state.runner.env_state), key)
        )

    def add(self, progress: TrainProgress, episodes: Evaluation) -> dict[str, float]:
        """Keeps what an evaluation came to."""
        returns = np.asarray(episodes.episode_return).mean(axis=-1)
        row = {
            "env_steps": progress.env_steps,
            "wall_seconds": self.clock(),
            "eval_return_mean": float(returns.mean()),
            "eval_return_std": float(returns.std()),
            "eval_length_mean": float(np.asarray(episodes.episode_length).mean()),
            **self._events(episodes),
        }
        self.rows.append(row)
        return row

    def _events(self, episodes: Evaluation) -> dict[str, float]:
        """How often each event happened in an episode, for all agents together."""
        if not self.event_names:
            return {}
        counts = np.asarray(episodes.totals["events"]).sum(axis=1).mean(axis=0)
        names = (f"event_{name}" for name in self.event_names)
        return dict(zip(names, counts.tolist(), strict=True))

    def play(
        self,
        policy: ActorCritic,
        env_state: PyTree,
        number: int,
        repeats: int = 1,
        hurried: Callable[[], bool] = lambda: False,
    ) -> np.ndarray:
        """The returns of `repeats` times as many episodes as there are environments.

        **Arguments:**

        - `policy`: who plays.
        - `env_state`: the state of the training environments, for the moments in it.
        - `number`: which evaluation this is; equal numbers play equal episodes.
        - `hurried`: says when those that were played so far must do.
        """
        env = frozen(self.env, env_state)
        returns = []
        for key in self._keys(number, repeats):
            returns.append(np.asarray(evaluate(policy, env, key).episode_return))
            if hurried():
                break
        return np.concatenate(returns).mean(axis=-1)

    def _keys(self, number: int, repeats: int) -> PRNGKeyArray:
        return jax.random.split(jax.random.fold_in(self.key, number), repeats)


def frozen(env: AbstractVectorEnv, env_state: PyTree) -> AbstractVectorEnv:
    """`env` with the moments that training has arrived at, if it normalises at all."""
    return env.freeze(env_state) if isinstance(env, NormalizeObservation) else env
