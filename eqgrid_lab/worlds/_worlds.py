"""The table of worlds of the command lines, and the settings of worlds with few of them.

To add a world, add a subclass of `AbstractWorldConfig`, an entry in `WORLDS`, and its name in
`NAMES_OF_WORLDS`.
"""

import dataclasses
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from agents import PPO
from eqgrid import AbstractEnv
from eqgrid.envs.foraging import Foraging
from eqgrid.envs.goals import ROOMS, GeneratedMazes, Goals
from eqgrid.envs.rescue import Rescue, load_site, victims_left
from eqgrid.envs.warehouse import Warehouse
from eqgrid.errors import did_you_mean
from eqgrid.grid import GridWorld, Layout, RandomDirections, RandomPositions, WithProbability

from ..base import NOTHING_NAMED, Named, UsageError, check_named, is_own
from ._foreign import LIBRARIES, foreign_world
from ._generated import GENERATED, AbstractDrawnWorld, MazeSettings, SiteSettings
from ._kitchens import Kitchen, KitchenV2
from ._other_worlds import BodyWorld, CleanupWorld, HarvestWorld, MiniGridWorld
from ._own import own_world
from ._world_config import (
    NAME_OF_WORLD,
    AbstractWorldConfig,
    Horizon,
    NumAgents,
    RunSettings,
    Share,
    files_among,
)


@dataclasses.dataclass(frozen=True)
class GoalsWorld(AbstractDrawnWorld):
    """Settings of the world with flags as goals."""

    name: Annotated[Literal["goals"], NAME_OF_WORLD] = "goals"
    layout: str = "room"
    """room, rooms, a file, or generated."""
    generated: MazeSettings = dataclasses.field(default_factory=MazeSettings)
    num_agents: NumAgents = 2
    """Number of agents, and of flags."""
    shared: bool = False
    """Any agent can take any flag, instead of only its own."""
    horizon: Horizon = 50
    """Length of an episode, in steps."""
    observation: Literal["features", "planes"] = "features"
    """Named features, or planes."""
    normalize_observation: bool = False
    """Normalise observations to mean 0 and variance 1."""
    has_shaped_reward = False

    @property
    def known_layouts(self) -> tuple[str, ...]:
        return tuple(ROOMS)

    def how_to_play(self, world: AbstractEnv) -> tuple[str, ...]:
        whose = "any flag" if self.shared else "the flag of your colour"
        return (f"Go to {whose}.", "Whoever reaches one is paid 1, and is done.")

    @property
    def layout_files(self) -> tuple[str, ...]:
        return files_among((self.layout,), {GENERATED, *ROOMS})

    @property
    def optimum(self) -> float | None:
        return 1.0

    def generator(self) -> GeneratedMazes | None:
        return self.generated.build(self.num_agents) if self.layout == GENERATED else None

    def build_in(self, layout: str | Layout, *, train: bool) -> GridWorld:
        return Goals(
            layout,
            num_agents=self.num_agents,
            shared=self.shared,
            horizon=self.horizon,
            observation=self.observation,
        )


@dataclasses.dataclass(frozen=True)
class ForagingWorld(AbstractWorldConfig):
    """Settings of level-based foraging."""

    name: Annotated[Literal["foraging"], NAME_OF_WORLD] = "foraging"
    size: Annotated[int, Meta(ge=1, le=125)] = 8
    """Number of rows and of columns of the field."""
    num_agents: NumAgents = 2
    """Number of agents."""
    num_food: Annotated[int, Meta(ge=1, le=1000)] = 2
    """Number of food items."""
    coop: bool = False
    """All food must be loaded by several agents together."""
    sight: Annotated[int, Meta(ge=0, le=127)] = 0
    """View radius of agents, in cells; 0 for the whole field."""
    horizon: Horizon = 50
    """Length of an episode, in steps."""
    observation: Literal["vector", "grid"] = "vector"
    """Positions and levels of food and agents, or a grid."""
    normalize_observation: bool = False
    """Normalise observations to mean 0 and variance 1."""
    run_settings: ClassVar[RunSettings] = {
        "ppo": PPO(advantage_std_offset=0.1),
        "total_steps": 2_000_000,
    }
    has_shaped_reward = False
    threshold = 0.05

    def how_to_play(self, world: AbstractEnv) -> tuple[str, ...]:
        return (
            "Go next to food and load it. The levels of all who load it at the same time must add "
            "up to the level of the food.",
            "All food together pays 1, which is shared by those who load it.",
        )

    @property
    def title(self) -> str:
        what = f"{self.size}x{self.size}-{self.num_agents}p-{self.num_food}f"
        return what + ("-coop" if self.coop else "")

    @property
    def has_images(self) -> bool:
        return self.observation == "grid"

    @property
    def optimum(self) -> float | None:
        return 1 / self.num_agents  # all food is worth 1, and returns are means over agents

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
    """Settings of the multi-robot warehouse."""

    name: Annotated[Literal["warehouse"], NAME_OF_WORLD] = "warehouse"
    size: Literal["tiny", "small", "medium", "large"] = "tiny"
    """Size of the warehouse."""
    num_agents: NumAgents = 2
    """Number of robots."""
    difficulty: Literal["easy", "normal", "hard"] = "normal"
    """Requested shelves per robot: 2 (easy), 1 (normal) or 0.5 (hard)."""
    reward: Literal["individual", "shared", "two_stage"] = "individual"
    """Rewarded for a delivery: its robot, all robots, or its robot in two stages."""
    horizon: Horizon = 500
    """Length of an episode, in steps."""
    observation: Literal["sensors"] = "sensors"
    """Sensor readings of the cells around a robot."""
    normalize_observation: bool = True
    """Normalise observations to mean 0 and variance 1."""
    run_settings: ClassVar[RunSettings] = {
        "ppo": PPO(advantage_std_offset=0.1, entropy_coefficient=0.03),
        "total_steps": 12_000_000,
        "agent_id": True,
    }
    has_shaped_reward = False
    threshold = 1

    def how_to_play(self, world: AbstractEnv) -> tuple[str, ...]:
        return (
            "Turn and drive under a shelf that is asked for, load it, and drive it to a goal. Then "
            "bring it back to an empty place.",
            "Each delivery pays 1.",
        )

    @property
    def title(self) -> str:
        return f"{self.size}-{self.num_agents}ag-{self.difficulty}"

    @property
    def has_slow_resets(self) -> bool:
        return True

    def build(self, *, train: bool) -> GridWorld:
        return Warehouse(
            self.size,
            num_agents=self.num_agents,
            difficulty=self.difficulty,
            reward=self.reward,
            horizon=self.horizon,
        )


@dataclasses.dataclass(frozen=True)
class RescueWorld(AbstractDrawnWorld):
    """Settings of search and rescue."""

    name: Annotated[Literal["rescue"], NAME_OF_WORLD] = "rescue"
    layout: Literal["small", "large", "generated"] = "small"
    """Site."""
    generated: SiteSettings = dataclasses.field(default_factory=SiteSettings)
    radius: Annotated[int, Meta(ge=1, le=127)] = 3
    """View radius of agents in planes, in cells."""
    horizon: Horizon = 250
    """Length of an episode, in steps."""
    observation: Literal["features", "planes"] = "features"
    """Named features, or a window of planes."""
    random_starts: Share = 0.5
    """Share of training episodes with random initial positions and directions."""
    normalize_observation: bool = False
    """Normalise observations to mean 0 and variance 1."""
    only_in_training = ("random_starts",)
    run_settings: ClassVar[RunSettings] = {
        "ppo": PPO(advantage_std_offset=0.1),
        "total_steps": 2_000_000,
    }

    @property
    def known_layouts(self) -> tuple[str, ...]:
        return ("small", "large")

    def how_to_play(self, world: AbstractEnv) -> tuple[str, ...]:
        return (
            "Pick up green victims, and carry them to an exit. A medic's toggle makes yellow "
            "victims green, an engineer's clears rubble, and red victims are lifted by two. A key "
            "opens the door of its colour.",
            "Each victim who is carried out pays everybody 1.",
        )

    @property
    def optimum(self) -> float | None:
        """The number of victims; `None` for generated sites."""
        if self.layout == GENERATED:
            return None
        return float(victims_left(load_site(self.layout).start))

    def build_in(self, layout: str | Layout, *, train: bool) -> GridWorld:
        share = self.random_starts if train else 0.0
        start = WithProbability(share, (RandomPositions(), RandomDirections()))
        return Rescue(
            layout,
            horizon=self.horizon,
            radius=self.radius,
            observation=self.observation,
            starts=(start,) if share else (),
        )


WORLDS: dict[str, type[AbstractWorldConfig]] = {
    "overcooked": Kitchen,
    "overcooked_v2": KitchenV2,
    "foraging": ForagingWorld,
    "warehouse": WarehouseWorld,
    "rescue": RescueWorld,
    "minigrid": MiniGridWorld,
    "goals": GoalsWorld,
    "harvest": HarvestWorld,
    "cleanup": CleanupWorld,
    "body": BodyWorld,
}


def default_world(name: str | None, named: Named = NOTHING_NAMED) -> AbstractWorldConfig:
    """The default settings of a world.

    **Arguments:**

    - `name`: the name of the world, `LIBRARY:NAME`, or `MODULE:NAME` for a world of the user;
        `None` for Overcooked.
    - `named`: what the command line names; no other module of the user is imported.

    **Raises:** `UsageError` when there is no such world, or its library is not installed, and
    `NotNamed` for a world of the user that the command line does not name.
    """
    if name is None:
        return Kitchen()
    if name.partition(":")[0] in LIBRARIES and ":" in name:
        return foreign_world(name)
    if is_own(name):
        check_named(name, named.worlds, "world", "--env.name")
        return own_world(name)
    if name not in WORLDS:
        others = (*(f"{library}:NAME" for library in LIBRARIES), "MODULE:NAME for your own")
        raise UsageError(
            f"There is no world {name!r:.60} for --env.name{did_you_mean(name, WORLDS)} Known are "
            f"{', '.join((*WORLDS, *others))}."
        )
    return WORLDS[name]()  # pyright: ignore[reportCallIssue]
