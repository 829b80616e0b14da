"""Trajectories: recorded episodes, step by step."""

from typing import final

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int, Shaped

from ._types import PyTree


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
