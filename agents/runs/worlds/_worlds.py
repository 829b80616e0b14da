"""The worlds that the command lines know: the settings of each, as flags, and what they build.

A world of your own becomes one more class here, and one more entry in `WORLDS`.
"""

import dataclasses
import os
from typing import Annotated, Literal

from msgspec import Meta

from agents import PPO
from agents.runs.display._errors import UsageError
from eqgrid.envs.foraging import Foraging
from eqgrid.envs.goals import ROOMS, GeneratedMazes, Goals
from eqgrid.envs.overcooked import (
    KITCHENS,
    REFERENCE_NAMES,
    TRAINING_SHAPING,
    GeneratedKitchens,
    Overcooked,
    best_known_return,
    find_obstacle,
    load_layout,
    random_starts,
    reference_layouts,
)
from eqgrid.envs.overcooked_v2 import OvercookedV2
from eqgrid.envs.rescue import GeneratedSites, Rescue, load_site, victims_left
from eqgrid.envs.warehouse import Warehouse
from eqgrid.grid import (
    GridWorld,
    Layout,
    LayoutPool,
    RandomDirections,
    RandomLayouts,
    RandomPositions,
    WithProbability,
    did_you_mean,
    stack_layouts,
)

from ._bodies import BodyWorld
from ._foreign import LIBRARIES, foreign_world
from ._generated import (
    NAME as GENERATED,
    KitchenSettings,
    MazeSettings,
    SiteSettings,
    check_generated,
    with_drawn_layouts,
)
from ._world_config import (
    AbstractWorldConfig,
    Horizon,
    NumAgents,
    RunSettings,
    Share,
    files_among,
)


@dataclasses.dataclass(frozen=True)
class Kitchen(AbstractWorldConfig):
    """The kitchen, and how an episode goes."""

    name: Literal["overcooked"] = "overcooked"
    """Or overcooked_v2, foraging, warehouse, rescue, goals, body, LIBRARY:NAME."""
    layout: str = "cramped"
    """cramped, asymmetric, ring, forced, circuit, a file, generated; or several: cramped,ring."""
    practice: tuple[str, ...] = ()
    """Layouts that are trained in besides, and never evaluated in."""
    generated: KitchenSettings = dataclasses.field(default_factory=KitchenSettings)
    dynamics: Literal["classic", "interactive"] = "classic"
    """A full pot starts by itself, or a cook starts it."""
    horizon: Horizon = 400
    """Length of an episode, in steps."""
    observation: Literal["features", "planes", "features96"] = "features"
    """Named features, the reference's 26 planes, or its 96 features."""
    random_starts: Share = 0.5
    """Share of training episodes with a random start."""
    random_counters: Share = 0.0
    """Share of counters between two cooks that have something on them at a random start."""
    normalize_observation: bool = False
    """Bring observations to mean 0 and variance 1."""
    only_in_training = ("practice", "random_starts", "random_counters")

    @property
    def run_settings(self) -> RunSettings:
        ppo = PPO(normalize_values=True, advantage_std_offset=1.0, entropy_coefficient=0.05)
        return {"ppo": ppo}

    @property
    def rules(self) -> str | None:
        return self.dynamics

    @property
    def has_slow_resets(self) -> bool:
        return self.random_starts > 0 or (self.layout == GENERATED and self.generated.pool == 0)

    @property
    def mixture(self) -> tuple[str, ...]:
        """The layouts that are played in side by side, where there are several."""
        if "," not in self.layout or "\n" in self.layout or os.path.exists(self.layout):
            return ()
        return tuple(name.strip() for name in self.layout.split(","))

    @property
    def layouts(self) -> tuple[str, ...]:
        """All layouts that are played in."""
        return self.mixture or (self.layout,)

    @property
    def layout_files(self) -> tuple[str, ...]:
        names = {GENERATED, *KITCHENS, *REFERENCE_NAMES, *reference_layouts()}
        return files_among(self.layouts + self.practice, names)

    @property
    def optimum(self) -> float | None:
        """That of a mixture is the mean."""
        known = [best_known_return(name, self.dynamics, self.horizon) for name in self.layouts]
        found = [optimum for optimum in known if optimum is not None]
        return sum(found) / len(found) if len(found) == len(known) else None

    @property
    def threshold(self) -> float:
        return 20  # what a soup pays by default

    def build(self, *, train: bool) -> GridWorld | RandomLayouts:
        """Evaluations begin at the layout's own start."""
        if (kitchens := self.generator()) is None:
            return self._build_in_all(self.layouts + (self.practice if train else ()), train)
        one = self._build_in(kitchens.example, train)
        return with_drawn_layouts(one, kitchens, self.generated.pool, train=train)

    def generator(self) -> GeneratedKitchens | None:
        return self.generated.build() if self.layout == GENERATED else None

    def _build_in(self, layout: str | Layout, train: bool) -> GridWorld:
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

    def _build_in_all(self, names: tuple[str, ...], train: bool) -> GridWorld | RandomLayouts:
        layouts = _equally_large(names)
        world = self._build_in(layouts[0], train)
        return (
            world if len(names) == 1 else RandomLayouts(world, LayoutPool(stack_layouts(layouts)))
        )

    def remarks(self) -> tuple[str, ...]:
        if not self.practice:
            return ()
        number = f"{len(self.practice)} kitchen{'s' * (len(self.practice) > 1)}"
        verb = "are" if len(self.practice) > 1 else "is"
        return (f"trained in {number} besides, which {verb} never evaluated in",)

    def obstacle(self) -> str | None:
        if self.layout == GENERATED:
            return None
        found = (
            find_obstacle(load_layout(name), self.dynamics) for name in self.layouts + self.practice
        )
        return next((obstacle for obstacle in found if obstacle is not None), None)

    def parts(self) -> dict[str, RandomLayouts]:
        layouts = _equally_large(self.mixture)
        return {name: self._alone(layouts[i]) for i, name in enumerate(self.mixture)}

    def zero_shot(self) -> dict[str, RandomLayouts]:
        """The five kitchens that fit into the grid, where kitchens are generated for two cooks."""
        if self.layout != GENERATED or self.generated.num_agents != 2:
            return {}
        size = (self.generated.height, self.generated.width)
        layouts = {name: load_layout(name) for name in KITCHENS}
        return {
            name: self._alone(layout.pad(*size))
            for name, layout in layouts.items()
            if layout.tiles.shape[0] <= size[0] and layout.tiles.shape[1] <= size[1]
        }

    def _alone(self, layout: Layout) -> RandomLayouts:
        """One layout as a pool, so that one compiled program plays in all of them."""
        return RandomLayouts(self._build_in(layout, False), LayoutPool(stack_layouts([layout])))

    def check(self) -> None:
        check_generated(self.layout, self.generated)
        if self.practice and GENERATED in (self.layout, *self.practice):
            raise UsageError(
                "--env.practice names layouts to be trained in besides --env.layout: leave it out, "
                f"or choose others than {GENERATED}."
            )
        if self.practice and self.has_images:
            sizes = [_equally_large(x)[0].tiles.shape for x in (self.layouts, self.practice)]
            if any(more > one for one, more in zip(*sizes, strict=True)):
                raise UsageError(
                    "Images of the kitchens of --env.practice are larger than those of "
                    "--env.layout: choose smaller kitchens, or --env.observation features."
                )


def _equally_large(names: tuple[str, ...]) -> list[Layout]:
    """The layouts of these names, as large as the largest of them."""
    layouts = [load_layout(name) for name in names]
    height, width = (max((x.tiles.shape[i] for x in layouts), default=0) for i in (0, 1))
    return [layout.pad(height, width) for layout in layouts]


@dataclasses.dataclass(frozen=True)
class GoalsWorld(AbstractWorldConfig):
    """The room with flags, and how an episode goes."""

    name: Literal["goals"] = "goals"
    """Which world; each has settings of its own."""
    layout: str = "room"
    """room, rooms, the path of a layout file, or generated."""
    generated: MazeSettings = dataclasses.field(default_factory=MazeSettings)
    num_agents: NumAgents = 2
    """How many agents, and flags, there are."""
    shared: bool = False
    """Whoever comes first takes a flag."""
    horizon: Horizon = 50
    """Length of an episode, in steps."""
    observation: Literal["features", "planes"] = "features"
    """Named features, or planes."""
    normalize_observation: bool = False
    """Bring observations to mean 0 and variance 1."""

    @property
    def layout_files(self) -> tuple[str, ...]:
        return files_among((self.layout,), {GENERATED, *ROOMS})

    @property
    def has_slow_resets(self) -> bool:
        return self.layout == GENERATED and self.generated.pool == 0

    @property
    def has_shaped_reward(self) -> bool:
        return False

    @property
    def optimum(self) -> float | None:
        return 1.0

    def check(self) -> None:
        check_generated(self.layout, self.generated)

    def build(self, *, train: bool) -> GridWorld | RandomLayouts:
        if (mazes := self.generator()) is None:
            return self._build_in(self.layout)
        one = self._build_in(mazes.example)
        return with_drawn_layouts(one, mazes, self.generated.pool, train=train)

    def generator(self) -> GeneratedMazes | None:
        return self.generated.build(self.num_agents) if self.layout == GENERATED else None

    def _build_in(self, layout: str | Layout) -> GridWorld:
        return Goals(
            layout,
            num_agents=self.num_agents,
            shared=self.shared,
            horizon=self.horizon,
            observation=self.observation,
        )


@dataclasses.dataclass(frozen=True)
class KitchenV2(AbstractWorldConfig):
    """The kitchen of OvercookedV2, and how an episode goes."""

    name: Literal["overcooked_v2"] = "overcooked_v2"
    """Which world; each has settings of its own."""
    layout: str = "cramped_room_v2"
    """One of the 23 layouts."""
    view_radius: Annotated[int, Meta(ge=0, le=127)] = 0
    """How far cooks see, in cells; 0 for everything."""
    negative_rewards: bool = False
    """A wrong delivery costs as much as a right one pays."""
    sample_recipe_on_delivery: bool = False
    """Every right delivery draws a new recipe."""
    random_positions: bool = False
    """Cooks start anywhere."""
    horizon: Horizon = 400
    """Length of an episode, in steps."""
    observation: Literal["planes"] = "planes"
    """The planes of OvercookedV2."""
    normalize_observation: bool = False
    """Bring observations to mean 0 and variance 1."""

    @property
    def run_settings(self) -> RunSettings:
        return {"ppo": PPO(advantage_std_offset=1.0)}

    @property
    def threshold(self) -> float:
        return 20

    def build(self, *, train: bool) -> GridWorld:
        return OvercookedV2(
            self.layout,
            view_radius=self.view_radius or None,
            negative_rewards=self.negative_rewards,
            sample_recipe_on_delivery=self.sample_recipe_on_delivery,
            random_positions=self.random_positions,
            horizon=self.horizon,
        )


@dataclasses.dataclass(frozen=True)
class ForagingWorld(AbstractWorldConfig):
    """The field, and how an episode goes."""

    name: Literal["foraging"] = "foraging"
    """Which world; each has settings of its own."""
    size: Annotated[int, Meta(ge=1, le=125)] = 8
    """Rows, and columns, of the field."""
    num_agents: NumAgents = 2
    """How many agents there are."""
    num_food: Annotated[int, Meta(ge=1, le=1000)] = 2
    """How much food there is."""
    coop: bool = False
    """All food needs several agents."""
    sight: Annotated[int, Meta(ge=0, le=127)] = 0
    """How far agents see, in cells; 0 for everything."""
    horizon: Horizon = 50
    """Length of an episode, in steps."""
    observation: Literal["vector", "grid"] = "vector"
    """Numbers of every food and agent, or a grid."""
    normalize_observation: bool = False
    """Bring observations to mean 0 and variance 1."""

    @property
    def run_settings(self) -> RunSettings:
        return {"ppo": PPO(advantage_std_offset=0.1), "total_steps": 2_000_000}

    @property
    def title(self) -> str:
        what = f"{self.size}x{self.size}-{self.num_agents}p-{self.num_food}f"
        return what + ("-coop" if self.coop else "")

    @property
    def has_images(self) -> bool:
        return self.observation == "grid"

    @property
    def has_shaped_reward(self) -> bool:
        return False

    @property
    def optimum(self) -> float | None:
        return 1 / self.num_agents  # all food is worth 1; a return is the mean over agents

    @property
    def threshold(self) -> float:
        return 0.05

    def build(self, *, train: bool) -> GridWorld:
        return Foraging(
            self.size,
            self.num_agents,
            self.num_food,
            coop=self.coop,
            sight=self.sight or None,
            observation=self.observation,
            horizon=self.horizon,
        )


@dataclasses.dataclass(frozen=True)
class WarehouseWorld(AbstractWorldConfig):
    """The warehouse, and how an episode goes."""

    name: Literal["warehouse"] = "warehouse"
    """Which world; each has settings of its own."""
    size: Literal["tiny", "small", "medium", "large"] = "tiny"
    """How large the warehouse is."""
    num_agents: NumAgents = 2
    """How many robots there are."""
    difficulty: Literal["easy", "normal", "hard"] = "normal"
    """2, 1 or 0.5 requested shelves for each robot."""
    reward: Literal["individual", "shared", "two_stage"] = "individual"
    """Who is paid for a delivery."""
    horizon: Horizon = 500
    """Length of an episode, in steps."""
    observation: Literal["sensors"] = "sensors"
    """What a robot's sensors say."""
    normalize_observation: bool = True
    """Bring observations to mean 0 and variance 1."""

    @property
    def run_settings(self) -> RunSettings:
        ppo = PPO(advantage_std_offset=0.1, entropy_coefficient=0.03)
        return {"ppo": ppo, "total_steps": 12_000_000, "agent_id": True}

    @property
    def title(self) -> str:
        return f"{self.size}-{self.num_agents}ag-{self.difficulty}"

    @property
    def has_slow_resets(self) -> bool:
        return True

    @property
    def has_shaped_reward(self) -> bool:
        return False

    @property
    def threshold(self) -> float:
        return 1

    def build(self, *, train: bool) -> GridWorld:
        return Warehouse(
            self.size,
            num_agents=self.num_agents,
            difficulty=self.difficulty,
            reward=self.reward,
            horizon=self.horizon,
        )


@dataclasses.dataclass(frozen=True)
class RescueWorld(AbstractWorldConfig):
    """The site, and how an episode goes."""

    name: Literal["rescue"] = "rescue"
    """Which world; each has settings of its own."""
    layout: Literal["small", "large", "generated"] = "small"
    """Which site."""
    generated: SiteSettings = dataclasses.field(default_factory=SiteSettings)
    radius: Annotated[int, Meta(ge=1, le=127)] = 3
    """How far agents see in planes, in cells."""
    horizon: Horizon = 250
    """Length of an episode, in steps."""
    observation: Literal["features", "planes"] = "features"
    """Named features, or a window of planes."""
    random_starts: Share = 0.5
    """Share of training episodes with random places."""
    normalize_observation: bool = False
    """Bring observations to mean 0 and variance 1."""
    only_in_training = ("random_starts",)

    @property
    def run_settings(self) -> RunSettings:
        return {"ppo": PPO(advantage_std_offset=0.1), "total_steps": 2_000_000}

    @property
    def has_slow_resets(self) -> bool:
        return self.random_starts > 0 or (self.layout == GENERATED and self.generated.pool == 0)

    @property
    def optimum(self) -> float | None:
        """How many victims there are."""
        return (
            None if self.layout == GENERATED else float(victims_left(load_site(self.layout).start))
        )

    def build(self, *, train: bool) -> GridWorld | RandomLayouts:
        if (sites := self.generator()) is None:
            return self._build_in(self.layout, train)
        one = self._build_in(sites.example, train)
        return with_drawn_layouts(one, sites, self.generated.pool, train=train)

    def generator(self) -> GeneratedSites | None:
        return self.generated.build() if self.layout == GENERATED else None

    def _build_in(self, layout: str | Layout, train: bool) -> GridWorld:
        share = self.random_starts if train else 0.0
        start = WithProbability(share, (RandomPositions(), RandomDirections()))
        return Rescue(
            layout,
            horizon=self.horizon,
            radius=self.radius,
            observation=self.observation,
            starts=(start,) if share else (),
        )

    def check(self) -> None:
        check_generated(self.layout, self.generated)


WORLDS: dict[str, type[AbstractWorldConfig]] = {
    "overcooked": Kitchen,
    "overcooked_v2": KitchenV2,
    "foraging": ForagingWorld,
    "warehouse": WarehouseWorld,
    "rescue": RescueWorld,
    "goals": GoalsWorld,
    "body": BodyWorld,
}


def default_world(name: str | None) -> AbstractWorldConfig:
    """The settings of a world that nobody has changed; the kitchen's where none is named.

    **Raises:** `UsageError` when there is no such world, or the library that has it is missing.
    """
    if name is None:
        return Kitchen()
    if name.partition(":")[0] in LIBRARIES and ":" in name:
        return foreign_world(name)
    if name not in WORLDS:
        raise UsageError(
            f"There is no world {name!r:.60} for --env.name{did_you_mean(name, WORLDS)} Known are "
            f"{', '.join((*WORLDS, *(f'{library}:NAME' for library in LIBRARIES)))}."
        )
    return WORLDS[name]()  # pyright: ignore[reportCallIssue]
