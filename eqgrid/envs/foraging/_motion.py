"""How foragers get out of each other's way."""

from typing import final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int8

from ...grid import AbstractCollision


@final
class LoneClaim(AbstractCollision):
    """Who alone claims a cell gets there; if several claim one, each of them stays where it is. Who
    stays of its own accord claims its own cell.

    So two may swap cells. And of three or more, one may enter the cell of another that wanted to
    leave but could not: then both are in one cell until one of them leaves.

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
