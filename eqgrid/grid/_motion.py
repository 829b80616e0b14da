"""Movement of agents, and how collisions between them are resolved."""

import abc
import dataclasses
import itertools
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int8, Int16

from ._actions import Forward, Move, Strafe, chosen, headed, turned
from ._starts import is_free
from ._step import AbstractPhase, Step
from ._world import direction_delta, get_cell


class AbstractCollision(eqx.Module):
    """A rule that resolves collisions between agents."""

    @abc.abstractmethod
    def __call__(
        self,
        old: Int8[Array, "agents 2"],
        new: Int8[Array, "agents 2"],
        active: Bool[Array, " agents"] | None,
    ) -> Int8[Array, "agents 2"]:
        """The positions of all agents after the step.

        **Arguments:**

        - `old`: `(row, col)` of each agent before the step.
        - `new`: `(row, col)` of each agent after the step if there were no other agents.
        - `active`: which agents can collide; `None` for all.
        """


@final
class JointCollision(AbstractCollision):
    """No agent moves if any two agents would be in the same cell after the step, or would swap
    cells. An agent may move into a cell that another agent leaves in the same step.
    """

    def __call__(
        self,
        old: Int8[Array, "agents 2"],
        new: Int8[Array, "agents 2"],
        active: Bool[Array, " agents"] | None,
    ) -> Int8[Array, "agents 2"]:
        # One scalar per agent: with two agents, this is a handful of comparisons without any array.
        was, will_be = list(_cell_number(old)), list(_cell_number(new))
        collide = jnp.zeros((), bool)
        for a, b in itertools.combinations(range(len(old)), 2):
            meet = will_be[a] == will_be[b]
            meet |= (will_be[a] == was[b]) & (will_be[b] == was[a])
            collide |= meet if active is None else meet & active[a] & active[b]
        return jnp.where(collide, old, new)


@final
class LocalCollision(AbstractCollision):
    r"""An agent that would enter the same cell as another agent, or swap cells with one, stays
    where it is. So does an agent that would enter the cell of an agent that stays. All others
    move.

    ```python
    import jax
    import jax.numpy as jnp

    from eqgrid import grid

    kinds = grid.Kinds((grid.Kind("floor", " "), grid.Kind("wall", "#", solid=True)))
    layout = grid.Layout.parse("#####\n#1 2#\n#####", kinds)
    go = (grid.Go(grid.LocalCollision()),)
    moves = (*grid.MOVES, grid.Stay())
    none = grid.WeightedEventReward({}, ())
    room = grid.GridWorld(layout, actions=moves, phases=go, reward=none)
    _, state = room.reset(jax.random.key(0))
    _, state = room.step(jax.random.key(1), state, jnp.array([2, 3]))  # both to the same cell
    print(state.bodies.position.tolist())  # [[1, 1], [1, 3]]
    ```
    """

    def __call__(
        self,
        old: Int8[Array, "agents 2"],
        new: Int8[Array, "agents 2"],
        active: Bool[Array, " agents"] | None,
    ) -> Int8[Array, "agents 2"]:
        was, agents = _cell_number(old), len(old)
        others = ~jnp.eye(agents, dtype=bool)
        if active is not None:
            others &= active[:, None] & active[None, :]
        wanted = _cell_number(new)
        # Agents that swap cells never share one, so swaps are found by comparing old and new cells.
        swaps = (wanted[:, None] == was[None, :]) & (was[:, None] == wanted[None, :]) & others
        stays = swaps.any(axis=1)
        # In each round, agents that stay may block further agents. As many rounds as agents suffice
        # for the longest chain, in which each agent is blocked by the next.
        for _ in range(agents):
            target = jnp.where(stays, was, wanted)
            meets = ((target[:, None] == target[None, :]) & others).any(axis=1)
            # Only moving agents give way: an agent that already stands in the cell stays there.
            stays |= meets & (target != was)
        return jnp.where(stays[:, None], old, new)


@final
class Go(AbstractPhase):
    r"""Turns and moves all agents at once. They can enter walkable tiles without a solid object. An
    agent turns even if it cannot move.

    ```python
    import jax
    import jax.numpy as jnp

    from eqgrid import grid

    kinds = grid.Kinds((grid.Kind("floor", " "), grid.Kind("wall", "#", solid=True)))
    layout = grid.Layout.parse("#####\n#1 2#\n#####", kinds)
    go = (grid.Go(grid.LocalCollision()),)
    moves = (*grid.MOVES, grid.Stay())
    none = grid.WeightedEventReward({}, ())
    room = grid.GridWorld(layout, actions=moves, phases=go, reward=none)
    _, state = room.reset(jax.random.key(0))
    _, state = room.step(jax.random.key(1), state, jnp.array([2, 0]))  # east; north, into a wall
    print(state.bodies.position.tolist())  # [[1, 2], [1, 3]]
    print(state.bodies.direction.tolist())  # [2, 0]
    ```

    **Arguments:**

    - `collision`: how collisions between agents are resolved.
    """

    collision: AbstractCollision

    def __call__(self, step: Step) -> Step:
        bodies = step.world.bodies
        direction = turned(step.actions, step.action, bodies.direction)
        moves = chosen(step.actions, step.action, Move, Forward, Strafe)
        old = bodies.position
        target = old + direction_delta(headed(step.actions, step.action, direction))
        grids = (step.layout.tiles, step.world.cells.object)
        # Layouts have a border of walls, so targets are inside the grid.
        free = [is_free(step.layout.kinds, *get_cell(grids, x)) for x in target]
        free = moves & jnp.stack(free)
        new = jnp.where(free[:, None], target, old)
        position = self.collision(old, new, bodies.active)
        bodies = dataclasses.replace(bodies, position=position, direction=direction)
        return step.then(dataclasses.replace(step.world, bodies=bodies))


def _cell_number(position: Int8[Array, "agents 2"]) -> Int16[Array, " agents"]:
    """The number of the cell in which each agent stands."""
    # One comparison of numbers is cheaper than two of coordinates. A grid has at most 127 columns.
    row, col = position[:, 0].astype(jnp.int16), position[:, 1].astype(jnp.int16)
    return row * 128 + col
