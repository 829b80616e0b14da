"""Overcooked: a kitchen put together from parts of the grid engine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from jaxtyping import ArrayLike, Int, Real

from ...grid import (
    MOVES,
    AbstractInteraction,
    AbstractObservation,
    AbstractPhase,
    AbstractStart,
    Action,
    Go,
    GridWorld,
    Interact,
    JointCollision,
    Layout,
    Stay,
    Tick,
    Use,
    WeightedEventReward,
)
from ._contents import Ingredient, Item, Tile
from ._events import EVENT_NAMES, KitchenEvents, SharedDeliveryReward
from ._features import kitchen_features
from ._interactions import AddIngredient, Deliver, PickUp, Plate, PutDown, StartCooking, Take
from ._layouts import load_layout
from ._planes import lossless_planes
from ._reference_features import ReferenceFeatures
from ._ticks import Cook, StartWhenFull

REFERENCE_SHAPING = {
    "onion_potting": 3.0,
    "tomato_potting": 3.0,
    "soup_plating": 5.0,
    "useful_dish_pickup": 3.0,
}
"""What the reference simulator pays for steps towards a soup (its `BASE_REW_SHAPING_PARAMS`)."""

TRAINING_SHAPING = {
    "onion_potting": 3.0,
    "tomato_potting": 3.0,
    "soup_pickup": 3.0,  # plating is one
    "soup_drop": -3.0,
    "useful_dish_pickup": 3.0,
}
"""What a cook is paid by the command lines: who puts a soup down gives back what it was paid for.
Cooks that keep it may learn to put every soup on a counter, which frees their hands for the next
one, and never deliver any.

Source of the idea: a shaped reward that is a difference of potentials changes no best policy (Ng,
Harada and Russell 1999, "Policy invariance under reward transformations")."""

ACTIONS: tuple[Action, ...] = (*MOVES, Stay(), Use("interact"))
"""North, south, east, west, stay and interact."""

STAY, INTERACT = 4, 5
"""The numbers of two of the `ACTIONS`; those of the moves are directions."""

RULES: tuple[AbstractInteraction, ...] = (
    PutDown(),
    PickUp(),
    Take(Tile.ONION_DISPENSER, Item.ONION),
    Take(Tile.TOMATO_DISPENSER, Item.TOMATO),
    Take(Tile.DISH_DISPENSER, Item.DISH),
    AddIngredient(Item.ONION, Ingredient.ONION),
    AddIngredient(Item.TOMATO, Ingredient.TOMATO),
    Plate(),
    Deliver(),
)
"""What cooks do in both games."""

DYNAMICS: dict[str, tuple[AbstractPhase, ...]] = {
    "classic": (Interact(RULES), Go(JointCollision()), Tick((StartWhenFull(), Cook()))),
    "interactive": (Interact((*RULES, StartCooking())), Go(JointCollision()), Tick((Cook(),))),
}
"""The phases of both games: the one of 2019 and the one of 2020.

Source of the collisions: `OvercookedGridworld._handle_collisions` of Overcooked-AI."""


def Overcooked(
    layout: str | Path | Layout = "cramped",
    *,
    dynamics: Literal["classic", "interactive"] = "classic",
    horizon: Int[ArrayLike, ""] = 400,
    observation: Literal["planes", "features", "features96"] | AbstractObservation = "planes",
    starts: tuple[AbstractStart, ...] = (),
    shaping: Mapping[str, Real[ArrayLike, ""]] = REFERENCE_SHAPING,
) -> GridWorld:
    """Cooks share a kitchen and deliver soups.

    Every cook has six actions: go north, south, east or west, stay, interact; any other number
    means stay. The reward is what the whole team earned by deliveries. An episode is cut, never
    finished, after `horizon` steps.

    **Arguments:**

    - `layout`: the kitchen: a name, a text, a file or a `Layout`; see `load_layout`.
    - `dynamics`: `"classic"`: a pot starts by itself when it holds three ingredients;
        `"interactive"`: a cook with empty hands starts it, with one to three.
    - `horizon`: steps in an episode.
    - `observation`: `"planes"` or `"features96"`, both bit-equal to the reference's, `"features"`,
        or a Module of your own.
    - `starts`: what is random about the start of an episode, applied in this order; nothing by
        default.
    - `shaping`: what each event of `EVENT_NAMES` adds to the shaped reward of the cook that caused
        it.

    **Raises:** `ValueError` (a `LayoutError` for the kitchen) with one sentence that says what to
    do.
    """
    if dynamics not in DYNAMICS:
        raise ValueError(f"There are no dynamics {dynamics!r}: choose {' or '.join(DYNAMICS)}.")
    layout = load_layout(layout)
    return GridWorld(
        layout,
        actions=ACTIONS,
        phases=DYNAMICS[dynamics],
        reward=SharedDeliveryReward(),
        shaping=WeightedEventReward(shaping, EVENT_NAMES),
        events=KitchenEvents(),
        observation=_choose_observation(observation, layout),
        starts=starts,
        horizon=horizon,
    )


def _choose_observation(
    observation: str | AbstractObservation, layout: Layout
) -> AbstractObservation:
    if isinstance(observation, AbstractObservation):
        return observation
    if observation == "planes":
        return lossless_planes()
    if observation == "features":
        return kitchen_features()
    if observation == "features96":
        return ReferenceFeatures(layout)
    raise ValueError(
        f"There is no observation {observation!r}: choose features96, planes or features."
    )
