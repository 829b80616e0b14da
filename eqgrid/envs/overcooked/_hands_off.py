"""A partner that leaves some counters alone."""

from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Bool, PRNGKeyArray, Shaped

from ..._partner import AbstractPartner, Seen
from ..._types import PyTree
from ._overcooked import INTERACT, STAY
from ._ways import STEPS


@final
class HandsOff(AbstractPartner):
    """Another partner that stays where it is instead of using some cells.

    **Arguments:**

    - `partner`: the other partner, in a kitchen.
    - `cells`: the cells that it does not use.
    """

    partner: AbstractPartner
    cells: Bool[Array, "height width"]

    def initial_carry(self) -> PyTree[Shaped[Array, "..."]]:
        return self.partner.initial_carry()

    def __call__(
        self, seen: Seen, carry: PyTree[Shaped[Array, "..."]], key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], PyTree[Shaped[Array, "..."]]]:
        action, carry = self.partner(seen, carry, key)
        bodies = seen.state.bodies
        direction = bodies.direction[seen.seat].astype(jnp.int32)
        row, col = bodies.position[seen.seat].astype(jnp.int32) + jnp.asarray(STEPS)[direction]
        stays = (action == INTERACT) & self.cells[row, col]
        return jnp.where(stays, STAY, action).astype(action.dtype), carry
