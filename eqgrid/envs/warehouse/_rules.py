"""The rules of the warehouse: deliveries and requests, collisions, loading, and events."""

import abc
import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int8, Int32, PRNGKeyArray

from ...grid import (
    AbstractCollision,
    AbstractEnding,
    AbstractEvents,
    AbstractPhase,
    Step,
    direction_delta,
)
from ._kinds import Load, Tile


class AbstractRequestSampler(eqx.Module):
    """The distribution of the shelf that is requested after a delivery."""

    @abc.abstractmethod
    def __call__(
        self, key: PRNGKeyArray, num_goals: int, num_free: Int32[Array, ""]
    ) -> Int32[Array, " goals"]:
        """For each goal, the rank of the shelf to request next if there is a delivery.

        **Arguments:**

        - `key`: the source of randomness.
        - `num_goals`: the number of goals.
        - `num_free`: the number of shelves that are not requested. Their ranks, from 0, count first
            the standing shelves in row-major order, and then the carried shelves in the order of
            the robots.
        """


@final
class UniformRequests(AbstractRequestSampler):
    """Samples uniformly from all shelves that are not requested."""

    def __call__(
        self, key: PRNGKeyArray, num_goals: int, num_free: Int32[Array, ""]
    ) -> Int32[Array, " goals"]:
        return jax.random.randint(key, (num_goals,), 0, num_free, jnp.int32)


@final
class Deliver(AbstractPhase):
    """The phase in which robots that are on a goal deliver the requested shelves that they carry.
    For each delivery, another shelf is requested at once. Goals are processed one after the other:
    a shelf that is requested after a delivery at the first goal may be delivered at the second goal
    in the same step.

    Robots that deliver are marked in `Bodies.extra`.

    Source: `Warehouse.step` of `rware` 2.0.0.

    **Arguments:**

    - `next_request`: the distribution of the next requested shelf.
    """

    next_request: AbstractRequestSampler

    def __call__(self, step: Step) -> Step:
        goals = step.layout.params
        cells, bodies = step.world.cells, step.world.bodies
        objects, held = cells.object, bodies.held
        num_free = (objects == Load.SHELF).sum(dtype=jnp.int32)
        num_free += (held == Load.SHELF).sum(dtype=jnp.int32)
        ranks = self.next_request(step.key, len(goals), num_free)
        delivers = jnp.zeros(held.shape, bool)
        for goal, rank in zip(goals, ranks, strict=True):
            delivers_here = (bodies.position == goal[None]).all(axis=1) & (held == Load.REQUESTED)
            happens = delivers_here.any()
            # The next request is a standing shelf, if its rank is among the standing shelves.
            cell, num_standing = find_marked(objects == Load.SHELF, rank)
            row = jnp.where(happens, cell[0], objects.shape[0])  # writes to this row are dropped
            objects = objects.at[row, cell[1]].set(jnp.uint8(Load.REQUESTED), mode="drop")
            # Otherwise, it is a carried shelf.
            carried = held == Load.SHELF
            has_rank = jnp.cumsum(carried, dtype=jnp.int32) == rank - num_standing + 1
            is_next = happens & carried & has_rank
            held = jnp.where(is_next, jnp.uint8(Load.REQUESTED), held)
            held = jnp.where(delivers_here, jnp.uint8(Load.SHELF), held)
            delivers |= delivers_here
        bodies = dataclasses.replace(bodies, held=held, extra=bodies.extra | delivers)
        cells = dataclasses.replace(cells, object=objects)
        world = dataclasses.replace(step.world, cells=cells, bodies=bodies)
        return step.then(world, Deliver, delivers)


_NO_ACTION = -1  # an index outside the actions, with which a robot does nothing


@final
class YieldToShelves(AbstractPhase):
    """The phase that cancels the forward action of robots that carry a shelf and face a cell with a
    standing shelf. The collision rule decides about cells with other robots and the shelves that
    they carry.

    **Arguments:**

    - `forward`: the index of the forward action.
    """

    forward: int

    def __call__(self, step: Step) -> Step:
        bodies = step.world.bodies
        target = bodies.position + direction_delta(bodies.direction)
        stands = step.world.cells.object[target[:, 0], target[:, 1]] != Load.NOTHING
        blocked = stands & (bodies.held != Load.NOTHING) & (step.action == self.forward)
        action = jnp.where(blocked, jnp.asarray(_NO_ACTION, step.action.dtype), step.action)
        return dataclasses.replace(step, action=action)


@final
class ChainCollision(AbstractCollision):
    """Robots move in chains: the first robot enters an empty cell, and each other robot enters the
    cell that the robot in front of it leaves.

    If several robots want to enter the same cell, the robot with the longest chain behind it moves,
    and so does its chain; all other robots stay. Ties are decided by a list that contains, robot by
    robot, its current and its wanted cell: the robot moves whose current cell comes first.

    Four or more robots that follow each other in a cycle all move, and no other robot follows them.
    Two robots that want to swap cells stay, and so do the robots behind them.

    Source: `Warehouse.step` of `rware` 2.0.0, which keeps the cycle or the longest path of each
    connected component of a graph of wanted moves. With four robots or more, the reference decides
    some ties by the order of a Python set (in components with less than half of the nodes); eqgrid
    always uses the order of the robots.
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
        # follows[i, j]: robot i wants to enter the cell of robot j.
        # rivals[i, j]: robots i and j want to enter the same cell.
        follows = moves[:, None] & _equal(new, old)
        rivals = moves[:, None] & moves[None, :] & _equal(new, new)
        # The longest chain behind each robot, including itself; meaningless in cycles.
        length = jnp.ones(agents, jnp.int32)
        for _ in range(agents - 1):
            length = 1 + jnp.where(follows, length[:, None], 0).max(axis=0)
        # The first index of each robot's current cell in the list of current and wanted cells.
        numbers = jnp.arange(agents, dtype=jnp.int32)
        as_wanted = jnp.where(follows, 2 * numbers[:, None] + 1, 2 * agents).min(axis=0)
        rank = jnp.minimum(2 * numbers, as_wanted)
        # loses[i, j]: robot j has precedence over robot i.
        loses = (length[None, :] > length[:, None]) | (
            (length[None, :] == length[:, None]) & (rank[None, :] < rank[:, None])
        )
        wins = moves & ~(rivals & loses).any(axis=1)
        into_empty = ~follows.any(axis=1)
        goes = wins & into_empty
        for _ in range(agents - 1):  # adds robots that follow a robot that moves
            goes = wins & (into_empty | (follows & goes[None, :]).any(axis=1))
        goes |= _in_cycle(follows)
        return jnp.where(goes[:, None], new, old)


def _equal(
    one: Int8[Array, "agents 2"], other: Int8[Array, "agents 2"]
) -> Bool[Array, "agents agents"]:
    return (one[:, None] == other[None, :]).all(axis=-1)


def _in_cycle(follows: Bool[Array, "agents agents"]) -> Bool[Array, " agents"]:
    """Which robots are in a cycle of four or more; on a grid, all cycles have an even length."""
    cycle = jnp.zeros(len(follows), bool)
    two_steps = _compose(follows, follows)
    # path[i, j]: a chain of 4, 6, ... robots leads from robot i to robot j.
    path = two_steps
    for _ in range(4, len(follows) + 1, 2):
        path = _compose(path, two_steps)
        cycle |= jnp.diagonal(path)
    # Two robots that want to swap cells are back after two steps, and so after 4, 6, ...
    return cycle & ~jnp.diagonal(two_steps)


def _compose(
    first: Bool[Array, "agents agents"], second: Bool[Array, "agents agents"]
) -> Bool[Array, "agents agents"]:
    """The composition of two relations: entry [i, k] is whether some j is between i and k."""
    return (first[:, :, None] & second[None, :, :]).any(axis=1)


@final
class ToggleLoad(AbstractPhase):
    """The phase in which a robot without a shelf picks up the shelf in its cell, and a robot with a
    shelf puts it down if the robot is on a rack. A robot that puts a shelf down is no longer marked
    in `Bodies.extra` as having delivered.

    Source: `Warehouse.step` of `rware` 2.0.0.
    """

    def __call__(self, step: Step) -> Step:
        cells, bodies = step.world.cells, step.world.bodies
        row, col = bodies.position[:, 0], bodies.position[:, 1]
        here, toggles = cells.object[row, col], step.uses()
        is_empty = bodies.held == Load.NOTHING
        takes = toggles & is_empty & (here != Load.NOTHING)
        puts = toggles & ~is_empty & (step.layout.tiles[row, col] == Tile.RACK)
        swaps = takes | puts  # the shelf moves between cell and robot; one of the two is empty
        objects = cells.object.at[row, col].set(jnp.where(swaps, bodies.held, here))
        bodies = dataclasses.replace(
            bodies, held=jnp.where(swaps, here, bodies.held), extra=bodies.extra & ~puts
        )
        cells = dataclasses.replace(cells, object=objects)
        return step.then(dataclasses.replace(step.world, cells=cells, bodies=bodies))


EVENT_NAMES = ("load", "requested_load", "unload", "delivery", "put_back")
"""The events that are counted for every robot: it picks up a shelf; it picks up a requested shelf;
it puts a shelf down; it delivers a shelf; it puts a shelf down for the first time since a delivery.
"""


@final
class WarehouseEvents(AbstractEvents):
    """The events of `EVENT_NAMES`."""

    names: tuple[str, ...] = eqx.field(static=True, default=EVENT_NAMES)

    def __call__(self, step: Step) -> tuple[Bool[Array, " agents"], ...]:
        before, now = step.before.bodies, step.world.bodies
        carried, carries = before.held != Load.NOTHING, now.held != Load.NOTHING
        position = before.position
        under = step.before.cells.object[position[:, 0], position[:, 1]]
        loads, unloads = ~carried & carries, carried & ~carries
        happened = {
            "load": loads,
            "requested_load": loads & (under == Load.REQUESTED),
            "unload": unloads,
            "delivery": step.by(Deliver),
            "put_back": unloads & before.extra,
        }
        return tuple(happened[name] for name in self.names)


@final
class CountQuietSteps(AbstractPhase):
    """The phase that counts the steps since the last delivery or the reset, in `World.extra`."""

    def __call__(self, step: Step) -> Step:
        quiet = jnp.where(step.by(Deliver).any(), 0, step.world.extra + 1)
        return step.then(dataclasses.replace(step.world, extra=quiet))


@final
class NoDelivery(AbstractEnding):
    """All robots terminate after a number of steps without a delivery.

    Source: `max_inactivity_steps` of `rware` 2.0.0.

    **Arguments:**

    - `limit`: the number of steps.
    """

    limit: Int32[Array, ""]

    def __call__(self, step: Step) -> Bool[Array, " agents"]:
        return jnp.broadcast_to(step.world.extra >= self.limit, (step.world.num_agents,))


def find_marked(
    marked: Bool[Array, "height width"], rank: Int32[Array, ""]
) -> tuple[Int32[Array, "2"], Int32[Array, ""]]:
    """Finds a marked cell by its rank among all marked cells in row-major order.

    **Arguments:**

    - `marked`: the cells to choose from.
    - `rank`: the rank of the cell, counted from 0.

    **Returns:** `(row, col)` of the cell, and the number of marked cells. If there are too few
    marked cells, the row is below the grid.
    """
    in_row = marked.sum(axis=1, dtype=jnp.int32)
    up_to_row = jnp.cumsum(in_row, dtype=jnp.int32)
    row = (up_to_row <= rank).sum(dtype=jnp.int32)
    before_row = jnp.where(up_to_row <= rank, in_row, 0).sum(dtype=jnp.int32)
    up_to_col = jnp.cumsum(marked[row], dtype=jnp.int32)
    col = (up_to_col <= rank - before_row).sum(dtype=jnp.int32)
    return jnp.stack([row, col]), up_to_row[-1]


def sample_distinct(
    key: PRNGKeyArray, count: int, total: Int32[Array, ""]
) -> Int32[Array, " count"]:
    """Samples distinct integers below `total`, uniformly among all ordered choices.

    The integers are the first `count` entries of a Fisher-Yates shuffle, which swaps each position
    with itself or a later position. Following the swaps backwards gives the entry at a position, so
    the array of all `total` entries is not needed.

    **Arguments:**

    - `key`: the source of randomness.
    - `count`: the number of integers, at most `total`.
    - `total`: the upper bound, which is excluded.
    """
    positions = jnp.arange(count, dtype=jnp.int32)
    swaps = jax.random.randint(key, (count,), positions, total, jnp.int32)
    sampled = []
    for i in range(count):
        entry = swaps[i]
        for j in reversed(range(i)):
            entry = jnp.where(entry == swaps[j], jnp.int32(j), entry)
        sampled.append(entry)
    return jnp.stack(sampled)
