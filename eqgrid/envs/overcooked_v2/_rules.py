"""Interactions of cooks, cooking, orders and rewards.

They follow OvercookedV2 (Gessler et al., "OvercookedV2: Rethinking Overcooked for Zero-Shot
Coordination", ICLR 2025) in JaxMARL 0.2.0. In the turn of a cook, at most one interaction fires.
The timers of pots and buttons run after all cooks have acted.
"""

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float32, Int16, Int32, Integer, PRNGKeyArray, UInt8

from ..._checks import check_whole
from ...grid import (
    IDLE,
    NOTHING,
    AbstractEvents,
    AbstractInteraction,
    AbstractPhase,
    AbstractStart,
    AbstractTick,
    Cell,
    Layout,
    Outcome,
    Spot,
    Step,
    Turn,
    World,
    direction_delta,
)
from ._contents import INGREDIENTS, MAX_INGREDIENTS, PLATE, Tile, contents, contents_of


def _faces_idle_pot(turn: Turn) -> Bool[Array, ""]:
    return (turn.tile == Tile.POT) & (turn.cell.clock == IDLE)


@final
class PutDown(AbstractInteraction):
    """A cook puts the held object on an empty counter."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.COUNTER) & (turn.cell.object == NOTHING)
        fired &= turn.body.held != NOTHING
        return Outcome(fired, turn.cell_with(turn.body.held), turn.body_with(NOTHING))


@final
class PickUp(AbstractInteraction):
    """A cook with empty hands picks up the object on a counter."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.COUNTER) & (turn.cell.object != NOTHING)
        fired &= turn.body.held == NOTHING
        return Outcome(fired, turn.cell_with(NOTHING), turn.body_with(turn.cell.object))


@final
class Take(AbstractInteraction):
    """A cook with empty hands takes a plate or an ingredient from its pile. Objects cannot be put
    back.
    """

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile >= Tile.PLATES) & (turn.body.held == NOTHING)
        taken = turn.tile - jnp.uint8(Tile.PLATES - PLATE)  # codes are in the order of the piles
        return Outcome(fired, turn.cell, turn.body_with(taken))


@final
class AddIngredient(AbstractInteraction):
    """A cook puts the held ingredient into a pot that has not been started and has fewer than three
    ingredients.

    **Arguments:**

    - `starts_full`: whether the third ingredient starts the pot.
    """

    starts_full: bool = eqx.field(static=True)

    def __call__(self, turn: Turn) -> Outcome:
        table = contents_of(turn.layout.kinds)
        mixed = jnp.asarray(table.mixed)[turn.cell.object, turn.body.held]
        fired = _faces_idle_pot(turn) & (mixed != NOTHING)
        timer = turn.cell.clock
        if self.starts_full:
            full = jnp.asarray(table.size)[mixed] == MAX_INGREDIENTS
            timer = jnp.where(full, turn.params.cook_time, timer)
        return Outcome(fired, turn.cell_with(mixed, timer=timer), turn.body_with(NOTHING))


@final
class StartFull(AbstractInteraction):
    """A cook starts a full pot that has not been started, with any object or none in its hands. If
    the third ingredient starts a pot, only random initial states have such pots.
    """

    def __call__(self, turn: Turn) -> Outcome:
        size = jnp.asarray(contents_of(turn.layout.kinds).size)[turn.cell.object]
        fired = _faces_idle_pot(turn) & (size == MAX_INGREDIENTS)
        started = turn.cell_with(turn.cell.object, timer=turn.params.cook_time)
        return Outcome(fired, started, turn.body)


@final
class StartByHand(AbstractInteraction):
    """A cook with empty hands starts a pot that has at least one ingredient."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = _faces_idle_pot(turn) & (turn.cell.object != NOTHING)
        fired &= turn.body.held == NOTHING
        started = turn.cell_with(turn.cell.object, timer=turn.params.cook_time)
        return Outcome(fired, started, turn.body)


@final
class FillPlate(AbstractInteraction):
    """A cook with a plate takes a ready soup out of a pot."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.POT) & (turn.body.held == PLATE) & (turn.cell.clock == 0)
        emptied = turn.cell_with(NOTHING, timer=jnp.asarray(IDLE, jnp.int16))
        return Outcome(fired, emptied, turn.body_with(turn.cell.object))


@final
class Deliver(AbstractInteraction):
    """A cook delivers any held soup at a serving hatch."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.SERVING) & (
            turn.body.held >= contents_of(turn.layout.kinds).first_soup
        )
        return Outcome(fired, turn.cell, turn.body_with(NOTHING))


@final
class PressButton(AbstractInteraction):
    """A cook with empty hands presses a button, which then shows the recipe for some steps.
    Pressing a button costs reward even while the button shows the recipe.
    """

    def __call__(self, turn: Turn) -> Outcome:
        fired = (turn.tile == Tile.BUTTON) & (turn.body.held == NOTHING)
        lit = turn.cell_with(turn.cell.object, timer=turn.params.button_time)
        return Outcome(fired, lit, turn.body)


@final
class RunClocks(AbstractTick):
    """Reduces the remaining time of cooking soups and lit buttons by one step."""

    def __call__(self, spot: Spot) -> Cell:
        cell = spot.cell
        timer = cell.clock - (cell.clock > 0).astype(jnp.int16)
        # A pot with the timer 0 is ready, but a button with the timer 0 is not lit any more.
        goes_out = (spot.tile == Tile.BUTTON) & (timer == 0)
        timer = jnp.where(goes_out, jnp.asarray(IDLE, jnp.int16), timer)
        return dataclasses.replace(cell, timer=timer)


Recipe: TypeAlias = tuple[str, ...]
"""Three ingredients by name, in any order, such as `("onion", "onion", "tomato")`."""


@final
class Menu(eqx.Module):
    """The recipes that may be ordered in a kitchen, and the durations, all as array leaves.

    - `recipes`: the codes of the soups that may be ordered, padded to a length that depends only on
        the kinds of the kitchen.
    - `num_recipes`: the number of entries of `recipes` before the padding.
    - `num_ingredients`: the number of ingredients from which random initial states sample; they are
        the first ingredients of the kitchen.
    - `cook_time`: the number of steps that a soup cooks.
    - `button_time`: the number of steps for which a button shows the recipe, including the step in
        which it is pressed.
    """

    recipes: UInt8[Array, " recipes"]
    num_recipes: Int32[Array, ""]
    num_ingredients: Int32[Array, ""]
    cook_time: Int16[Array, ""]
    button_time: Int16[Array, ""]

    def __init__(
        self,
        recipes: Sequence[Recipe],
        num_ingredients: int,
        used_ingredients: int | None = None,
        *,
        cook_time: int = 20,
        button_time: int = 10,
    ):
        """**Arguments:**

        - `recipes`: the recipes that may be ordered.
        - `num_ingredients`: the number of ingredients among the kinds of the kitchen.
        - `used_ingredients`: the number of ingredients from which random initial states sample; all
            by default.
        - `cook_time`, `button_time`: the durations in steps.

        **Raises:** `ValueError` when there are no recipes, when a recipe occurs twice, does not
        have three ingredients or has one that is not in the kitchen, or when a duration is not from
        1 to 1000 steps.
        """
        table, names = contents(num_ingredients), list(INGREDIENTS)[:num_ingredients]
        check_whole(cook_time=cook_time, button_time=button_time)
        for time in (cook_time, button_time):
            if not 1 <= time <= 1000:
                raise ValueError(f"A time must be between 1 and 1000 steps, not {time}.")
        codes = []
        for recipe in recipes:
            if len(recipe) != MAX_INGREDIENTS or not set(recipe) <= set(names):
                raise ValueError(
                    f"{recipe!r} is not a recipe: name {MAX_INGREDIENTS} ingredients, each of "
                    f"{', '.join(names)}."
                )
            codes.append(table.soup(tuple(names.index(name) for name in recipe)))
        if not codes or len(set(codes)) < len(codes):
            raise ValueError("A kitchen needs at least one recipe, and each only once.")
        # The padding gives all kitchens with the same kinds arrays of one shape for batches.
        length = int((table.size == MAX_INGREDIENTS).sum())
        padded = codes + [codes[0]] * (length - len(codes))
        self.recipes = jnp.asarray(padded, jnp.uint8)
        self.num_recipes = jnp.asarray(len(codes), jnp.int32)
        used = num_ingredients if used_ingredients is None else used_ingredients
        self.num_ingredients = jnp.asarray(used, jnp.int32)
        self.cook_time = jnp.asarray(cook_time, jnp.int16)
        self.button_time = jnp.asarray(button_time, jnp.int16)

    def draw(self, key: PRNGKeyArray) -> UInt8[Array, ""]:
        """Samples one of the recipes uniformly, as its code."""
        return self.recipes[as_integer(jax.random.uniform(key), self.num_recipes)]


@final
class Order(eqx.Module):
    """The current order, which is stored in the `extra` field of a world.

    - `recipe`: the code of the ordered soup.
    """

    recipe: UInt8[Array, ""]


def place_order(
    layout: Layout,
    world: World,
    recipe: UInt8[Array, ""],
    served: UInt8[Array, ""] | int = NOTHING,
) -> World:
    """Replaces the order of a world, and updates all signs: every indicator and every lit button
    shows the recipe, as the object on its cell.

    **Arguments:**

    - `layout`: the kitchen.
    - `world`: the world.
    - `recipe`: the code of the ordered soup.
    - `served`: the object on every serving hatch until the next step, to mark a delivery.
    """
    tiles, cells = layout.tiles, world.cells
    shows_recipe = (tiles == Tile.INDICATOR) | ((tiles == Tile.BUTTON) & (cells.clock > 0))
    shown = jnp.where(shows_recipe, recipe, jnp.asarray(NOTHING, jnp.uint8))
    shown = jnp.where(tiles == Tile.SERVING, jnp.asarray(served, jnp.uint8), shown)
    signs = shows_recipe | (tiles == Tile.BUTTON) | (tiles == Tile.SERVING)
    cells = dataclasses.replace(cells, object=jnp.where(signs, shown, cells.object))
    return dataclasses.replace(world, cells=cells, extra=Order(recipe))


@final
class DrawRecipe(AbstractStart):
    """Samples the recipe of each episode uniformly."""

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        return place_order(layout, world, layout.params.draw(key))


@final
class TakeOrder(AbstractPhase):
    """The phase that updates the order and the signs that show it, and marks deliveries of the
    ordered soup.

    **Arguments:**

    - `renews`: whether to sample a new recipe after the delivery of the ordered soup.
    """

    renews: bool = eqx.field(static=True, default=False)

    def __call__(self, step: Step) -> Step:
        recipe = step.before.extra.recipe
        served = is_right_delivery(step).any()
        next_recipe = recipe
        if self.renews:
            next_recipe = jnp.where(served, step.layout.params.draw(step.key), recipe)
        mark = jnp.where(served, recipe, jnp.asarray(NOTHING, jnp.uint8))
        return step.then(place_order(step.layout, step.world, next_recipe, mark))


def is_right_delivery(step: Step) -> Bool[Array, " agents"]:
    """Whether each agent has delivered the ordered soup in a step."""
    return step.by(Deliver) & (step.before.bodies.held == step.before.extra.recipe)


def as_integer(
    uniform: Float32[Array, "*shape"], below: Integer[ArrayLike, ""]
) -> Int32[Array, "*shape"]:
    """Converts uniform random numbers in [0, 1) to integers in [0, `below`). This is much cheaper
    than `jax.random.randint`, which samples twice.
    """
    return (uniform * jnp.asarray(below, jnp.float32)).astype(jnp.int32)


def all_recipes(ingredients: Sequence[str]) -> tuple[Recipe, ...]:
    """All recipes of three ingredients, which may repeat, from the given ones."""
    names = list(INGREDIENTS)
    chosen = {names.index(name) for name in ingredients}
    return tuple(
        tuple(names[i] for i in recipe)
        for recipe in contents(len(INGREDIENTS)).recipes
        if len(recipe) == MAX_INGREDIENTS and set(recipe) <= chosen
    )


EVENT_NAMES = (
    "ingredient_pickup",
    "plate_pickup",
    "useful_plate_pickup",
    "soup_pickup",
    "drop",
    "potting",
    "useful_potting",
    "cooking_start",
    "right_cooking_start",
    "plating",
    "right_plating",
    "right_delivery",
    "wrong_delivery",
    "button_press",
)
"""The events that are counted for every cook.

Pick-ups are from piles and counters, and drops are onto counters. A cooking start is counted if a
cook starts a pot by hand, or starts a full pot of a random initial state. "Right" means that the
soup is the ordered one. Potting is useful if the order needs more of the ingredient than the pot
has. Picking up a plate from its pile is useful if no plate lies on a counter, and the cooks hold
fewer plates than there are filled pots.
"""


@final
class KitchenEvents(AbstractEvents):
    """The events of `EVENT_NAMES`."""

    names: tuple[str, ...] = eqx.field(static=True, default=EVENT_NAMES)

    def __call__(self, step: Step) -> tuple[Bool[Array, " agents"], ...]:
        table = contents_of(step.layout.kinds)
        before, after = step.before.bodies.held, step.world.bodies.held
        recipe = step.before.extra.recipe
        objects = []  # in the cells that the agents faced on their turns
        for agent, world in enumerate(step.turns):
            bodies = world.bodies
            target = bodies.position[agent] + direction_delta(bodies.direction[agent])
            objects.append(world.cells.object[target[0], target[1]])
        faced = jnp.stack(objects)
        # How much the recipe needs of the object that each agent held.
        amount = jnp.asarray(table.amount)
        needed = amount[jnp.broadcast_to(recipe, faced.shape), before]
        picked = step.by(PickUp, Take)
        started = step.by(StartByHand, StartFull)
        potted, plated, right = step.by(AddIngredient), step.by(FillPlate), is_right_delivery(step)
        happened = {
            "ingredient_pickup": picked & (after > PLATE) & (after < table.first_soup),
            "plate_pickup": picked & (after == PLATE),
            "useful_plate_pickup": step.by(Take) & (after == PLATE) & _plate_is_useful(step),
            "soup_pickup": picked & (after >= table.first_soup),
            "drop": step.by(PutDown),
            "potting": potted,
            "useful_potting": potted & (amount[faced, before] < needed),
            "cooking_start": started,
            "right_cooking_start": step.by(StartByHand) & (faced == recipe),
            "plating": plated,
            "right_plating": plated & (after == recipe),
            "right_delivery": right,
            "wrong_delivery": step.by(Deliver) & ~right,
            "button_press": step.by(PressButton),
        }
        return tuple(happened[name] for name in self.names)


def _plate_is_useful(step: Step) -> Bool[Array, " agents"]:
    """Whether it would be useful for each cook to pick up a plate on its turn. Plates in hands are
    counted before the step, pots and counters at the cook's turn.
    """
    num_held = (step.before.bodies.held == PLATE).sum(dtype=jnp.int32)
    pots = step.layout.tiles == Tile.POT
    useful = []
    for world in step.turns:
        objects = world.cells.object
        num_filled = (pots & (objects != NOTHING)).sum(dtype=jnp.int32)
        useful.append((num_held < num_filled) & ~(objects == PLATE).any())
    return jnp.stack(useful)
