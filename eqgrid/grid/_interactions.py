"""What happens between a hand and the cell in front of it.

One interaction is one small Module; a kitchen holds a tuple of them. At most one of a kitchen's
interactions may fire on any cell and hand. The rules are those of Overcooked-AI (Carroll et al.,
"On the Utility of Learning about Humans for Human-AI Coordination", NeurIPS 2019).
"""

import abc
import operator
from functools import reduce
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int8, UInt8

from ._layout import Layout
from ._recipes import Recipes, look_up
from ._world import (
    DIGIT,
    IDLE,
    MAX_INGREDIENTS,
    Bodies,
    Cell,
    Fixture,
    Hand,
    Ingredient,
    Item,
    World,
    get_cell,
    heading_delta,
    set_cell,
    soup_size,
)


@final
class Outcome(eqx.Module):
    """Whether an interaction fired, and what it leaves behind if it did."""

    fired: Bool[Array, ""]
    cell: Cell
    hand: Hand


class AbstractInteraction(eqx.Module):
    """A local rule: what an acting body does to the cell in front of it."""

    @abc.abstractmethod
    def __call__(
        self, recipes: Recipes, fixture: UInt8[Array, ""], cell: Cell, hand: Hand
    ) -> Outcome:
        """**Arguments:**

        - `fixture`, `cell`: what is built into the faced cell, and what it holds.
        - `hand`: what the acting body holds.
        """


def hand_with(item: Item) -> Hand:
    """A hand that holds something that is no soup."""
    return Hand(jnp.asarray(item, jnp.uint8))


def empty_cell() -> Cell:
    """A cell in which nothing lies."""
    return Cell(jnp.asarray(Item.NOTHING, jnp.uint8), jnp.asarray(IDLE, jnp.int16))


@final
class PutDown(AbstractInteraction):
    """Puts whatever is held on an empty counter."""

    def __call__(
        self, recipes: Recipes, fixture: UInt8[Array, ""], cell: Cell, hand: Hand
    ) -> Outcome:
        fired = (fixture == Fixture.COUNTER) & (cell.item == Item.NOTHING)
        fired &= hand.item != Item.NOTHING
        return Outcome(fired, Cell(hand.thing, cell.timer), hand_with(Item.NOTHING))


@final
class PickUp(AbstractInteraction):
    """Takes whatever lies on a counter into an empty hand."""

    def __call__(
        self, recipes: Recipes, fixture: UInt8[Array, ""], cell: Cell, hand: Hand
    ) -> Outcome:
        fired = (fixture == Fixture.COUNTER) & (cell.item != Item.NOTHING)
        fired &= hand.item == Item.NOTHING
        return Outcome(fired, empty_cell(), Hand(cell.thing))


@final
class Take(AbstractInteraction):
    """Takes a new item from its dispenser into an empty hand. Nothing can be given back."""

    dispenser: Fixture = eqx.field(static=True)
    item: Item = eqx.field(static=True)

    def __call__(
        self, recipes: Recipes, fixture: UInt8[Array, ""], cell: Cell, hand: Hand
    ) -> Outcome:
        fired = (fixture == self.dispenser) & (hand.item == Item.NOTHING)
        return Outcome(fired, cell, hand_with(self.item))


@final
class AddIngredient(AbstractInteraction):
    """Puts a held ingredient into a pot that has not been started and holds fewer than three."""

    item: Item = eqx.field(static=True)
    ingredient: Ingredient = eqx.field(static=True)

    def __call__(
        self, recipes: Recipes, fixture: UInt8[Array, ""], cell: Cell, hand: Hand
    ) -> Outcome:
        fired = (fixture == Fixture.POT) & (hand.item == self.item) & (cell.timer == IDLE)
        fired &= soup_size(cell.thing) < MAX_INGREDIENTS
        soup = jnp.maximum(cell.thing, jnp.uint8(Item.SOUP)) + DIGIT[self.ingredient]
        return Outcome(fired, Cell(soup, cell.timer), hand_with(Item.NOTHING))


@final
class StartCooking(AbstractInteraction):
    """Starts, with an empty hand, a pot that holds at least one ingredient."""

    def __call__(
        self, recipes: Recipes, fixture: UInt8[Array, ""], cell: Cell, hand: Hand
    ) -> Outcome:
        fired = (fixture == Fixture.POT) & (hand.item == Item.NOTHING)
        fired &= (cell.item == Item.SOUP) & (cell.timer == IDLE)
        cook_time = look_up(recipes.cook_time, cell.thing)
        return Outcome(fired, Cell(cell.thing, cook_time), hand)


@final
class Plate(AbstractInteraction):
    """Takes a ready soup out of its pot with a dish."""

    def __call__(
        self, recipes: Recipes, fixture: UInt8[Array, ""], cell: Cell, hand: Hand
    ) -> Outcome:
        fired = (fixture == Fixture.POT) & (hand.item == Item.DISH)
        fired &= (cell.item == Item.SOUP) & (cell.timer == 0)
        return Outcome(fired, empty_cell(), Hand(cell.thing))


@final
class Deliver(AbstractInteraction):
    """Hands a soup over at the serving hatch."""

    def __call__(
        self, recipes: Recipes, fixture: UInt8[Array, ""], cell: Cell, hand: Hand
    ) -> Outcome:
        fired = (fixture == Fixture.SERVING) & (hand.item == Item.SOUP)
        return Outcome(fired, cell, hand_with(Item.NOTHING))


@final
class Events(eqx.Module):
    """The facts of one step: who did what, and the world each cook did it in.

    - `fired`: for each agent, in this order, which of the kitchen's interactions fired; `kinds` are
        their types.
    - `turns`: the world as each agent found it when its turn came, in the order of the agents.
    - `hands`: what each agent held after its own turn.
    """

    fired: tuple[tuple[Bool[Array, ""], ...], ...]
    turns: tuple[World, ...]
    hands: Hand
    kinds: tuple[type[AbstractInteraction], ...] = eqx.field(static=True)

    @property
    def before(self) -> World:
        """The world before anybody acted."""
        return self.turns[0]

    def by(self, *kinds: type[AbstractInteraction]) -> Bool[Array, " agents"]:
        """Whether an interaction of one of these kinds fired."""
        columns = [i for i, kind in enumerate(self.kinds) if issubclass(kind, kinds)]
        never = jnp.zeros((), bool)
        return jnp.stack(
            [reduce(operator.or_, (fired[i] for i in columns), never) for fired in self.fired]
        )


def interact(
    interactions: tuple[AbstractInteraction, ...],
    layout: Layout,
    world: World,
    acting: Bool[Array, " agents"],
) -> tuple[World, Events]:
    """Lets every acting agent interact with the cell in front of it, agent 0 first, each on the
    world that the ones before it left.

    **Returns:** the world afterwards, and the events.
    """
    bodies = world.bodies
    targets = bodies.position + heading_delta(bodies.heading)
    cells, held = world.cells, list(bodies.held.thing)
    turns, fired = [], []
    for agent in range(world.num_agents):
        turns.append(World(cells, _holding(bodies, held), world.time))
        cells, hand, fired_here = _turn(
            interactions, layout, cells, targets[agent], Hand(held[agent]), acting[agent]
        )
        held[agent] = hand.thing
        fired.append(fired_here)
    kinds = tuple(type(interaction) for interaction in interactions)
    bodies = _holding(bodies, held)
    return World(cells, bodies, world.time), Events(tuple(fired), tuple(turns), bodies.held, kinds)


def _holding(bodies: Bodies, held: list[UInt8[Array, ""]]) -> Bodies:
    return Bodies(bodies.position, bodies.heading, Hand(jnp.stack(held)))


def _turn(
    interactions: tuple[AbstractInteraction, ...],
    layout: Layout,
    cells: Cell,
    target: Int8[Array, "2"],
    hand: Hand,
    acting: Bool[Array, ""],
) -> tuple[Cell, Hand, tuple[Bool[Array, ""], ...]]:
    fixture, cell = get_cell((layout.fixtures, cells), target)
    new_cell, new_hand = cell, hand
    fired = []
    for interaction in interactions:
        outcome = interaction(layout.recipes, fixture, cell, hand)
        fires = outcome.fired & acting
        new_cell, new_hand = jax.tree.map(
            lambda new, old, fires=fires: jnp.where(fires, new, old),
            (outcome.cell, outcome.hand),
            (new_cell, new_hand),
        )
        fired.append(fires)
    return set_cell(cells, target, new_cell), new_hand, tuple(fired)
