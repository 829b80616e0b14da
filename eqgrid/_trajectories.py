"""What agents did in a number of episodes, step by step."""

from typing import final

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped


@final
class Trajectories(eqx.Module):
    """A number of episodes, one after the other: every step is a row of each array.

    **Arguments:**

    - `state`: the states of the world, without those of wrappers, before each step.
    - `action`: what every agent did then.
    - `reward`: what every agent was paid for it; 0 once its task was over, so that the sums are the
        returns of the episodes.
    - `terminated`, `truncated`: how the step ended, as in `TimeStep`.
    - `length`: how many steps each episode has.
    - `observation`: what every agent saw before each step, and `final_observation` what it saw when
        an episode was over; `None` where they were not recorded.
    """

    state: PyTree[Shaped[Array, "steps ..."]]
    action: Shaped[Array, "steps agents ..."]
    reward: Float[Array, "steps agents"]
    terminated: Bool[Array, "steps agents"]
    truncated: Bool[Array, " steps"]
    length: Int[Array, " episodes"]
    observation: PyTree[Shaped[Array, "steps agents ..."]] | None = None
    final_observation: PyTree[Shaped[Array, "episodes agents ..."]] | None = None
