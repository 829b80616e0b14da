"""The settings of Overcooked and OvercookedV2."""

import dataclasses
import os
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from agents import PPO
from agents.runs.display._errors import UsageError
from eqgrid.envs.overcooked import (
    KITCHENS,
    REFERENCE_NAMES,
    TRAINING_SHAPING,
    Overcooked,
    best_known_return,
    find_obstacle,
    load_layout,
    random_starts,
    reference_layouts,
)
from eqgrid.envs.overcooked_v2 import OvercookedV2
from eqgrid.grid import GridWorld, Layout, LayoutPool, RandomLayouts, stack_layouts

from ._generated import GENERATED, AbstractDrawnWorld, KitchenSettings
from ._world_config import AbstractWorldConfig, Horizon, RunSettings, Share, files_among


@dataclasses.dataclass(frozen=True)
class Kitchen(AbstractDrawnWorld):
    """Settings of Overcooked."""

    name: Literal["overcooked"] = "overcooked"
    """Or overcooked_v2, foraging, warehouse, rescue, goals, body or LIBRARY:NAME."""
    layout: str = "cramped"
    """cramped, asymmetric, ring, forced, circuit, a file, generated, or several: cramped,ring."""
    practice: tuple[str, ...] = ()
    """Additional training layouts, which are not used in evaluations."""
    generated: KitchenSettings = dataclasses.field(default_factory=KitchenSettings)
    dynamics: Literal["classic", "interactive"] = "classic"
    """A full pot starts by itself (classic), or a cook starts it (interactive)."""
    horizon: Horizon = 400
    """Length of an episode, in steps."""
    observation: Literal["features", "planes", "features96"] = "features"
    """Named features, the reference's 26 planes, or its 96 features."""
    random_starts: Share = 0.5
    """Share of training episodes with a random initial state."""
    random_counters: Share = 0.0
    """Probability of an item on a counter between two floor cells, at a random start."""
    normalize_observation: bool = False
    """Normalise observations to mean 0 and variance 1."""
    only_in_training = ("practice", "random_starts", "random_counters")
    run_settings: ClassVar[RunSettings] = {
        "ppo": PPO(normalize_values=True, advantage_std_offset=1.0, entropy_coefficient=0.05)
    }
    threshold = 20  # the default reward for a soup

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
        """The layouts of training and evaluation, without those of `practice`."""
        return self.mixture or (self.layout,)

    @property
    def layout_files(self) -> tuple[str, ...]:
        names = {GENERATED, *KITCHENS, *REFERENCE_NAMES, *reference_layouts()}
        return files_among(self.layouts + self.practice, names)

    @property
    def optimum(self) -> float | None:
        """The best known return; for a mixture of layouts, the mean over them."""
        known = [best_known_return(name, self.dynamics, self.horizon) for name in self.layouts]
        found = [optimum for optimum in known if optimum is not None]
        return sum(found) / len(found) if len(found) == len(known) else None

    def build_in(self, layout: str | Layout, *, train: bool) -> GridWorld:
        """The kitchen in one layout; evaluations start in the layout's own initial state."""
        share = self.random_starts if train else 0
        return Overcooked(
            layout,
            dynamics=self.dynamics,
            horizon=self.horizon,
            observation=self.observation,
            starts=random_starts(
                share, full_only=self.dynamics == "classic", counters=self.random_counters
            ),
            shaping=TRAINING_SHAPING,
        )

    def build_named(self, *, train: bool) -> GridWorld | RandomLayouts:
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
        number = f"{len(self.practice)} kitchen{'s' * (len(self.practice) > 1)}"
        verb = "are" if len(self.practice) > 1 else "is"
        return (f"also trained in {number}, which {verb} not used in evaluations",)

    def obstacle(self) -> str | None:
        names = () if self.layout == GENERATED else self.layouts + self.practice
        for name in names:
            if (obstacle := find_obstacle(load_layout(name), self.dynamics)) is not None:
                return obstacle
        return None

    def parts(self) -> dict[str, RandomLayouts]:
        """The world in each layout of a mixture. Each is a pool of one layout, so that one compiled
        program runs all of them.
        """
        layouts = zip(self.mixture, _equally_large(self.mixture), strict=True)
        return {name: self._build_in_all([layout]) for name, layout in layouts}

    def zero_shot(self) -> dict[str, RandomLayouts]:
        """With generated kitchens for two cooks: the named kitchens that fit into their grid."""
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
                "--env.practice names further layouts for training: leave it out, or name no "
                f"{GENERATED} layouts in it and in --env.layout."
            )
        if self.practice and self.has_images:
            sizes = [_equally_large(x)[0].tiles.shape for x in (self.layouts, self.practice)]
            if any(more > one for one, more in zip(*sizes, strict=True)):
                raise UsageError(
                    "Images of the kitchens of --env.practice are larger than those of "
                    "--env.layout: choose smaller kitchens, or --env.observation features."
                )


def _equally_large(names: tuple[str, ...]) -> list[Layout]:
    """Loads layouts, and pads them to the size of the largest."""
    layouts = [load_layout(name) for name in names]
    height, width = (max((x.tiles.shape[i] for x in layouts), default=0) for i in (0, 1))
    return [layout.pad(height, width) for layout in layouts]


@dataclasses.dataclass(frozen=True)
class KitchenV2(AbstractWorldConfig):
    """Settings of OvercookedV2."""

    name: Literal["overcooked_v2"] = "overcooked_v2"
    """Name of the world; each world has settings of its own."""
    layout: str = "cramped_room_v2"
    """Name of one of the 23 layouts."""
    view_radius: Annotated[int, Meta(ge=0, le=127)] = 0
    """View radius of cooks, in cells; 0 for the whole kitchen."""
    negative_rewards: bool = False
    """Penalise wrong deliveries as much as correct ones are rewarded."""
    sample_recipe_on_delivery: bool = False
    """Sample a new recipe after every correct delivery."""
    random_positions: bool = False
    """Sample the initial positions of cooks."""
    horizon: Horizon = 400
    """Length of an episode, in steps."""
    observation: Literal["planes"] = "planes"
    """The planes of OvercookedV2."""
    normalize_observation: bool = False
    """Normalise observations to mean 0 and variance 1."""
    run_settings: ClassVar[RunSettings] = {"ppo": PPO(advantage_std_offset=1.0)}
    threshold = 20

    def build(self, *, train: bool) -> GridWorld:
        return OvercookedV2(
            self.layout,
            view_radius=self.view_radius or None,
            negative_rewards=self.negative_rewards,
            sample_recipe_on_delivery=self.sample_recipe_on_delivery,
            random_positions=self.random_positions,
            horizon=self.horizon,
        )
