"""Evaluations during a run: episodes with the newest policy, whose results all hooks share."""

from collections.abc import Callable, Sequence
from typing import final

import jax
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from agents import ActorCritic, TrainProgress, evaluate
from eqgrid import AbstractVectorEnv, NormalizeObservation


@final
class Evaluator:
    """Plays episodes with the newest policy, with keys of its own and statistics held still."""

    env: AbstractVectorEnv
    key: PRNGKeyArray
    clock: Callable[[], float]
    rows: list[dict[str, float]]

    def __init__(
        self,
        env: AbstractVectorEnv,
        key: PRNGKeyArray,
        clock: Callable[[], float],
        rows: Sequence[dict[str, float]] = (),
    ):
        """**Arguments:**

        - `env`: as many environments as episodes are to be played.
        - `key`: the source of the evaluations' randomness.
        - `clock`: seconds since the run started.
        - `rows`: what came of the evaluations so far.
        """
        self.env, self.key, self.clock, self.rows = env, key, clock, list(rows)

    def __call__(self, progress: TrainProgress) -> dict[str, float]:
        """What `train` measures after every block."""
        returns = self.play(
            progress.state.policy, progress.state.runner.env_state, progress.updates
        )
        return self.add(progress, returns)

    def add(self, progress: TrainProgress, returns: np.ndarray) -> dict[str, float]:
        """Keeps what an evaluation came to: the returns of its episodes."""
        row = {
            "env_steps": progress.env_steps,
            "wall_seconds": self.clock(),
            "eval_return_mean": float(returns.mean()),
            "eval_return_std": float(returns.std()),
        }
        self.rows.append(row)
        return row

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
        keys = jax.random.split(jax.random.fold_in(self.key, number), repeats)
        returns = []
        for key in keys:
            returns.append(np.asarray(evaluate(policy, env, key).episode_return))
            if hurried():
                break
        return np.concatenate(returns).mean(axis=-1)


def frozen(env: AbstractVectorEnv, env_state: PyTree) -> AbstractVectorEnv:
    """`env` with the moments that training has arrived at, if it normalises at all."""
    return env.freeze(env_state) if isinstance(env, NormalizeObservation) else env
