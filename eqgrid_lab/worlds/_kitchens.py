"""`Kitchen`: the settings of Overcooked, the default world.

Unlike other worlds, a run may use several layouts.
"""

import dataclasses
import os
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import numpy as np
from msgspec import Meta

from eqgrid import AbstractEnv, unwrap
from eqgrid.envs import imported
from eqgrid.envs.overcooked import (
    KINDS,
    KITCHENS,
    REFERENCE_NAMES,
    TRAINING_SHAPING,
    GeneratedKitchens,
    Overcooked,
    Tile,
    find_obstacle,
    load_layout,
    random_starts,
    reference_layouts,
)
from eqgrid.grid import AbstractGridWorld, Layout, LayoutPool, RandomLayouts, stack_layouts

from ..base import DIFFERENT, UsageError, as_usage_error
from ._table import GENERATED, WORLDS
from ._world_settings import (
    NAME_OF_WORLD,
    Horizon,
    LayoutSettings,
    NumAgents,
    Pool,
    Share,
    WorldSettings,
)

if TYPE_CHECKING:
    from eqgrid.envs.overcooked.people import HumanGame

_PEOPLE = "eqgrid.envs.overcooked.people"
_Side: TypeAlias = Annotated[int, Meta(ge=3, le=127)]
_AtMost100: TypeAlias = Annotated[int, Meta(ge=0, le=100)]
_AtLeastOne: TypeAlias = Annotated[int, Meta(ge=1, le=100)]


_BEST_KNOWN = {
    "classic": {"asymmetric": 520, "circuit": 320, "cramped": 280, "forced": 360, "ring": 360},
    "interactive": {"asymmetric": 500, "cramped": 260, "forced": 340, "ring": 340},
}
"""The best known return in 400 steps by dynamics and layout, from `eqgrid_exact.stored_plans`."""


@dataclasses.dataclass(frozen=True)
class KitchenSettings(LayoutSettings):
    """Settings of generated kitchens, with --env.layout generated."""

    pool: Pool = 16_384
    """Number of training layouts; 0 samples a new one for every episode."""
    height: _Side = 5
    """Rows of the grid."""
    width: _Side = 9
    """Columns of the grid."""
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

    def build(self, world: WorldSettings) -> GeneratedKitchens:
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
class Kitchen(WorldSettings):
    """Settings of Overcooked."""

    name: Annotated[Literal["overcooked"], NAME_OF_WORLD] = "overcooked"
    layout: str = "cramped"
    """cramped, asymmetric, ring, forced, circuit, a file, generated, or several: cramped,ring."""
    practice: Annotated[tuple[str, ...], DIFFERENT] = ()
    """Additional training layouts, which are not used in evaluations."""
    generated: KitchenSettings = dataclasses.field(default_factory=KitchenSettings)
    dynamics: Literal["classic", "interactive"] = "classic"
    """A full pot starts by itself (classic), or a cook starts it (interactive)."""
    horizon: Horizon = 400
    """Length of an episode, in steps."""
    observation: Literal["features", "timed_features", "planes", "features96"] = "features"
    """Named features, also with the time left; the reference's 26 planes, or its 96 features."""
    random_starts: Share = 0.5
    """Share of training episodes with a random initial state; evaluations use none."""
    random_counters: Share = 0.0
    """Probability that an empty counter between two floor cells holds an item at a random start."""
    normalize_observation: bool = False
    """Normalise observations to mean 0 and variance 1."""
    only_in_training = ("practice", "random_starts", "random_counters")
    facts = WORLDS["overcooked"]

    @property
    def rules(self) -> str | None:
        return self.dynamics

    @property
    def mixture(self) -> tuple[str, ...]:
        """The layouts of a mixture, such as `cramped,ring`; empty for a single layout."""
        if "," not in self.layout or "\n" in self.layout or os.path.exists(self.layout):
            return ()
        return tuple(name.strip() for name in self.layout.split(","))

    @property
    def layouts(self) -> tuple[str, ...]:
        """The layouts of training and evaluation, without the layouts of `practice`."""
        return self.mixture or (self.layout,)

    @property
    def layout_files(self) -> tuple[str, ...]:
        names = {GENERATED, *KITCHENS, *REFERENCE_NAMES, *reference_layouts()}
        named = self.layouts + self.practice
        return tuple(x for x in named if x not in names and "\n" not in x.strip())

    def how_to_play(self, world: AbstractEnv) -> tuple[str, ...]:
        grid = unwrap(world)
        if not isinstance(grid, AbstractGridWorld):  # several layouts, with different prices
            return ()
        # With classic rules, only full pots cook.
        fewest = 1 if self.dynamics == "interactive" else 3
        return _prices(grid.layout, fewest)

    @property
    def optimum(self) -> float | None:
        """The best known return; for a mixture of layouts, the mean over them."""
        best = _BEST_KNOWN[self.dynamics] if self.horizon == 400 else {}
        returns = [best.get(REFERENCE_NAMES.get(name, name)) for name in self.layouts]
        known = [optimum for optimum in returns if optimum is not None]
        return sum(known) / len(known) if len(known) == len(returns) else None

    def build_in(self, layout: Layout | str | None, *, train: bool) -> AbstractGridWorld:
        # Evaluations start in the layout's own initial state.
        share = self.random_starts if train else 0
        return Overcooked(
            self.layout if layout is None else layout,
            dynamics=self.dynamics,
            horizon=self.horizon,
            observation=self.observation,
            starts=random_starts(
                share, full_only=self.dynamics == "classic", counters=self.random_counters
            ),
            shaping=TRAINING_SHAPING,
        )

    def build_named(self, *, train: bool) -> AbstractGridWorld | RandomLayouts:
        layouts = _equally_large(self.layouts + (self.practice if train else ()))
        if len(layouts) == 1:
            return self.build_in(layouts[0], train=train)
        return self._build_in_all(layouts, train=train)

    def _build_in_all(self, layouts: list[Layout], *, train: bool = False) -> RandomLayouts:
        world = self.build_in(layouts[0], train=train)
        return RandomLayouts(world, LayoutPool(stack_layouts(layouts)))

    def remarks(self) -> tuple[str, ...]:
        if not self.practice:
            return ()
        several = len(self.practice) > 1
        number, verb = f"{len(self.practice)} kitchen{'s' * several}", "are" if several else "is"
        return (f"also trained in {number}, which {verb} not used in evaluations",)

    def obstacle(self) -> str | None:
        names = () if self.layout == GENERATED else self.layouts + self.practice
        for name in names:
            if (obstacle := find_obstacle(load_layout(name), self.dynamics)) is not None:
                return obstacle
        return None

    def parts(self) -> dict[str, RandomLayouts]:
        """The world in each layout of a mixture, by name. Each world is a pool of one layout, so
        that one compiled program can run all of them.
        """
        layouts = zip(self.mixture, _equally_large(self.mixture), strict=True)
        return {name: self._build_in_all([layout]) for name, layout in layouts}

    def zero_shot(self) -> dict[str, RandomLayouts]:
        """The named kitchens that fit into the grid of generated kitchens, by name; empty if the
        layout is not `generated`, or not for two agents.
        """
        if self.layout != GENERATED or self.generated.num_agents != 2:
            return {}
        size = (self.generated.height, self.generated.width)
        layouts = {name: load_layout(name) for name in KITCHENS}
        return {
            name: self._build_in_all([layout.pad(*size)])
            for name, layout in layouts.items()
            if layout.tiles.shape[0] <= size[0] and layout.tiles.shape[1] <= size[1]
        }

    def check(self) -> None:
        super().check()
        if self.practice and GENERATED in (self.layout, *self.practice):
            raise UsageError(
                f"--env.practice adds training layouts and does not work with {GENERATED} "
                f"layouts: leave it out, or name no {GENERATED} layouts."
            )
        if self.practice and self.has_images:
            sizes = [_equally_large(x)[0].tiles.shape for x in (self.layouts, self.practice)]
            if any(more > one for one, more in zip(*sizes, strict=True)):
                raise UsageError(
                    "Images of the kitchens of --env.practice are larger than those of "
                    "--env.layout: choose smaller kitchens, or --env.observation features."
                )


def kitchen_layout(env: AbstractEnv) -> Layout | None:
    """The layout of a world that is one kitchen of Overcooked; `None` for all others."""
    world = unwrap(env)
    if isinstance(world, AbstractGridWorld) and world.layout.kinds == KINDS:
        return world.layout
    return None


def recorded_games(
    split: Literal["train", "test"] | None = None, kitchen: str | None = None
) -> "tuple[HumanGame, ...]":
    """Reads the recorded games of people in Overcooked-AI.

    **Arguments:**

    - `split`: one half of the games; both halves by default.
    - `kitchen`: the kitchen of the games; all kitchens by default.

    **Raises:** `UsageError` when the games cannot be read, or there are no games in this kitchen.
    """
    with as_usage_error(of=(ImportError, ValueError)):
        return imported(f"{_PEOPLE}:human_games")(split, kitchen=kitchen)


def _prices(layout: Layout, fewest: int) -> tuple[str, ...]:
    """Sentences with the rewards for the soups of a kitchen, such as "A soup of 3 onions pays 20."

    **Arguments:**

    - `layout`: the kitchen.
    - `fewest`: the minimum number of ingredients in a soup.
    """
    recipes = layout.params
    # Whether there are onions and tomatoes.
    available = [
        tile in np.asarray(layout.tiles) for tile in (Tile.ONION_DISPENSER, Tile.TOMATO_DISPENSER)
    ]
    soups: dict[float, list[str]] = {}  # by price
    # A recipe is the number of onions and the number of tomatoes.
    for recipe in np.argwhere(np.asarray(recipes.ordered)).tolist():
        missing = any(x and not has for x, has in zip(recipe, available, strict=True))
        if missing or sum(recipe) < fewest:
            continue
        factor = recipes.bonus_factor if recipes.bonus[tuple(recipe)] else 1
        price = float(recipes.value[tuple(recipe)] * factor)
        counts = zip(recipe, _INGREDIENTS, strict=True)
        words = [f"{x} {names[x > 1]}" for x, names in counts if x]
        soups.setdefault(price, []).append(" and ".join(words))
    return tuple(f"A soup of {', or of '.join(x)} pays {price:g}." for price, x in soups.items())


_INGREDIENTS = (("onion", "onions"), ("tomato", "tomatoes"))


def _equally_large(names: tuple[str, ...]) -> list[Layout]:
    """Loads layouts, and pads them to the size of the largest."""
    layouts = [load_layout(name) for name in names]
    height, width = (max((x.tiles.shape[i] for x in layouts), default=0) for i in (0, 1))
    return [layout.pad(height, width) for layout in layouts]
