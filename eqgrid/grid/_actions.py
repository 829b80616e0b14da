"""What agents can do, as values. A game has a tuple of these; an action is a position in it.

Any other number does nothing, like `Stay`.
"""

import dataclasses
from typing import Literal, TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int8

from ._world import Direction


@dataclasses.dataclass(frozen=True)
class Move:
    """Turns to a direction, and takes a step in it."""

    direction: Direction


@dataclasses.dataclass(frozen=True)
class Rotate:
    """Turns by a quarter, on the spot."""

    side: Literal["left", "right"]


@dataclasses.dataclass(frozen=True)
class Forward:
    """Takes a step in the direction that the agent faces."""


@dataclasses.dataclass(frozen=True)
class Stay:
    """Does nothing."""


@dataclasses.dataclass(frozen=True)
class Use:
    """Acts on something. A game may have several, told apart by their names."""

    name: str = "interact"


Action: TypeAlias = Move | Rotate | Forward | Stay | Use

MOVES: tuple[Action, ...] = tuple(Move(direction) for direction in Direction)
"""North, south, east and west."""

_QUARTER = {
    "left": np.asarray([Direction.WEST, Direction.EAST, Direction.NORTH, Direction.SOUTH], np.int8),
    "right": np.asarray(
        [Direction.EAST, Direction.WEST, Direction.SOUTH, Direction.NORTH], np.int8
    ),
}


def chosen(
    actions: tuple[Action, ...], action: Int[Array, " agents"], *kinds: type[Action] | Action
) -> Bool[Array, " agents"]:
    """Who has chosen one of these actions, or an action of one of these types or of a subclass."""
    types = tuple(kind for kind in kinds if isinstance(kind, type))
    numbers = [i for i, value in enumerate(actions) if isinstance(value, types) or value in kinds]
    if len(numbers) > 1 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return (action >= numbers[0]) & (action <= numbers[-1])
    found = jnp.zeros(action.shape, bool)
    for number in numbers:
        found |= action == number
    return found


def turned(
    actions: tuple[Action, ...], action: Int[Array, " agents"], direction: Int8[Array, " agents"]
) -> Int8[Array, " agents"]:
    """Where everybody faces after moves and rotations."""
    faces = direction
    turns = [(i, value) for i, value in enumerate(actions) if isinstance(value, Move | Rotate)]
    if turns == list(enumerate(MOVES)):  # the usual case: one selection for all
        moves = chosen(actions, action, Move)
        return jnp.where(moves, action.astype(jnp.int8), direction)
    for number, value in enumerate(actions):
        if isinstance(value, Move):
            faces = jnp.where(action == number, jnp.int8(value.direction), faces)
        elif isinstance(value, Rotate):
            quarter = jnp.asarray(_QUARTER[value.side])[direction]
            faces = jnp.where(action == number, quarter, faces)
    return faces
