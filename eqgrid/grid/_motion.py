"""How bodies move, and what happens when they are in each other's way."""

import abc
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Int8, UInt8

from ._world import Action, Bodies, Fixture, get_cell, heading_delta


class AbstractMotion(eqx.Module):
    """A rule for moving all bodies at once."""

    @abc.abstractmethod
    def __call__(
        self,
        fixtures: UInt8[Array, "height width"],
        bodies: Bodies,
        action: Int[Array, " agents"],
    ) -> Bodies:
        """Turns and moves the bodies by their actions. Only floor can be entered."""


@final
class AllOrNone(AbstractMotion):
    """The reference's rule: if any two bodies would end in one cell, or any two would swap cells,
    all keep their positions, bystanders too. Turning always works, and following a body into the
    cell that it leaves is allowed.

    Source: `OvercookedGridworld.compute_new_positions_and_orientations` and `_handle_collisions` of
    Overcooked-AI.
    """

    def __call__(
        self,
        fixtures: UInt8[Array, "height width"],
        bodies: Bodies,
        action: Int[Array, " agents"],
    ) -> Bodies:
        turns = action < Action.STAY
        heading = jnp.where(turns, action.astype(jnp.int8), bodies.heading)
        old = bodies.position
        new = _step_onto_floor(fixtures, old, action.astype(jnp.int8))
        collide = (_pairs_equal(new, new) | (_pairs_equal(new, old) & _pairs_equal(old, new))).any()
        return Bodies(jnp.where(collide, old, new), heading, bodies.held)


def _step_onto_floor(
    fixtures: UInt8[Array, "height width"],
    position: Int8[Array, "agents 2"],
    action: Int8[Array, " agents"],
) -> Int8[Array, "agents 2"]:
    target = position + heading_delta(action)
    free = jnp.stack([get_cell(fixtures, cell) == Fixture.FLOOR for cell in target])
    return jnp.where(free[:, None], target, position)


def _pairs_equal(
    a: Int8[Array, "agents 2"], b: Int8[Array, "agents 2"]
) -> Bool[Array, "agents agents"]:
    """Whether body i in `a` and body j in `b`, another one, are in one cell."""
    others = ~jnp.eye(len(a), dtype=bool)
    return (a[:, None] == b[None]).all(axis=-1) & others
