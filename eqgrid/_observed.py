"""An observation that comes with the state of the whole world."""

from typing import final

import equinox as eqx
from jaxtyping import Array, PyTree, Shaped


@final
class ObservationAndState(eqx.Module):
    """What agents see, and beside it what only their critics are shown, in training.

    - `local`: what every agent sees.
    - `state`: the whole world, once for every agent, which may stand in the middle of it.
    """

    local: PyTree[Shaped[Array, "..."]]
    state: PyTree[Shaped[Array, "..."]]
