"""Movement of robots, which may be blocked by shelves and by other robots."""

import dataclasses
from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int8, Int32

from ...grid import AbstractCollision, AbstractPhase, Step, direction_delta
from ._kinds import Load

_NONE = -1  # not an action, so the robot does nothing


@final
class YieldToShelves(AbstractPhase):
    """The phase that cancels the forward action of robots that carry a shelf and face a cell with a
    standing shelf. Shelves that are carried by other robots do not count: those cells are left to
    the collision rule. Other actions are not changed.

    **Arguments:**

    - `forward`: the index of the forward action.
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
    """Robots move in chains: the first one enters an empty cell, and each of the others the cell
    that the robot in front of it leaves.

    If several robots want to enter the same cell, the one with the longest chain behind it moves,
    with its chain; all others stay. For chains of equal length, the robot moves whose current cell
    comes first in the list of the current and the wanted cell of each robot, in their order. Four
    or more robots that follow each other in a cycle all move, and no other robot follows them; two
    robots that want to swap cells stay, and so do those behind them.

    Source: `Warehouse.step` of `rware` 2.0.0, which keeps the cycle or the longest path of each
    connected component of a graph of wanted moves. With four robots or more, the reference lets the
    order of a Python set decide between chains of equal length in some of these graphs (components
    with less than half of the nodes); here it is always the order of the robots.
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
        # follows[i, j]: i wants to enter the cell of j; rivals[i, j]: i and j want the same cell.
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
        for _ in range(agents - 1):  # robots that follow a robot that moves
            goes = wins & (free | (follows & goes[None, :]).any(axis=1))
        goes |= _in_circle(follows)
        return jnp.where(goes[:, None], new, old)


def _equal(
    one: Int8[Array, "agents 2"], other: Int8[Array, "agents 2"]
) -> Bool[Array, "agents agents"]:
    return (one[:, None] == other[None, :]).all(axis=-1)


def _chain_lengths(follows: Bool[Array, "agents agents"]) -> Int32[Array, " agents"]:
    """The number of robots in the longest chain behind each robot, including itself. For robots
    in cycles it is meaningless.
    """
    length = jnp.ones(len(follows), jnp.int32)
    for _ in range(len(follows) - 1):
        length = 1 + jnp.where(follows, length[:, None], 0).max(axis=0)
    return length


def _ranks(follows: Bool[Array, "agents agents"]) -> Int32[Array, " agents"]:
    """The position of each robot's current cell in the list of current and wanted cells."""
    agents = jnp.arange(len(follows), dtype=jnp.int32)
    wanted = jnp.where(follows, 2 * agents[:, None] + 1, 2 * len(follows)).min(axis=0)
    return jnp.minimum(2 * agents, wanted)


def _in_circle(follows: Bool[Array, "agents agents"]) -> Bool[Array, " agents"]:
    """Which robots are in a cycle of four or more; on a grid, all cycles have an even length."""
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
