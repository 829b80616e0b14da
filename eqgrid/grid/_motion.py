"""How bodies move, and what happens when they are in each other's way."""

import abc
import itertools
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Int8, Int16, UInt8

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
        position = jnp.where(_collide(old, new), old, new)
        return Bodies(position, heading, bodies.held)


def _step_onto_floor(
    fixtures: UInt8[Array, "height width"],
    position: Int8[Array, "agents 2"],
    action: Int8[Array, " agents"],
) -> Int8[Array, "agents 2"]:
    target = position + heading_delta(action)
    free = jnp.stack([get_cell(fixtures, cell) == Fixture.FLOOR for cell in target])
    return jnp.where(free[:, None], target, position)


def _collide(old: Int8[Array, "agents 2"], new: Int8[Array, "agents 2"]) -> Bool[Array, ""]:
    """Whether any two bodies would end in one cell, or swap cells."""
    was, will_be = list(_number(old)), list(_number(new))
    collide = jnp.zeros((), bool)
    for a, b in itertools.combinations(range(len(old)), 2):
        collide |= will_be[a] == will_be[b]
        collide |= (will_be[a] == was[b]) & (will_be[b] == was[a])
    return collide


def _number(position: Int8[Array, "agents 2"]) -> Int16[Array, " agents"]:
    """A number for every cell, no two alike: a grid has at most 127 columns."""
    row, col = position[:, 0].astype(jnp.int16), position[:, 1].astype(jnp.int16)
    return row * 128 + col
