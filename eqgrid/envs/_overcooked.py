"""Overcooked: a kitchen put together from parts of the grid engine."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Int32, PRNGKeyArray, Shaped, UInt8

from .._checks import check_action_shape
from .._env import AbstractEnv, TimeStep
from .._spaces import AbstractSpace, Discrete
from ..grid import (
    EVENT_NAMES,
    AbstractInteraction,
    AbstractMotion,
    AbstractObservation,
    AbstractReward,
    AbstractStart,
    AbstractTick,
    Action,
    AddIngredient,
    AllOrNone,
    Cook,
    Deliver,
    EventWeights,
    Features,
    Fixture,
    Ingredient,
    Item,
    Layout,
    PickUp,
    Planes,
    Plate,
    PutDown,
    StartCooking,
    StartWhenFull,
    Take,
    TeamDelivery,
    World,
    apply_starts,
    count_events,
    interact,
    render,
    render_episode,
    tick,
)
from ._kitchens import load_layout

REFERENCE_SHAPING = {
    "onion_potting": 3.0,
    "tomato_potting": 3.0,
    "soup_plating": 5.0,
    "useful_dish_pickup": 3.0,
}
"""What the reference simulator pays for steps towards a soup (its `BASE_REW_SHAPING_PARAMS`)."""

_RULES: tuple[AbstractInteraction, ...] = (
    PutDown(),
    PickUp(),
    Take(Fixture.ONION_DISPENSER, Item.ONION),
    Take(Fixture.TOMATO_DISPENSER, Item.TOMATO),
    Take(Fixture.DISH_DISPENSER, Item.DISH),
    AddIngredient(Item.ONION, Ingredient.ONION),
    AddIngredient(Item.TOMATO, Ingredient.TOMATO),
    Plate(),
    Deliver(),
)

DYNAMICS: dict[str, tuple[tuple[AbstractInteraction, ...], tuple[AbstractTick, ...]]] = {
    "classic": (_RULES, (StartWhenFull(), Cook())),
    "interactive": ((*_RULES, StartCooking()), (Cook(),)),
}
"""The interactions and ticks of both games: the one of 2019 and the one of 2020."""


_MAX_HORIZON = 2**30  # the time is int32


@final
class Overcooked(AbstractEnv):
    """Cooks share a kitchen and deliver soups.

    Every cook has six actions: go north, south, east or west, stay, interact; any other number
    means stay. The reward is what the whole team earned by deliveries. An episode is cut, never
    finished, after `horizon` steps.

    The keys of `info` are `"shaped_reward"`, `[agents]`: pay for steps towards a soup, kept apart;
    and `"events"`, `[agents, events]`: how often each of `event_names` happened to each cook in
    this step.
    """

    layout: Layout
    motion: AbstractMotion
    interactions: tuple[AbstractInteraction, ...]
    ticks: tuple[AbstractTick, ...]
    reward: AbstractReward
    shaping: AbstractReward
    observation: AbstractObservation
    starts: tuple[AbstractStart, ...]
    horizon: Int32[Array, ""]
    action_space: AbstractSpace

    def __init__(
        self,
        layout: str | Path | Layout = "cramped",
        *,
        dynamics: Literal["classic", "interactive"] = "classic",
        horizon: int = 400,
        observation: Literal["planes", "features"] | AbstractObservation = "planes",
        starts: tuple[AbstractStart, ...] = (),
        shaping: Mapping[str, float | int] = REFERENCE_SHAPING,
    ):
        """**Arguments:**

        - `layout`: the kitchen: a name, a text, a file or a `Layout`; see `load_layout`.
        - `dynamics`: `"classic"`: a pot starts by itself when it holds three ingredients;
            `"interactive"`: a cook with empty hands starts it, with one to three.
        - `horizon`: steps in an episode.
        - `observation`: `"planes"`, bit-equal to the reference, `"features"`, or a Module of your
            own.
        - `starts`: what is random about the start of an episode, applied in this order; nothing by
            default.
        - `shaping`: what each event (by name) adds to the shaped reward of the cook that caused it.

        **Raises:** `ValueError` (a `LayoutError` for the kitchen) with one sentence that says what
        to do.
        """
        if dynamics not in DYNAMICS:
            raise ValueError(f"There are no dynamics {dynamics!r}: choose {' or '.join(DYNAMICS)}.")
        if not 1 <= horizon <= _MAX_HORIZON:
            raise ValueError(
                f"An episode needs at least 1 step, and at most {_MAX_HORIZON:,}, but the horizon "
                f"is {horizon}."
            )
        self.layout = load_layout(layout)
        self.motion = AllOrNone()
        self.interactions, self.ticks = DYNAMICS[dynamics]
        self.reward = TeamDelivery()
        self.shaping = EventWeights(shaping)
        self.observation = _choose_observation(observation, horizon)
        self.starts = starts
        self.horizon = jnp.asarray(horizon, jnp.int32)
        self.action_space = Discrete(len(Action))

    @property
    def num_agents(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.layout.num_agents

    @property
    def event_names(self) -> tuple[str, ...]:
        """The names of the columns of `info["events"]`."""
        return EVENT_NAMES

    def reset(self, key: PRNGKeyArray) -> tuple[Shaped[Array, "agents ..."], World]:
        world = apply_starts(self.starts, key, self.layout, self.layout.start)
        return self.observe(world), world

    # Under `filter_jit`, a program that steps and observes in many places traces the rules once.
    @eqx.filter_jit
    def step(
        self, key: PRNGKeyArray, state: World, action: Int[Array, " agents"]
    ) -> tuple[TimeStep, World]:
        check_action_shape(action, (self.num_agents,))
        action = jnp.where((action >= 0) & (action < len(Action)), action, Action.STAY)
        world, events = interact(self.interactions, self.layout, state, action == Action.INTERACT)
        bodies = self.motion(self.layout.fixtures, world.bodies, action)
        world = tick(self.ticks, self.layout, World(world.cells, bodies, world.time))
        timestep = TimeStep(
            observation=self.observe(world),
            reward=self.reward(self.layout, events),
            terminated=jnp.zeros(self.num_agents, bool),
            truncated=world.time >= self.horizon,
            info={
                "shaped_reward": self.shaping(self.layout, events),
                "events": count_events(self.layout, events),
            },
        )
        return timestep, world

    @eqx.filter_jit
    def observe(self, state: World) -> Shaped[Array, "agents ..."]:
        return self.observation(self.layout, state)

    def render(
        self, state: World, *, cell_pixels: int = 64, caption: str | None = None
    ) -> UInt8[np.ndarray, "pixel_rows pixel_cols 3"]:
        """A picture of one state; see `eqgrid.grid.render`."""
        return render(self.layout, state, cell_pixels=cell_pixels, caption=caption)

    def render_episode(
        self,
        states: World,
        *,
        cell_pixels: int = 64,
        frames_per_second: int | float = 8,
        captions: Sequence[str] | None = None,
    ) -> bytes:
        """A GIF of states that lead with a time axis; see `eqgrid.grid.render_episode`."""
        return render_episode(
            self.layout,
            states,
            cell_pixels=cell_pixels,
            frames_per_second=frames_per_second,
            captions=captions,
        )


def _choose_observation(
    observation: str | AbstractObservation, horizon: int
) -> AbstractObservation:
    if isinstance(observation, AbstractObservation):
        return observation
    if observation == "planes":
        return Planes(horizon)
    if observation == "features":
        return Features()
    raise ValueError(f"There is no observation {observation!r}: choose planes or features.")
