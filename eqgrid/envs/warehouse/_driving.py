"""How robots drive: who is blocked by a shelf, and who by other robots."""

import dataclasses
from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int8, Int32

from ...grid import AbstractCollision, AbstractPhase, Step, direction_delta
from ._kinds import Load

_NONE = -1  # a number that is no action does nothing


@final
class YieldToShelves(AbstractPhase):
    """A robot that carries a shelf and faces a cell in which one stands does nothing if it wants to
    drive. A shelf that another robot carries does not stand: there, the robots decide.

    Turning and loading robots lose nothing, because the phase looks at `forward` alone.

    **Arguments:**

    - `forward`: the number of the action that drives.
    """

    forward: int

    def __call__(self, step: Step) -> Step:
        bodies = step.world.bodies
        target = bodies.position + direction_delta(bodies.direction)
        stands = step.world.cells.object[target[:, 0], target[:, 1]] != Load.NOTHING
        blocked = stands & (bodies.held != Load.NOTHING) & (step.action == self.forward)
        action = jnp.where(blocked, jnp.asarray(_NONE, step.action.dtype), step.action)
        return dataclasses.replace(step, action=action)


@final
class ChainCollision(AbstractCollision):
    """Robots move in chains: the one in front enters an empty cell, each of the others the cell
    that the one before it leaves.

    Where several robots want one cell, the one with the longest chain behind it goes, and its
    chain with it; all others stay. Of equally long chains the robot goes whose cell is named first
    when robots say, in their order, where they stand and where they want to go. Four or more robots
    that follow each other in a circle all move, and nobody else joins them; two that want to swap
    cells, and whoever is behind them, stay.

    Source: `Warehouse.step` of `rware` 2.0.0, which keeps the cycle or the longest path of each
    connected part of a graph of wishes. With four robots or more the reference lets the order of a
    Python set choose between equally long chains in some of these graphs (a part with less than
    half of the nodes); here it is always the order of the robots.
    """

    def __call__(
        self,
        old: Int8[Array, "agents 2"],
        new: Int8[Array, "agents 2"],
        active: Bool[Array, " agents"] | None,
    ) -> Int8[Array, "agents 2"]:
        agents = len(old)
        moves = (old != new).any(axis=1)
        if active is not None:
            moves &= active
        # follows[i, j]: i wants the cell of j; rivals[i, j]: both want one cell.
        follows = moves[:, None] & _equal(new, old)
        rivals = moves[:, None] & moves[None, :] & _equal(new, new)
        length = _chain_lengths(follows)
        rank = _ranks(follows)
        better = (length[None, :] > length[:, None]) | (
            (length[None, :] == length[:, None]) & (rank[None, :] < rank[:, None])
        )
        wins = moves & ~(rivals & better).any(axis=1)
        free = ~follows.any(axis=1)
        goes = wins & free
        for _ in range(agents - 1):  # who follows one that goes
            goes = wins & (free | (follows & goes[None, :]).any(axis=1))
        goes |= _in_circle(follows)
        return jnp.where(goes[:, None], new, old)


def _equal(
    one: Int8[Array, "agents 2"], other: Int8[Array, "agents 2"]
) -> Bool[Array, "agents agents"]:
    return (one[:, None] == other[None, :]).all(axis=-1)


def _chain_lengths(follows: Bool[Array, "agents agents"]) -> Int32[Array, " agents"]:
    """How many robots are in the longest chain behind each one, itself included. Numbers in
    circles mean nothing."""
    length = jnp.ones(len(follows), jnp.int32)
    for _ in range(len(follows) - 1):
        length = 1 + jnp.where(follows, length[:, None], 0).max(axis=0)
    return length


def _ranks(follows: Bool[Array, "agents agents"]) -> Int32[Array, " agents"]:
    """When the cell of each robot is named first: by itself, or as what another one wants."""
    agents = jnp.arange(len(follows), dtype=jnp.int32)
    wanted = jnp.where(follows, 2 * agents[:, None] + 1, 2 * len(follows)).min(axis=0)
    return jnp.minimum(2 * agents, wanted)


def _in_circle(follows: Bool[Array, "agents agents"]) -> Bool[Array, " agents"]:
    """Who is in a circle of four or more; on a grid, all circles have an even length."""
    circle = jnp.zeros(len(follows), bool)
    two = _compose(follows, follows)
    path = two
    for _ in range(4, len(follows) + 1, 2):
        path = _compose(path, two)
        circle |= jnp.diagonal(path)
    return circle & ~jnp.diagonal(two)


def _compose(
    first: Bool[Array, "agents agents"], second: Bool[Array, "agents agents"]
) -> Bool[Array, "agents agents"]:
    return (first[:, :, None] & second[None, :, :]).any(axis=1)
