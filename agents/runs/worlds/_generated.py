"""Worlds whose layouts may be drawn anew for every episode: their settings, as flags."""

import abc
import dataclasses
from typing import Annotated, Any, TypeAlias

import jax
from msgspec import Meta

from agents.runs.display._errors import UsageError
from eqgrid.envs.goals import GeneratedMazes
from eqgrid.envs.overcooked import GeneratedKitchens
from eqgrid.envs.rescue import GeneratedSites
from eqgrid.grid import (
    GridWorld,
    Layout,
    LayoutPool,
    RandomLayouts,
    SplitLayouts,
    draw_layouts,
)

from ._world_config import AbstractWorldConfig, NumAgents

GENERATED = "generated"
"""The value of `--env.layout` for layouts that are drawn."""

HELD_OUT = 256
"""Layouts for evaluations, the same for every seed, none of which occurs in training."""

_Pool: TypeAlias = Annotated[int, Meta(ge=0, le=2**20)]
_Side: TypeAlias = Annotated[int, Meta(ge=3, le=127)]
_Number: TypeAlias = Annotated[int, Meta(ge=0, le=1000)]
_AtLeastOne: TypeAlias = Annotated[int, Meta(ge=1, le=100)]

Generator: TypeAlias = GeneratedKitchens | GeneratedMazes | GeneratedSites


@dataclasses.dataclass(frozen=True)
class GridSettings:
    """The settings that all kinds of drawn layouts have."""

    pool: _Pool = 16_384
    """Layouts that are drawn for training; 0 draws a new one for every episode."""
    height: _Side = 9
    """Rows of the grid."""
    width: _Side = 9
    """Columns of the grid."""


@dataclasses.dataclass(frozen=True)
class KitchenSettings(GridSettings):
    """How kitchens are drawn, with --env.layout generated."""

    height: _Side = 5
    """Rows of the grid."""
    smallest_height: _Side = 4
    """Rows of the smallest kitchen."""
    smallest_width: _Side = 5
    """Columns of the smallest kitchen."""
    num_agents: NumAgents = 2
    """How many cooks there are."""
    two_rooms: float = 0.5
    """Share of kitchens with two rooms."""
    walls: float = 0.15
    """Probability that an inner cell is a counter."""
    onions: _AtLeastOne = 2
    """Most onion dispensers; there is at least one."""
    tomatoes: _Number = 0
    """Most tomato dispensers; there may be none."""
    dishes: _AtLeastOne = 2
    """Most dish dispensers; there is at least one."""
    pots: _AtLeastOne = 2
    """Most pots; there is at least one."""
    servings: _AtLeastOne = 2
    """Most serving hatches; there is at least one."""

    def build(self) -> GeneratedKitchens:
        """**Raises:** `LayoutError` with one sentence."""
        return GeneratedKitchens(
            self.height,
            self.width,
            num_agents=self.num_agents,
            smallest=(self.smallest_height, self.smallest_width),
            two_rooms=self.two_rooms,
            walls=self.walls,
            onions=(1, self.onions),
            tomatoes=(0, self.tomatoes),
            dishes=(1, self.dishes),
            pots=(1, self.pots),
            servings=(1, self.servings),
        )


@dataclasses.dataclass(frozen=True)
class MazeSettings(GridSettings):
    """How mazes are drawn, with --env.layout generated."""

    loops: float = 0.3
    """Share of further doors that are open."""

    def build(self, num_agents: int) -> GeneratedMazes:
        """**Raises:** `LayoutError` with one sentence."""
        return GeneratedMazes(self.height, self.width, num_agents=num_agents, loops=self.loops)


@dataclasses.dataclass(frozen=True)
class SiteSettings(GridSettings):
    """How sites are drawn, with --env.layout generated."""

    num_agents: NumAgents = 2
    """How many rescuers there are."""
    loops: float = 0.3
    """Share of further doors that are open."""
    green: _AtLeastOne = 2
    """Most green victims; there is at least one."""
    yellow: _Number = 1
    """Most yellow victims."""
    red: _Number = 1
    """Most red victims."""
    rubble: _Number = 2
    """Most rubble."""
    high_rubble: _Number = 1
    """Most high rubble."""
    doors: Annotated[int, Meta(ge=0, le=3)] = 1
    """Most doors, each with its key."""

    def build(self) -> GeneratedSites:
        """**Raises:** `LayoutError` with one sentence."""
        return GeneratedSites(
            self.height,
            self.width,
            num_agents=self.num_agents,
            loops=self.loops,
            green=(1, self.green),
            yellow=(0, self.yellow),
            red=(0, self.red),
            rubble=(0, self.rubble),
            high_rubble=(0, self.high_rubble),
            doors=(0, self.doors),
        )


class AbstractDrawnWorld(AbstractWorldConfig):
    """The settings of a world whose layout has a name, or is drawn anew for every episode."""

    # A docstring of these fields would be the help of the flags in place of the worlds' own.
    generated: Any  # a `GridSettings` with a method `build`
    random_starts: float = 0.0

    @abc.abstractmethod
    def build_in(self, layout: str | Layout, *, train: bool) -> GridWorld:
        """The world in one layout.

        **Raises:** `LayoutError` with one sentence.
        """

    @property
    def has_slow_resets(self) -> bool:
        return self.random_starts > 0 or (self.layout == GENERATED and self.generated.pool == 0)

    def generator(self) -> Generator | None:
        """What draws layouts, where the layout is `generated`.

        **Raises:** `LayoutError` with one sentence.
        """
        return self.generated.build() if self.layout == GENERATED else None

    def build(self, *, train: bool) -> GridWorld | RandomLayouts:
        """The world in its layout; or with another one in every episode, drawn from those for
        training or from those that are held out for evaluations.
        """
        if (layouts := self.generator()) is None:
            return self.build_named(train=train)
        world = self.build_in(layouts.example, train=train)
        layouts = SplitLayouts(layouts, held_out=not train)
        if train and self.generated.pool == 0:
            return RandomLayouts(world, layouts)
        count = self.generated.pool if train else HELD_OUT
        return RandomLayouts(world, LayoutPool(draw_layouts(layouts, jax.random.key(0), count)))

    def build_named(self, *, train: bool) -> GridWorld | RandomLayouts:
        """The world in the layout that has a name."""
        return self.build_in(self.layout, train=train)

    def check(self) -> None:
        if self.layout != GENERATED and self.generated != type(self.generated)():
            raise UsageError(
                f"--env.generated.* says how layouts are drawn: add --env.layout {GENERATED}."
            )
