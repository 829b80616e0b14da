"""OvercookedV2: a kitchen with several ingredients, orders, and partial sight."""

import dataclasses
from collections.abc import Mapping, Sequence

import jax.numpy as jnp
from jaxtyping import ArrayLike, Int, Real

from ...grid import (
    AbstractInteraction,
    AbstractObservation,
    AbstractPhase,
    AbstractStart,
    Action,
    Direction,
    Go,
    GridWorld,
    Interact,
    Layout,
    LocalCollision,
    Move,
    Stay,
    Tick,
    Use,
    WeightedEventReward,
)
from ._contents import FIRST_INGREDIENT, INGREDIENTS, contents_of
from ._events import EVENT_NAMES, KitchenEvents
from ._interactions import (
    AddIngredient,
    Deliver,
    FillPlate,
    PickUp,
    PressButton,
    PutDown,
    StartByHand,
    StartFull,
    Take,
)
from ._layouts import load_layout
from ._orders import DrawRecipe, Recipe, TakeOrder
from ._planes import PermutedPlanes, recipe_planes
from ._starts import PermuteIngredients, RandomKitchen, RandomPlaces
from ._ticks import RunClocks

ACTIONS: tuple[Action, ...] = (
    Move(Direction.EAST),
    Move(Direction.SOUTH),
    Move(Direction.WEST),
    Move(Direction.NORTH),
    Stay(),
    Use("interact"),
)
"""Right, down, left, up, stay and interact: the order of JaxMARL."""

REFERENCE_SHAPING = {
    "useful_potting": 3.0,
    "right_cooking_start": 5.0,
    "right_plating": 5.0,
    "useful_plate_pickup": 3.0,
}
"""What JaxMARL pays for steps towards a soup (its `SHAPED_REWARDS`)."""

DELIVERY_REWARD = 20.0
"""What a soup pays that is what was ordered."""

BUTTON_COST = 5.0
"""What pressing a button costs."""

_RULES: tuple[AbstractInteraction, ...] = (
    PutDown(),
    PickUp(),
    Take(),
    FillPlate(),
    Deliver(),
    PressButton(),
)


def OvercookedV2(
    layout: str | Layout = "cramped_room",
    *,
    recipes: Sequence[Recipe] | None = None,
    view_radius: int | None = None,
    horizon: Int[ArrayLike, ""] = 400,
    start_by_hand: bool = False,
    negative_rewards: bool = False,
    sample_recipe_on_delivery: bool = False,
    indicate_successful_delivery: bool = False,
    random_positions: bool = False,
    random_reset: bool = False,
    permuted_ingredients: Sequence[str] = (),
    observation: AbstractObservation | None = None,
    starts: Sequence[AbstractStart] = (),
    shaping: Mapping[str, Real[ArrayLike, ""]] = REFERENCE_SHAPING,
) -> GridWorld:
    """Cooks share a kitchen, and deliver the soup that is ordered, which only some of them may see.

    Every cook has the six actions of `ACTIONS`; any other number means stay. The reward is what the
    team earned. An episode is cut, never finished. Rules, pay and planes are those of JaxMARL.

    **Arguments:**

    - `layout`, `recipes`: the kitchen, and what may be ordered in it; see `load_layout`.
    - `view_radius`: how far a cook sees, in cells, to every side; everything unless given.
    - `horizon`: steps in an episode.
    - `start_by_hand`: an empty hand starts a pot, not the third ingredient.
    - `negative_rewards`: a wrong soup costs as much as the right one pays.
    - `sample_recipe_on_delivery`: after the right soup another recipe is drawn.
    - `indicate_successful_delivery`: one more plane shows when that has just been delivered.
    - `random_positions`: cooks start anywhere in their rooms, facing anywhere.
    - `random_reset`: so they do, and hands, pots and counters may hold something.
    - `permuted_ingredients`: every cook mistakes these for one another; see `PermuteIngredients`.
    - `observation`: a Module of your own in place of `recipe_planes`.
    - `starts`: what else is random about the start of an episode, applied last, in this order.
    - `shaping`: what each of `EVENT_NAMES` adds to the shaped reward of the cook that caused it.

    **Raises:** `ValueError` (a `LayoutError` for the kitchen) with one sentence.
    """
    kitchen = load_layout(layout, recipes)
    kitchen = _with_meanings(kitchen) if permuted_ingredients else kitchen
    planes = view_radius, indicate_successful_delivery
    random_start = _random_start(kitchen, random_positions, random_reset, start_by_hand)
    return GridWorld(
        kitchen,
        actions=ACTIONS,
        phases=_phases(start_by_hand, sample_recipe_on_delivery),
        reward=_pay(negative_rewards),
        shaping=WeightedEventReward(shaping, EVENT_NAMES),
        events=KitchenEvents(),
        observation=_choose_observation(kitchen, observation, *planes),
        starts=(DrawRecipe(), *_permutation(kitchen, permuted_ingredients), *random_start, *starts),
        horizon=horizon,
    )


def _phases(start_by_hand: bool, renews: bool) -> tuple[AbstractPhase, ...]:
    pots = (
        (AddIngredient(False), StartByHand())
        if start_by_hand
        else (AddIngredient(True), StartFull())
    )
    clocks = Tick((RunClocks(),))
    return Go(LocalCollision()), Interact((*_RULES, *pots)), clocks, TakeOrder(renews)


def _pay(negative_rewards: bool) -> WeightedEventReward:
    pay = {
        "right_delivery": DELIVERY_REWARD,
        "wrong_delivery": -DELIVERY_REWARD if negative_rewards else 0.0,
        "button_press": -BUTTON_COST,
    }
    return WeightedEventReward(pay, EVENT_NAMES, shared=True)


def _random_start(
    layout: Layout, positions: bool, everything: bool, start_by_hand: bool
) -> tuple[AbstractStart, ...]:
    if everything:
        return (RandomKitchen(layout, full_only=not start_by_hand),)
    return (RandomPlaces(layout),) if positions else ()


def _choose_observation(
    layout: Layout, own: AbstractObservation | None, radius: int | None, served: bool
) -> AbstractObservation:
    if own is None:
        planes = recipe_planes(_num_ingredients(layout), radius, served)
        return planes if layout.start.bodies.extra is None else PermutedPlanes(planes)
    if radius is not None or served:
        raise ValueError("An `observation` of your own decides what is seen: give it no options.")
    return own


def _num_ingredients(layout: Layout) -> int:
    return contents_of(layout.kinds).first_soup - FIRST_INGREDIENT


def _with_meanings(layout: Layout) -> Layout:
    """The kitchen with what each cook takes every ingredient for: itself, to begin with."""
    shape = (layout.num_agents, _num_ingredients(layout))
    meant = jnp.broadcast_to(jnp.arange(shape[1], dtype=jnp.uint8)[None], shape)
    bodies = dataclasses.replace(layout.start.bodies, extra=meant)
    return dataclasses.replace(layout, start=dataclasses.replace(layout.start, bodies=bodies))


def _permutation(layout: Layout, names: Sequence[str]) -> tuple[AbstractStart, ...]:
    known = list(INGREDIENTS)[: _num_ingredients(layout)]
    if not set(names) <= set(known) or len(set(names)) < len(names):
        raise ValueError(
            f"`permuted_ingredients` must be different ones of {', '.join(known)}, not "
            f"{', '.join(names)}."
        )
    return (PermuteIngredients(tuple(known.index(name) for name in names)),) if names else ()
