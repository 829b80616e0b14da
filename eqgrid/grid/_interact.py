"""What one agent does to the cell in front of it, one agent after the other."""

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
    """What a local rule may look at when an agent's turn has come.

    - `step`: the step, with the world as this agent finds it.
    - `agent`: the number of the agent.
    - `target`: `(row, col)` of the faced cell.
    - `tile`, `cell`: what is built into the faced cell, and what it holds.
    - `body`: the agent's own body: `Bodies` without the agents' axis.
    """

    step: Step
    agent: int = eqx.field(static=True)
    target: Int[Array, "2"]
    tile: UInt8[Array, ""]
    cell: Cell
    body: Bodies

    @property
    def layout(self) -> Layout:
        return self.step.layout

    @property
    def params(self) -> Any:
        """The parameters of the game."""
        return self.step.layout.params

    @property
    def world(self) -> World:
        return self.step.world

    @property
    def key(self) -> PRNGKeyArray:
        """For what is random in this turn. Rules that draw should fold in a number of their own."""
        return jax.random.fold_in(self.step.key, self.agent)

    @property
    def occupied(self) -> Bool[Array, ""]:
        """Whether an active agent stands in the faced cell."""
        bodies = self.step.world.bodies
        here = (bodies.position == self.target[None]).all(axis=-1)
        return (here if bodies.active is None else here & bodies.active).any()

    def uses(self, verb: Use) -> Bool[Array, ""]:
        """Whether the agent has chosen this verb."""
        return self.step.uses(verb)[self.agent]

    def cell_with(self, code: Shaped[Array, ""] | int, **changes: Any) -> Cell:
        """The faced cell with another object, and other changes to its fields."""
        return dataclasses.replace(self.cell, object=jnp.asarray(code, jnp.uint8), **changes)

    def body_with(self, code: Shaped[Array, ""] | int, **changes: Any) -> Bodies:
        """The own body with another object in its hand, and other changes to its fields."""
        return dataclasses.replace(self.body, held=jnp.asarray(code, jnp.uint8), **changes)


@final
class Outcome(eqx.Module):
    """Whether a local rule fires, and what it leaves behind if it does: of the faced cell, and of
    the body of the agent.
    """

    fired: Bool[Array, ""]
    cell: Cell
    body: Bodies


class AbstractInteraction(eqx.Module):
    """A local rule: what an agent that acts does to the cell in front of it."""

    @abc.abstractmethod
    def __call__(self, turn: Turn) -> Outcome:
        """What the rule does in this turn. What it does not change it passes on as it is:
        `turn.cell`, `turn.body`."""


@final
class Interact(AbstractPhase):
    """Lets every agent that uses a verb act on the cell in front of it, agent 0 first, each on the
    world that the ones before it left.

    **Arguments:**

    - `rules`: at most one of them may fire in a turn.
    """

    rules: tuple[AbstractInteraction, ...]

    def __call__(self, step: Step) -> Step:
        bodies = step.world.bodies
        targets = bodies.position + direction_delta(bodies.direction)
        acting = step.uses()
        rows = [
            jax.tree.map(lambda leaf, agent=agent: leaf[agent], bodies)
            for agent in range(step.world.num_agents)
        ]
        first, turns, fired = tuple(rows), [], []
        for agent in range(step.world.num_agents):
            turns.append(step.world)
            cells, rows[agent], fired_here = self._take_turn(
                step, agent, targets[agent], rows[agent], acting[agent]
            )
            now = _join(bodies, first, rows)
            step = step.then(dataclasses.replace(step.world, cells=cells, bodies=now))
            fired.append(fired_here)
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
        tile, cell = get_cell((step.layout.tiles, step.world.cells), target)
        turn = Turn(step, agent, target, tile, cell, body)
        fired, new = [], (cell, body)
        for rule in self.rules:
            outcome = rule(turn)
            fires = outcome.fired & acting
            new = _replace_where(fires, (outcome.cell, outcome.body), new, (cell, body))
            fired.append(fires)
        return set_cell(step.world.cells, target, new[0]), new[1], tuple(fired)


def _replace_where(fires: Bool[Array, ""], new: _T, old: _T, unchanged: _T) -> _T:
    """`new` where a rule fires; what the rule has passed on as it was costs nothing."""
    return jax.tree.map(
        lambda x, y, same: y if x is same else jnp.where(fires, x, y), new, old, unchanged
    )


def _join(bodies: Bodies, first: tuple[Bodies, ...], rows: list[Bodies]) -> Bodies:
    """The rows of all agents as one; what no rule has changed costs nothing."""
    leaves, structure = jax.tree.flatten(bodies)
    before, now = ([jax.tree.leaves(row) for row in x] for x in (first, rows))
    for i in range(len(leaves)):
        if any(new[i] is not old[i] for new, old in zip(now, before, strict=True)):
            leaves[i] = jnp.stack([row[i] for row in now])
    return jax.tree.unflatten(structure, leaves)
