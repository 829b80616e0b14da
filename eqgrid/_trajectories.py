"""Trajectories: recorded episodes, step by step."""

from collections.abc import Mapping
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from .typing import PyTree


@final
class Trajectories(eqx.Module):
    """Several episodes, concatenated along the `steps` axis of each array.

    **Arguments:**

    - `state`: the state of the innermost environment (without wrapper states) before each step.
    - `action`: the action of each agent in the step.
    - `reward`: the reward of each agent for it; 0 once the agent has terminated, so that the sums
        are the returns of the episodes.
    - `terminated`, `truncated`: how the step ended, as in `TimeStep`.
    - `length`: the number of steps of each episode.
    - `observation`, `final_observation`: the observation of each agent before each step, and after
        the last step of each episode; `None` where they were not recorded.
    """

    state: PyTree[Shaped[Array, "steps ..."]]
    action: Shaped[Array, "steps agents ..."]
    reward: Float[Array, "steps agents"]
    terminated: Bool[Array, "steps agents"]
    truncated: Bool[Array, " steps"]
    length: Int[Array, " episodes"]
    observation: PyTree[Shaped[Array, "steps agents ..."]] | None = None
    final_observation: PyTree[Shaped[Array, "episodes agents ..."]] | None = None

    @classmethod
    def from_steps(
        cls,
        rows: Mapping[str, PyTree[Shaped[Array, "steps episodes ..."]]],
        done: Bool[Array, "steps episodes"],
        final_observation: PyTree[Shaped[Array, "steps episodes ..."]] | None = None,
    ) -> "Trajectories":
        """Builds trajectories from episodes that were played side by side for a number of steps.

        **Arguments:**

        - `rows`: the fields that have a row for every step.
        - `done`: whether the episode ended with the step. What was played after the first such step
            is left out.
        - `final_observation`: the observation after every step, of which those after the last step
            of each episode are kept.

        **Returns:** the episodes, in their order.

        **Raises:** `ValueError` when an episode did not end.
        """
        ended = np.asarray(done)
        if not ended.any(axis=0).all():
            raise ValueError(
                f"An episode did not end in {len(ended)} steps: put a TimeLimit into the "
                f"environment, or raise max_steps."
            )
        length = ended.argmax(axis=0) + 1
        episode = np.repeat(np.arange(len(length)), length)
        step = np.arange(len(episode)) - np.repeat(np.cumsum(length) - length, length)
        last = (length - 1, np.arange(len(length)))
        return cls(
            **jax.tree.map(lambda x: x[step, episode], dict(rows)),
            length=jnp.asarray(length, jnp.int32),
            final_observation=jax.tree.map(lambda x: x[last], final_observation),
        )
