"""Interactions of agents, one after the other, with the cells that they face."""

import abc
import dataclasses
from typing import Any, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray, Shaped, UInt8

from ._actions import Use
from ._layout import Layout
from ._step import AbstractPhase, Step
from ._world import Bodies, Cell, World, direction_delta, get_cell, set_cell

_T = TypeVar("_T")


@final
class Turn(eqx.Module):
    """The input of an interaction rule: the world when it is one agent's turn to act.

    - `step`: the step, whose world is the world after the turns of earlier agents.
    - `agent`: the index of the agent.
    - `target`: `(row, col)` of the faced cell.
    - `tile`, `cell`: the kind of tile of the faced cell, and its contents.
    - `body`: the agent's own body: `Bodies` without the `agents` axis.
    """

    step: Step
    agent: int = eqx.field(static=True)
    target: Int[Array, "2"]
    tile: UInt8[Array, ""]
    cell: Cell
    body: Bodies

    @property
    def layout(self) -> Layout:
        """The layout of the world."""
        return self.step.layout

    @property
    def params(self) -> Any:
        """The parameters of the game."""
        return self.step.layout.params

    @property
    def world(self) -> World:
        """The world when it is this agent's turn."""
        return self.step.world

    @property
    def key(self) -> PRNGKeyArray:
        """The random key of this turn. Rules that use it should each fold in their own constant."""
        return jax.random.fold_in(self.step.key, self.agent)

    @property
    def occupied(self) -> Bool[Array, ""]:
        """Whether an active agent stands in the faced cell."""
        return self.step.occupied(self.target)

    def uses(self, verb: Use) -> Bool[Array, ""]:
        """Whether the agent has chosen this action."""
        return self.step.uses(verb)[self.agent]

    def cell_with(self, code: Shaped[Array, ""] | int, **changes: Any) -> Cell:
        """The faced cell with another object code, and changes to other fields."""
        return dataclasses.replace(self.cell, object=jnp.asarray(code, jnp.uint8), **changes)

    def body_with(self, code: Shaped[Array, ""] | int, **changes: Any) -> Bodies:
        """The agent's body with another held object code, and changes to other fields."""
        return dataclasses.replace(self.body, held=jnp.asarray(code, jnp.uint8), **changes)


@final
class Outcome(eqx.Module):
    """The result of an interaction rule: whether it fires, and if so, the new faced cell and the
    new body of the agent.

    ```python
    from eqgrid.grid import NOTHING, Outcome, Turn


    def drop(turn: Turn) -> Outcome:
        # An agent puts the held object into an empty cell
        fired = (turn.body.held != NOTHING) & (turn.cell.object == NOTHING)
        return Outcome(fired, turn.cell_with(turn.body.held), turn.body_with(NOTHING))
    ```
    """

    fired: Bool[Array, ""]
    cell: Cell
    body: Bodies


class AbstractInteraction(eqx.Module):
    r"""An interaction rule: how an acting agent changes the cell that it faces, and its own body.

    ```python
    from typing import final

    import jax
    import jax.numpy as jnp

    from eqgrid import grid

    KINDS = grid.Kinds(
        tiles=(
            grid.Kind("floor", " "),
            grid.Kind("wall", "#", solid=True),
            grid.Kind("well", "W", solid=True),
        ),
        objects=(grid.Kind("water", "~", carryable=True),),
    )


    @final
    class Draw(grid.AbstractInteraction):
        def __call__(self, turn: grid.Turn) -> grid.Outcome:
            fired = (turn.tile == KINDS.tile("well")) & (turn.body.held == 0)
            return grid.Outcome(fired, turn.cell, turn.body_with(KINDS.code("water")))


    yard = grid.GridWorld(
        grid.Layout.parse("###\n#1W\n###", KINDS).with_start(directions=[2]),  # east
        actions=(*grid.MOVES, grid.Use("draw")),
        phases=(grid.Interact((Draw(),)),),
        events=grid.RuleEvents(draw=Draw),
        reward=grid.WeightedEventReward({"draw": 1.0}, ("draw",)),
    )
    _, state = yard.reset(jax.random.key(0))
    _, state = yard.step(jax.random.key(1), state, jnp.array([4]))
    print(state.bodies.held == KINDS.code("water"))  # [ True]
    ```
    """

    @abc.abstractmethod
    def __call__(self, turn: Turn) -> Outcome:
        """The result of the rule in this turn. If the rule does not change the cell or the body,
        it returns `turn.cell` or `turn.body` itself.
        """


@final
class Interact(AbstractPhase):
    """The phase in which agents with a `Use` action act on the cells that they face. Agents act in
    the order of their indices. Each agent acts on the world that earlier agents have changed.

    ```python
    from typing import final

    from eqgrid.grid import NOTHING, AbstractInteraction, Interact, Outcome, Turn


    @final
    class PutDown(AbstractInteraction):
        def __call__(self, turn: Turn) -> Outcome:
            fired = (turn.body.held != NOTHING) & (turn.cell.object == NOTHING)
            return Outcome(fired, turn.cell_with(turn.body.held), turn.body_with(NOTHING))


    phases = (Interact((PutDown(),)),)
    ```

    **Arguments:**

    - `rules`: the interaction rules; at most one of them may fire in a turn.
    """

    rules: tuple[AbstractInteraction, ...]

    def __call__(self, step: Step) -> Step:
        bodies = step.world.bodies
        targets = bodies.position + direction_delta(bodies.direction)
        acting = step.uses()
        # While agents take turns, each body is a row of its own: writing it into the stacked arrays
        # would copy all of them in every turn.
        rows = [
            jax.tree.map(lambda leaf, agent=agent: leaf[agent], bodies)
            for agent in range(step.world.num_agents)
        ]
        first_rows, turns, fired = tuple(rows), [], []
        for agent in range(step.world.num_agents):
            turns.append(step.world)
            cells, rows[agent], fired_in_turn = self._take_turn(
                step, agent, targets[agent], rows[agent], acting[agent]
            )
            joined = _join(bodies, first_rows, rows)
            step = step.then(dataclasses.replace(step.world, cells=cells, bodies=joined))
            fired.append(fired_in_turn)
        # `fired` has a row for each agent, and `Step.fired` has a row for each rule.
        return dataclasses.replace(
            step,
            turns=tuple(turns),
            rules=(*step.rules, *(type(rule) for rule in self.rules)),
            fired=(*step.fired, *zip(*fired, strict=True)),
        )

    def _take_turn(
        self,
        step: Step,
        agent: int,
        target: Int[Array, "2"],
        body: Bodies,
        acting: Bool[Array, ""],
    ) -> tuple[Cell, Bodies, tuple[Bool[Array, ""], ...]]:
        """The cells after the turn, the agent's new body, and which rules have fired."""
        tile, cell = get_cell((step.layout.tiles, step.world.cells), target)
        turn = Turn(step, agent, target, tile, cell, body)
        fired, new = [], (cell, body)
        # Every rule sees the cell as it was before the turn, so the order of rules does not matter.
        for rule in self.rules:
            outcome = rule(turn)
            fires = outcome.fired & acting
            new = _replace_where(fires, (outcome.cell, outcome.body), new, (cell, body))
            fired.append(fires)
        # The cell is written even if no rule fired, since selecting one of two grids costs more.
        return set_cell(step.world.cells, target, new[0]), new[1], tuple(fired)


def _replace_where(fires: Bool[Array, ""], new: _T, old: _T, unchanged: _T) -> _T:
    """`new` where a rule fires, else `old`. Leaves that the rule returned unchanged stay `old`."""
    return jax.tree.map(
        lambda x, y, same: y if x is same else jnp.where(fires, x, y), new, old, unchanged
    )


def _join(bodies: Bodies, first_rows: tuple[Bodies, ...], rows: list[Bodies]) -> Bodies:
    """The bodies with the rows of all agents stacked. Leaves that no rule changed are reused."""
    leaves, structure = jax.tree.flatten(bodies)
    old, new = ([jax.tree.leaves(row) for row in x] for x in (first_rows, rows))
    for i in range(len(leaves)):
        # Compared by identity while tracing, so that unchanged arrays cost nothing.
        if any(new_row[i] is not old_row[i] for new_row, old_row in zip(new, old, strict=True)):
            leaves[i] = jnp.stack([row[i] for row in new])
    return jax.tree.unflatten(structure, leaves)
