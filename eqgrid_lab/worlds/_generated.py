"""`AbstractDrawnWorld`: the settings of worlds with layouts, which can be generated, as flags."""

import abc
import dataclasses
from typing import Annotated, Any, TypeAlias

import jax
from msgspec import Meta

from eqgrid.envs.goals import GeneratedMazes
from eqgrid.envs.overcooked import GeneratedKitchens
from eqgrid.envs.rescue import GeneratedSites
from eqgrid.grid import GridWorld, Layout, LayoutPool, RandomLayouts, SplitLayouts, draw_layouts

from ..base import UsageError
from ._world_config import AbstractWorldConfig, NumAgents

GENERATED = "generated"
"""The value of `--env.layout` for generated layouts."""

HELD_OUT = 256
"""The number of evaluation layouts; they are the same for all seeds, and not used in training."""

_Pool: TypeAlias = Annotated[int, Meta(ge=0, le=2**20)]
_Side: TypeAlias = Annotated[int, Meta(ge=3, le=127)]
_Rubble: TypeAlias = Annotated[int, Meta(ge=0, le=1000)]
_AtMost100: TypeAlias = Annotated[int, Meta(ge=0, le=100)]
_AtLeastOne: TypeAlias = Annotated[int, Meta(ge=1, le=100)]

Generator: TypeAlias = GeneratedKitchens | GeneratedMazes | GeneratedSites


@dataclasses.dataclass(frozen=True)
class GridSettings:
    """The settings that all kinds of generated layouts have."""

    pool: _Pool = 16_384
    """Number of training layouts; 0 samples a new one for every episode."""
    height: _Side = 9
    """Rows of the grid."""
    width: _Side = 9
    """Columns of the grid."""


@dataclasses.dataclass(frozen=True)
class KitchenSettings(GridSettings):
    """Settings of generated kitchens, with --env.layout generated."""

    height: _Side = 5
    """Rows of the grid."""
    smallest_height: _Side = 4
    """Rows of the smallest kitchen."""
    smallest_width: _Side = 5
    """Columns of the smallest kitchen."""
    num_agents: NumAgents = 2
    """Number of cooks."""
    two_rooms: float = 0.5
    """Probability, before rejection, of a kitchen with two rooms."""
    walls: float = 0.15
    """Probability that an inner cell is a counter."""
    onions: _AtLeastOne = 2
    """Maximum number of onion dispensers; the minimum is 1."""
    tomatoes: _AtMost100 = 0
    """Maximum number of tomato dispensers; the minimum is 0."""
    dishes: _AtLeastOne = 2
    """Maximum number of dish dispensers; the minimum is 1."""
    pots: _AtLeastOne = 2
    """Maximum number of pots; the minimum is 1."""
    servings: _AtLeastOne = 2
    """Maximum number of serving hatches; the minimum is 1."""

    def build(self) -> GeneratedKitchens:
        """The generator of layouts. **Raises:** `LayoutError` for invalid settings."""
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
    """Settings of generated mazes, with --env.layout generated."""

    loops: float = 0.3
    """Probability of each additional opening; 0 gives a maze without loops."""

    def build(self, num_agents: int) -> GeneratedMazes:
        """The generator of layouts. **Raises:** `LayoutError` for invalid settings."""
        return GeneratedMazes(self.height, self.width, num_agents=num_agents, loops=self.loops)


@dataclasses.dataclass(frozen=True)
class SiteSettings(GridSettings):
    """Settings of generated sites, with --env.layout generated."""

    num_agents: NumAgents = 2
    """Number of rescuers."""
    loops: float = 0.3
    """Probability of each additional opening; 0 gives a maze without loops."""
    green: _AtLeastOne = 2
    """Maximum number of green victims; the minimum is 1."""
    yellow: _AtMost100 = 1
    """Maximum number of yellow victims; the minimum is 0."""
    red: _AtMost100 = 1
    """Maximum number of red victims; the minimum is 0."""
    rubble: _Rubble = 2
    """Maximum amount of rubble; the minimum is 0."""
    high_rubble: _Rubble = 1
    """Maximum amount of high rubble; the minimum is 0."""
    doors: Annotated[int, Meta(ge=0, le=3)] = 1
    """Maximum number of doors, each with a key; the minimum is 0."""

    def build(self) -> GeneratedSites:
        """The generator of layouts. **Raises:** `LayoutError` for invalid settings."""
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
    """The settings of a world with a named layout, or with a generated one in every episode."""

    # A docstring here would replace the worlds' own help for these flags.
    generated: Any  # a `GridSettings` with a method `build`
    random_starts: float = 0.0

    @abc.abstractmethod
    def build_in(self, layout: str | Layout, *, train: bool) -> GridWorld:
        """The world in one layout.

        **Arguments:**

        - `layout`: a layout, or its name, file or text.
        - `train`: whether it is for training or for evaluation.

        **Raises:** `LayoutError` when the layout is invalid.
        """

    @property
    def has_slow_resets(self) -> bool:
        return self.random_starts > 0 or (self.layout == GENERATED and self.generated.pool == 0)

    def generator(self) -> Generator | None:
        """The generator of layouts; `None` unless the layout is `generated`.

        **Raises:** `LayoutError` when its settings are invalid.
        """
        return self.generated.build() if self.layout == GENERATED else None

    def build(self, *, train: bool) -> GridWorld | RandomLayouts:
        """The world in its layout, or in a generated one in every episode.

        Generated layouts for evaluation are held out from training.

        **Arguments:**

        - `train`: whether the world is for training or for evaluation.

        **Raises:** `LayoutError` when the layout or its settings are invalid.
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
        """The world in a layout that is not generated."""
        return self.build_in(self.layout, train=train)

    def check(self) -> None:
        if self.layout != GENERATED and self.generated != type(self.generated)():
            raise UsageError(
                f"--env.generated.* is for generated layouts: add --env.layout {GENERATED}."
            )
