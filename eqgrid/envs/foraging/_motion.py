"""The collision rule of level-based foraging."""

from typing import final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8

from ...grid import AbstractCollision


@final
class LoneClaim(AbstractCollision):
    """An agent moves into a cell if no other agent claims it; if several agents claim a cell, all
    of them stay where they are. An agent that does not want to move claims its own cell.

    So two agents may swap cells. And with three or more, an agent may enter the cell of another one
    that wanted to leave but could not: then both are in one cell until one of them leaves.

    Source: `ForagingEnv.step` of lbforaging.
    """

    def __call__(
        self,
        old: Int8[Array, "agents 2"],
        new: Int8[Array, "agents 2"],
        active: Bool[Array, " agents"] | None,
    ) -> Int8[Array, "agents 2"]:
        rivals = (new[:, None] == new[None, :]).all(axis=-1)
        rivals &= jnp.asarray(~np.eye(len(new), dtype=bool))
        if active is not None:
            rivals &= active[:, None] & active[None, :]
        return jnp.where(rivals.any(axis=1)[:, None], old, new)
