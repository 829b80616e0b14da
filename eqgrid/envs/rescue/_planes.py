"""The planes of search and rescue: the default planes, and those of the agents' roles."""

import dataclasses
from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Int32, UInt8

from ...grid import (
    AbstractObservation,
    Column,
    Direction,
    Kind,
    Layout,
    Planes,
    World,
    plane_names,
)
from ._contents import Role
from ._kinds import KINDS

PLANE_NAMES = (*plane_names(KINDS), *(role.name.lower() for role in Role))
"""The names of the planes of `RolePlanes`, in order."""

# `Planes` show the held object, so the role is encoded in it: an engineer who holds `code` is
# passed on as one who holds `code + _CODES`.
_CODES = KINDS.num_codes
_AS_ENGINEER = Kind("as_engineer", variants=_CODES)
_KINDS_AND_ROLES = dataclasses.replace(KINDS, objects=(*KINDS.objects, _AS_ENGINEER))


def _facing(direction: Direction, *, own: bool) -> Column:
    return lambda views: (views.own if own else views.other) & (views.direction == direction)


def _tile(name: str) -> Column:
    return lambda views: views.is_tile(name)


def _lying(name: str) -> Column:
    return lambda views: views.variant(name, views.lying)


def _held(name: str) -> Column:
    return lambda views: views.variant(name, views.held % _CODES)


def _role(role: Role) -> Column:
    return lambda views: (views.own | views.other) & (views.held // _CODES == role)


_COLUMNS: tuple[Column, ...] = (
    lambda views: views.own,
    *(_facing(direction, own=True) for direction in Direction),
    lambda views: views.other,
    *(_facing(direction, own=False) for direction in Direction),
    *(_tile(kind.name) for kind in KINDS.tiles[1:]),
    *(_lying(kind.name) for kind in KINDS.objects),
    *(_held(kind.name) for kind in KINDS.objects if kind.carryable),
    *(_role(role) for role in Role),
)


@final
class RolePlanes(AbstractObservation):
    """The default planes, and one plane per role; `PLANE_NAMES` lists them.

    The plane of a role marks all rescuers with that role, including the agent itself.

    **Arguments:**

    - `radius`: the range of sight in cells, to every side and through walls; the whole site if it
        is `None`.
    """

    planes: Planes

    def __init__(self, radius: int | None = 3):
        self.planes = Planes(_COLUMNS, radius)

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> UInt8[Array, "agents rows cols planes"]:
        bodies = world.bodies
        shown = dataclasses.replace(bodies, held=bodies.held + bodies.extra * jnp.uint8(_CODES))
        return self.planes(
            dataclasses.replace(layout, kinds=_KINDS_AND_ROLES),
            dataclasses.replace(world, bodies=shown),
            steps_left,
        )
