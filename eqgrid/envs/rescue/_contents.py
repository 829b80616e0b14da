"""The numbers of a rescue: tiles, things, and roles."""

from enum import IntEnum

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8

from ...grid import World


class Tile(IntEnum):
    """What is built into a cell."""

    FLOOR = 0
    WALL = 1
    EXIT = 2


class Thing(IntEnum):
    """What lies in a cell or in a hand. Keys and green victims can be carried; an open door is all
    that can be walked over."""

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
    """What an agent can do that others cannot: a medic heals, an engineer clears."""

    MEDIC = 0
    ENGINEER = 1


VICTIMS = (Thing.GREEN_VICTIM, Thing.YELLOW_VICTIM, Thing.RED_VICTIM)
"""All victims, whatever their colour."""

DOORS = (Thing.PURPLE_DOOR, Thing.BLUE_DOOR, Thing.ORANGE_DOOR)
KEYS = (Thing.PURPLE_KEY, Thing.BLUE_KEY, Thing.ORANGE_KEY)
"""The doors that are shut, and the key of each."""

KEY_OF_DOOR = KEYS[0] - DOORS[0]
"""What is added to the code of a door to have that of its key."""


def is_key(code: UInt8[Array, "*things"]) -> Bool[Array, "*things"]:
    """Whether these are keys."""
    return code >= KEYS[0]


def is_victim(code: UInt8[Array, "*things"]) -> Bool[Array, "*things"]:
    """Whether these are victims, of any colour."""
    return (code >= VICTIMS[0]) & (code <= VICTIMS[-1])


def victims_left(world: World) -> Int32[Array, ""]:
    """How many victims still wait for their rescue, on the floor or in somebody's arms."""
    lying = is_victim(world.cells.object).sum(dtype=jnp.int32)
    return lying + is_victim(world.bodies.held).sum(dtype=jnp.int32)
