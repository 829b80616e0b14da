"""Overcooked, composed of parts of the grid engine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias, final

from jaxtyping import ArrayLike, Int, Real

from ...grid import (
    MOVES,
    AbstractGridWorld,
    AbstractInteraction,
    AbstractObservation,
    AbstractPhase,
    AbstractStart,
    Action,
    Go,
    Interact,
    JointCollision,
    Layout,
    Stay,
    Tick,
    Use,
    WeightedEventReward,
    choose_observation,
)
from ._contents import Ingredient, Item, Tile
from ._observations import kitchen_features, lossless_planes, timed_features
from ._rules import (
    EVENT_NAMES,
    AddIngredient,
    Cook,
    Deliver,
    KitchenEvents,
    PickUp,
    Plate,
    PutDown,
    SharedDeliveryReward,
    StartCooking,
    StartWhenFull,
    Take,
)
from .layouts import load_layout
from .reference import ReferenceFeatures

REFERENCE_SHAPING = {
    "onion_potting": 3.0,
    "tomato_potting": 3.0,
    "soup_plating": 5.0,
    "useful_dish_pickup": 3.0,
}
"""The shaping rewards of the reference simulator (its `BASE_REW_SHAPING_PARAMS`)."""

TRAINING_SHAPING = {
    "onion_potting": 3.0,
    "tomato_potting": 3.0,
    "soup_pickup": 3.0,  # includes plating
    "soup_drop": -3.0,
    "useful_dish_pickup": 3.0,
}
"""The default shaping rewards of the command-line programs. Dropping a soup costs the same as the
reward for picking it up. Without this cost, cooks may learn to put every soup on a counter, which
frees their hands for the next soup, and never to deliver a soup.

The idea comes from potential-based shaping, which does not change the optimal policies (Ng,
Harada and Russell 1999, "Policy invariance under reward transformations").
"""

ACTIONS: tuple[Action, ...] = (*MOVES, Stay(), Use("interact"))
"""North, south, east, west, stay and interact."""

STAY = 4
"""The index of the action to stay; the index of a move equals its `Direction`."""

INTERACT = 5
"""The index of the action to interact with the faced cell."""

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
"""The interaction rules that both dynamics share."""

DYNAMICS: dict[str, tuple[AbstractPhase, ...]] = {
    "classic": (Interact(RULES), Go(JointCollision()), Tick((StartWhenFull(), Cook()))),
    "interactive": (Interact((*RULES, StartCooking())), Go(JointCollision()), Tick((Cook(),))),
}
"""The phases of a step for each dynamics: `classic` follows Overcooked-AI of 2019, and
`interactive` follows Overcooked-AI of 2020.

If two cooks would collide, no cook moves (`JointCollision`). Source of this rule:
`OvercookedGridworld._handle_collisions` of Overcooked-AI.
"""


KitchenObservation: TypeAlias = Literal["planes", "features", "timed_features", "features96"]
"""The names of the observations of a kitchen."""


@final
class Overcooked(AbstractGridWorld):
    """A kitchen of Overcooked, in which cooks deliver soups together.

    Every cook has six actions: go north, south, east or west, stay, and interact. Any other number
    means stay. All cooks get the same reward, the value of all soups that are delivered in the
    step. Episodes do not terminate; they are truncated after `horizon` steps.

    ```python
    from eqgrid.envs.overcooked import Overcooked

    env = Overcooked("ring", observation="features", horizon=400)
    ```
    """

    def __init__(
        self,
        layout: str | Path | Layout = "cramped",
        *,
        dynamics: Literal["classic", "interactive"] = "classic",
        horizon: Int[ArrayLike, ""] = 400,
        observation: KitchenObservation | AbstractObservation = "planes",
        starts: tuple[AbstractStart, ...] = (),
        shaping: Mapping[str, Real[ArrayLike, ""]] = REFERENCE_SHAPING,
    ):
        """**Arguments:**

        - `layout`: the name, text or path of a kitchen, or a `Layout`; see `load_layout`.
        - `dynamics`: with `"classic"`, a pot with three ingredients starts by itself; with
            `"interactive"`, a cook with empty hands starts a pot with one to three ingredients.
        - `horizon`: the number of steps in an episode.
        - `observation`: the name of an observation, or an `AbstractObservation` of your own.
            `"planes"` and `"features96"` equal Overcooked-AI's arrays bit for bit. `"features"` are
            `kitchen_features`, and `"timed_features"` add the remaining time.
        - `starts`: random changes to the initial state, applied in this order; none by default.
        - `shaping`: the amount that each event of `EVENT_NAMES` adds to the shaping reward of the
            cook that caused it.

        **Raises:** `ValueError` when an argument is invalid; its subclass `LayoutError` for the
        layout.
        """
        if dynamics not in DYNAMICS:
            raise ValueError(f"`dynamics` must be {' or '.join(DYNAMICS)}, not {dynamics!r}.")
        layout = load_layout(layout)
        views = {
            "features96": lambda: ReferenceFeatures(layout),
            "timed_features": timed_features,
            "planes": lossless_planes,
            "features": kitchen_features,
        }
        super().__init__(
            layout,
            actions=ACTIONS,
            phases=DYNAMICS[dynamics],
            reward=SharedDeliveryReward(),
            shaping=WeightedEventReward(shaping, EVENT_NAMES),
            events=KitchenEvents(),
            observation=choose_observation(observation, views),
            starts=starts,
            horizon=horizon,
        )
