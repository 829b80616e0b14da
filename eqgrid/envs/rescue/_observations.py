"""The observations of rescuers: features or planes."""

import dataclasses
from typing import final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, UInt8

from ..._functions import Partial
from ...grid import (
    AbstractFeature,
    AbstractObservation,
    Around,
    Column,
    Direction,
    FacedAgent,
    FacedObject,
    FacedTile,
    Features,
    Kind,
    Kinds,
    Layout,
    NearestObjects,
    NearestTiles,
    Others,
    OwnDirection,
    OwnHeld,
    OwnPosition,
    Planes,
    Sight,
    Views,
    World,
    faces,
    lying_cell,
    one_hot,
    other_cell,
    own_cell,
    plane_names,
    prefixed,
    tile_cell,
)
from ._kinds import DOORS, KEYS, KINDS, VICTIMS, Role, Thing

NEAREST_VICTIMS = 2
"""The number of victims of each colour in the features, nearest first."""

_ROLES = tuple(role.name.lower() for role in Role)
_IN_THE_WAY = (Thing.RUBBLE, Thing.HIGH_RUBBLE, *DOORS, *KEYS)


@final
class Roles(AbstractFeature):
    """The roles of the rescuer and of the other rescuers, one-hot."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        agents = ("own", *(f"other_{k}" for k in range(1, num_agents)))
        return tuple(name for agent in agents for name in prefixed(agent, _ROLES))

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        return one_hot(sight.bodies.extra, len(Role)).reshape(-1)


def rescue_features() -> Features:
    """The feature-vector observation of search and rescue, relative to each rescuer: its position,
    direction, role and held object, the cells around it, the offsets to the exit, victims, rubble,
    closed doors and keys, and the features of all other rescuers.

    It covers the whole site, regardless of walls: the nearest two victims of each colour, the
    nearest exit, and the nearest object of every other kind except open doors. Units are as in
    `Features`, and `Features.names` lists all features.
    """
    return Features(
        (
            OwnPosition(),
            OwnDirection(),
            Roles(),
            OwnHeld(),
            Around(),
            FacedTile(),
            FacedObject(),
            FacedAgent(),
            NearestTiles(("exit",)),
            NearestObjects(tuple(thing.name.lower() for thing in VICTIMS), NEAREST_VICTIMS),
            NearestObjects(tuple(thing.name.lower() for thing in _IN_THE_WAY)),
            Others(),
        )
    )


PLANE_NAMES = (*plane_names(KINDS), *_ROLES)
"""The names of the planes of `RolePlanes`, in order."""

# A column of `Planes` depends on the held object of an agent, but not on its role. `RolePlanes`
# therefore encodes the role in the held object, as `held + role * _CODES`. `Kinds` must contain all
# these codes, so `_KINDS_AND_ROLES` has one more kind, for what an engineer holds.
_CODES = KINDS.num_codes
_HELD_BY_ENGINEER = Kind("held_by_engineer", variants=_CODES)
_KINDS_AND_ROLES = dataclasses.replace(KINDS, objects=(*KINDS.objects, _HELD_BY_ENGINEER))


def _held(name: str, views: Views) -> np.ndarray:
    return views.variant(name, views.held % _CODES)


def _role(role: Role, views: Views) -> np.ndarray:
    return (views.own | views.other) & (views.held // _CODES == role)


_COLUMNS: tuple[Column, ...] = (
    own_cell,
    *(Partial(faces, own_cell, direction) for direction in Direction),
    other_cell,
    *(Partial(faces, other_cell, direction) for direction in Direction),
    *(Partial(tile_cell, kind.name) for kind in KINDS.tiles[1:]),
    *(Partial(lying_cell, kind.name) for kind in KINDS.objects),
    *(Partial(_held, kind.name) for kind in KINDS.objects if kind.carryable),
    *(Partial(_role, role) for role in Role),
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
