"""OvercookedV2: Overcooked with several ingredients, orders, and partial observability."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, final

import jax.numpy as jnp
from jaxtyping import ArrayLike, Int, Real

from ...grid import (
    AbstractGridWorld,
    AbstractInteraction,
    AbstractObservation,
    AbstractStart,
    Action,
    Direction,
    Go,
    Interact,
    Layout,
    LocalCollision,
    Move,
    Stay,
    Tick,
    Use,
    WeightedEventReward,
    choose_observation,
)
from ._contents import FIRST_INGREDIENT, INGREDIENTS, contents_of
from ._layouts import load_layout
from ._observations import PermutedFeatures, PermutedPlanes, recipe_features, recipe_planes
from ._rules import (
    EVENT_NAMES,
    AddIngredient,
    Deliver,
    DrawRecipe,
    FillPlate,
    KitchenEvents,
    PickUp,
    PressButton,
    PutDown,
    Recipe,
    RunClocks,
    StartByHand,
    StartFull,
    Take,
    TakeOrder,
)
from ._starts import PermuteIngredients, RandomKitchen, RandomPlaces

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
"""The shaping rewards of JaxMARL (its `SHAPED_REWARDS`)."""

DELIVERY_REWARD = 20.0
"""The reward for delivering the ordered soup."""

BUTTON_COST = 5.0
"""The cost of pressing a button, in units of reward."""

_RULES: tuple[AbstractInteraction, ...] = (
    PutDown(),
    PickUp(),
    Take(),
    FillPlate(),
    Deliver(),
    PressButton(),
)


@final
class OvercookedV2(AbstractGridWorld):
    """A kitchen of OvercookedV2, in which cooks deliver the ordered soup. The order may be hidden
    from some cooks.

    Every cook has the six actions of `ACTIONS`; any other number means stay. All cooks get the same
    reward, the sum of the rewards of all cooks. Episodes do not terminate; they are truncated after
    `horizon` steps. Rules, rewards and planes are as in JaxMARL.

    ```python
    from eqgrid.envs.overcooked_v2 import OvercookedV2

    env = OvercookedV2("grounded_coord_simple", view_radius=2, sample_recipe_on_delivery=True)
    ```
    """

    def __init__(
        self,
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
        observation: AbstractObservation | Literal["planes", "features"] = "planes",
        starts: Sequence[AbstractStart] = (),
        shaping: Mapping[str, Real[ArrayLike, ""]] = REFERENCE_SHAPING,
    ):
        """**Arguments:**

        - `layout`: one of the 23 names in `KITCHENS`, a text, or a `Layout`; see `load_layout`.
        - `recipes`: the recipes that may be ordered; by default the recipes of the layout.
        - `view_radius`: the range of sight in cells, to every side; the whole kitchen by default.
        - `horizon`: the number of steps in an episode.
        - `start_by_hand`: whether a cook with empty hands starts a pot, instead of the third
            ingredient.
        - `negative_rewards`: whether the delivery of any other soup costs the same as the reward
            for the ordered soup.
        - `sample_recipe_on_delivery`: whether to sample a new recipe after the delivery of the
            ordered soup.
        - `indicate_successful_delivery`: whether one more plane or number shows that the ordered
            soup has just been delivered.
        - `random_positions`: whether cooks start in random cells of their rooms, in random
            directions.
        - `random_reset`: as `random_positions`, and hands, pots and counters may also have random
            objects.
        - `permuted_ingredients`: ingredients that are permuted in the observation of each cook; see
            `PermuteIngredients`.
        - `observation`: `"planes"`, as in JaxMARL (`recipe_planes`); `"features"`, with which
            training is faster (`recipe_features`); or an `AbstractObservation`.
        - `starts`: further random changes to the initial state, applied last, in this order.
        - `shaping`: the amount that each event of `EVENT_NAMES` adds to the shaping reward of the
            cook that caused it.

        **Raises:** `ValueError` when an argument is invalid; its subclass `LayoutError` for the
        layout.
        """
        kitchen = load_layout(layout, recipes)
        permuted: tuple[AbstractStart, ...] = ()
        if permuted_ingredients:
            kitchen, permuted = _permute(kitchen, permuted_ingredients)
        random_start: tuple[AbstractStart, ...] = ()
        if random_reset:
            random_start = (RandomKitchen(kitchen, full_only=not start_by_hand),)
        elif random_positions:
            random_start = (RandomPlaces(kitchen),)
        add = AddIngredient(starts_full=not start_by_hand)
        rules = (*_RULES, add, StartByHand() if start_by_hand else StartFull())
        rewards = {
            "right_delivery": DELIVERY_REWARD,
            "wrong_delivery": -DELIVERY_REWARD if negative_rewards else 0.0,
            "button_press": -BUTTON_COST,
        }
        super().__init__(
            kitchen,
            actions=ACTIONS,
            phases=(
                Go(LocalCollision()),
                Interact(rules),
                Tick((RunClocks(),)),
                TakeOrder(sample_recipe_on_delivery),
            ),
            reward=WeightedEventReward(rewards, EVENT_NAMES, shared=True),
            shaping=WeightedEventReward(shaping, EVENT_NAMES),
            events=KitchenEvents(),
            observation=_choose_observation(
                kitchen, observation, view_radius, indicate_successful_delivery
            ),
            starts=(DrawRecipe(), *permuted, *random_start, *starts),
            horizon=horizon,
        )


def _choose_observation(
    layout: Layout,
    observation: AbstractObservation | Literal["planes", "features"],
    radius: int | None,
    served: bool,
) -> AbstractObservation:
    if not isinstance(observation, str) and (radius is not None or served):
        raise ValueError(
            "A custom `observation` cannot be combined with `view_radius` or "
            "`indicate_successful_delivery`."
        )
    arguments = _num_ingredients(layout), radius, served
    views: dict[str, Callable[[], AbstractObservation]] = {
        "planes": lambda: recipe_planes(*arguments),
        "features": lambda: recipe_features(*arguments),
    }
    if layout.start.bodies.extra is not None:  # the ingredients are permuted; see `_permute`
        views = {
            "planes": lambda: PermutedPlanes(recipe_planes(*arguments)),
            "features": lambda: PermutedFeatures(recipe_features(*arguments)),
        }
    return choose_observation(observation, views)


def _num_ingredients(layout: Layout) -> int:
    return contents_of(layout.kinds).first_soup - FIRST_INGREDIENT


def _permute(layout: Layout, names: Sequence[str]) -> tuple[Layout, tuple[AbstractStart, ...]]:
    """Prepares a kitchen for permuted ingredients.

    **Returns:** the kitchen, with the identity permutation for each cook in `Bodies.extra`, and the
    random start that permutes the named ingredients.
    """
    known = list(INGREDIENTS)[: _num_ingredients(layout)]
    if not set(names) <= set(known) or len(set(names)) < len(names):
        raise ValueError(
            f"`permuted_ingredients` must be different ones of {', '.join(known)}, not "
            f"{', '.join(names)}."
        )
    permute = PermuteIngredients(tuple(known.index(name) for name in names))
    shape = (layout.num_agents, len(known))
    identity = jnp.broadcast_to(jnp.arange(shape[1], dtype=jnp.uint8)[None], shape)
    bodies = dataclasses.replace(layout.start.bodies, extra=identity)
    start = dataclasses.replace(layout.start, bodies=bodies)
    return dataclasses.replace(layout, start=start), (permute,)
