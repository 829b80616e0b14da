"""The numbers of search and rescue: kinds of tiles, objects and roles."""

from enum import IntEnum

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8

from ...grid import World


class Tile(IntEnum):
    """The kinds of tiles."""

    FLOOR = 0
    WALL = 1
    EXIT = 2


class Thing(IntEnum):
    """The object codes. Only keys and green victims can be carried, and only an open door can
    be walked over.
    """

    NOTHING = 0
    GREEN_VICTIM = 1
    YELLOW_VICTIM = 2
    RED_VICTIM = 3
    RUBBLE = 4
    HIGH_RUBBLE = 5
    PURPLE_DOOR = 6
    BLUE_DOOR = 7
    ORANGE_DOOR = 8
    OPEN_DOOR = 9
    PURPLE_KEY = 10
    BLUE_KEY = 11
    ORANGE_KEY = 12


class Role(IntEnum):
    """The role of an agent: only a medic can heal, and only an engineer can clear rubble."""

    MEDIC = 0
    ENGINEER = 1


VICTIMS = (Thing.GREEN_VICTIM, Thing.YELLOW_VICTIM, Thing.RED_VICTIM)
"""The codes of all victims, of any colour."""

DOORS = (Thing.PURPLE_DOOR, Thing.BLUE_DOOR, Thing.ORANGE_DOOR)
KEYS = (Thing.PURPLE_KEY, Thing.BLUE_KEY, Thing.ORANGE_KEY)
"""The codes of the closed doors and, in the same order, of their keys."""

KEY_OF_DOOR = KEYS[0] - DOORS[0]
"""The difference between the code of a key and that of its door."""


def is_key(code: UInt8[Array, "*things"]) -> Bool[Array, "*things"]:
    """Whether codes are keys."""
    return code >= KEYS[0]


def is_victim(code: UInt8[Array, "*things"]) -> Bool[Array, "*things"]:
    """Whether codes are victims, of any colour."""
    return (code >= VICTIMS[0]) & (code <= VICTIMS[-1])


def victims_left(world: World) -> Int32[Array, ""]:
    """The number of victims that are not rescued yet, in cells or carried."""
    lying = is_victim(world.cells.object).sum(dtype=jnp.int32)
    return lying + is_victim(world.bodies.held).sum(dtype=jnp.int32)
