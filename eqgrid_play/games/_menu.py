"""The menu: the worlds and the partners that people can choose."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32

from agents import checksum
from agents.files import shipped
from eqgrid import (
    AbstractEnv,
    AbstractPartner,
    ConstantPartner,
    DelayedPartner,
    MultiDiscrete,
    NoisyPartner,
    RandomPartner,
    unwrap,
)
from eqgrid.envs.overcooked import KITCHENS, CookRole, ScriptedCook
from eqgrid.grid import AbstractGridWorld, Layout, RandomLayouts, agent_colours
from eqgrid_lab.base import UsageError, as_usage_error
from eqgrid_lab.folders import short_name
from eqgrid_lab.runs import SavedPolicy, read_policy
from eqgrid_lab.settings import PolicySettings, default_model_of_people
from eqgrid_lab.worlds import check_same_game, kitchen_layout

from ._messages import Control, controls_of, idle_action

PERSON = "person"
"""The value for a person in a list of seats."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Place:
    """A world in which people can play.

    **Arguments:**

    - `settings`: the settings of the world and of its observations.
    - `world`: the world as `settings.env.build` returns it.
    - `env`: the world with these observations.
    """

    settings: PolicySettings
    world: AbstractEnv
    env: AbstractEnv

    @property
    def title(self) -> str:
        """The name of the layout."""
        return short_name(self.settings.env.title)

    @property
    def grid(self) -> AbstractGridWorld:
        """The grid world inside all wrappers and `RandomLayouts`."""
        grid = unwrap(self.world)
        if isinstance(grid, RandomLayouts):
            grid = grid.env
        assert isinstance(grid, AbstractGridWorld)
        return grid

    @functools.cached_property
    def controls(self) -> tuple[Control, ...]:
        """The actions of a person in this world."""
        return controls_of(self.grid.actions)

    @functools.cached_property
    def drawn_layout(self) -> Layout:
        """The layout in NumPy arrays."""
        return jax.tree.map(np.asarray, self.grid.layout)

    @functools.cached_property
    def colours(self) -> list[str]:
        """The colour of each seat."""
        return [agent_colours(seat + 1)[0] for seat in range(self.env.num_agents)]

    @functools.cached_property
    def idle(self) -> Int32[Array, "*choices"]:
        """The action of a person who presses no key, in the format of `action_space`."""
        idle = idle_action(self.grid.actions)
        several = isinstance(self.env.action_space, MultiDiscrete)
        return jnp.asarray(idle if several else idle[0], jnp.int32)


@final
@dataclasses.dataclass(frozen=True)
class Offer:
    """A partner that people can choose.

    **Arguments:**

    - `name`: its name for people.
    - `partner`: the partner.
    - `sha256`: the hash of the policy file, for a policy from a file.
    """

    name: str
    partner: AbstractPartner
    sha256: str | None = None


@final
class Menu:
    """The worlds and partners that people can choose.

    Each world and its partners are built on first use and then kept.
    """

    def __init__(
        self,
        settings: PolicySettings,
        policies: Sequence[SavedPolicy] = (),
        *,
        delay: int = 0,
        noise: float = 0.0,
    ):
        """**Arguments:**

        - `settings`: the settings of the world, whose layout is the first choice.
        - `policies`: policies to offer as partners, in addition to the bundled policies.
        - `delay`: the reaction delay of partners, in steps.
        - `noise`: the probability that an action of a partner is replaced by a random one.
        """
        self._settings, self._policies = settings, tuple(policies)
        self.delay, self.noise = delay, noise
        env = settings.env
        self.layouts = tuple(dict.fromkeys((env.title, *env.known_layouts)))
        self._places: dict[str, Place] = {}
        self._offers: dict[str, Mapping[str, Offer]] = {}

    def place(self, layout: str) -> Place:
        """The world with one of `layouts`. **Raises:** `UsageError` when it cannot be built."""
        if layout not in self._places:
            env: Any = self._settings.env
            if layout != env.title:
                env = dataclasses.replace(env, layout=layout)
            self._places[layout] = place_in(dataclasses.replace(self._settings, env=env))
        return self._places[layout]

    def offers(self, layout: str) -> Mapping[str, Offer]:
        """The partners for one of `layouts`, by the keys that pages send.

        Other layouts than the layout of the settings leave out policies that cannot act in them.

        **Raises:** `UsageError` and `CheckpointError` when one of the given policies cannot act in
        the layout of the settings.
        """
        if layout not in self._offers:
            place = self.place(layout)
            strict = layout == self._settings.env.title
            space = place.env.action_space
            found = self.policies(place, strict=strict)
            if (kitchen := kitchen_layout(place.world)) is not None:
                roles: dict[CookRole, str]
                roles = {"greedy": "all tasks", "onion": "onions", "dish": "dishes"}
                found += [
                    Offer(f"a program for {task}", ScriptedCook(kitchen, role))
                    for role, task in roles.items()
                ]
            found.append(Offer("a random agent", RandomPartner(space)))
            found.append(Offer("an agent that never moves", ConstantPartner(place.idle)))
            paced = [dataclasses.replace(x, partner=self._paced(x.partner, place)) for x in found]
            self._offers[layout] = {f"partner-{i}": offer for i, offer in enumerate(paced)}
        return self._offers[layout]

    def policies(self, place: Place, *, strict: bool = False) -> list[Offer]:
        """The policies that can act in a world: the given policies and bundled policies.

        **Arguments:**

        - `place`: the world.
        - `strict`: raise an error for a given policy that cannot act in the world, instead of
            leaving it out.

        **Raises:** `UsageError` if `strict`.
        """
        found = []
        for saved in self._policies:
            kinds = (UsageError, ValueError)
            try:
                with as_usage_error(f"{saved.name!r} cannot act in {place.title}: ", kinds):
                    found.append(offer_of(saved, place))
            except kinds:
                if strict:
                    raise
        env, is_kitchen = place.settings.env, kitchen_layout(place.world) is not None
        if is_kitchen and env.rules == "classic" and env.title in KITCHENS:
            files = {
                "a trained agent": shipped(f"policies/{env.title}.safetensors"),
                "a model of people": default_model_of_people("clones", env.title),
                "an optimal plan": shipped(f"policies/plan-{env.title}.safetensors"),
            }
            found += [
                _offer(read_policy(file), name, place)
                for name, file in files.items()
                if file.exists()
            ]
        return found

    def _paced(self, partner: AbstractPartner, place: Place) -> AbstractPartner:
        """A partner with the noise and the delay of the menu."""
        if self.noise:
            partner = NoisyPartner(partner, self.noise, place.env.action_space)
        if self.delay:
            partner = DelayedPartner(partner, self.delay, place.idle)
        return partner


def place_in(settings: PolicySettings) -> Place:
    """Builds the world of some settings.

    **Raises:** `UsageError` when the world cannot be built, or is not a grid world.
    """
    env = settings.env
    with as_usage_error(f"The layout {env.title!r:.60} cannot be built: "):
        world = env.build(train=False)
        place = Place(settings, world, settings.observe(world))
    if not isinstance(unwrap(world), AbstractGridWorld | RandomLayouts):
        raise UsageError(
            f"People cannot play in the world {env.name!r:.60}, which is not a grid world."
        )
    return place


def offer_of(saved: SavedPolicy, place: Place) -> Offer:
    """A policy as a partner in a world.

    **Raises:** `UsageError` and `ValueError` when the policy cannot act in the world.
    """
    check_same_game(saved.name, saved.config.env, "the game", place.settings.env)
    return _offer(saved, saved.name, place)


def _offer(saved: SavedPolicy, name: str, place: Place) -> Offer:
    return Offer(name, saved.partner(place.settings, place.env), checksum(saved.path))
