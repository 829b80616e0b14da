"""The worlds that the command lines know: the settings of each, as flags, and what they build.

A world of your own becomes one more class here, and one more entry in `WORLDS`.
"""

import abc
import dataclasses
import difflib
from typing import Any, Literal

from _errors import UsageError

from eqgrid.envs.foraging import Foraging
from eqgrid.envs.goals import Goals
from eqgrid.envs.overcooked import Overcooked, best_known_return, find_obstacle, random_starts
from eqgrid.envs.overcooked_v2 import OvercookedV2
from eqgrid.envs.rescue import Rescue, victims_left
from eqgrid.envs.warehouse import Warehouse
from eqgrid.grid import GridWorld


class AbstractWorldConfig(abc.ABC):
    """Which world, and how an episode goes."""

    name: Any
    horizon: int
    observation: Any
    normalize_observation: bool

    @property
    @abc.abstractmethod
    def title(self) -> str:
        """What a run is called by, such as the name of the layout."""

    @abc.abstractmethod
    def build(self, *, train: bool) -> GridWorld:
        """The world to train or to evaluate in.

        **Raises:** `ValueError` with one sentence.
        """

    @property
    def rules(self) -> str | None:
        """Which of several sets of rules is played, where there are several."""
        return None

    @property
    def has_images(self) -> bool:
        """Whether a convolution can read the observation."""
        return self.observation == "planes"

    @property
    def has_slow_resets(self) -> bool:
        """Whether resets cost much, and episodes end together."""
        return False

    @property
    def optimum(self) -> float | None:
        """The best return that is known."""
        return None

    @property
    def threshold(self) -> float:
        """The step between the return thresholds of `result.json`."""
        return 0.1

    def obstacle(self) -> str | None:
        """Says why nothing can be earned, if that is so."""
        return None

    def check(self) -> None:  # noqa: B027 (most worlds need none)
        """**Raises:** `UsageError` for numbers that are out of range."""


@dataclasses.dataclass(frozen=True)
class Kitchen(AbstractWorldConfig):
    """The kitchen, and how an episode goes."""

    name: Literal["overcooked"] = "overcooked"
    """Or overcooked_v2, foraging, warehouse, rescue, goals."""
    layout: str = "cramped"
    """cramped, asymmetric, ring, forced, circuit, or the path of a layout file."""
    dynamics: Literal["classic", "interactive"] = "classic"
    """A full pot starts by itself, or a cook starts it."""
    horizon: int = 400
    """Length of an episode, in steps."""
    observation: Literal["features", "planes"] = "features"
    """Named features, or the reference's 26 planes."""
    random_starts: float = 0.0
    """Share of training episodes with a random start."""
    normalize_observation: bool = False
    """Bring observations to mean 0 and variance 1."""

    @property
    def title(self) -> str:
        return self.layout

    @property
    def rules(self) -> str | None:
        return self.dynamics

    @property
    def has_slow_resets(self) -> bool:
        return self.random_starts > 0

    @property
    def optimum(self) -> float | None:
        return best_known_return(self.layout, self.dynamics, self.horizon)

    @property
    def threshold(self) -> float:
        return 20  # what a soup pays by default

    def build(self, *, train: bool) -> GridWorld:
        """Evaluations begin at the layout's own start."""
        share = self.random_starts if train else 0
        return Overcooked(
            self.layout,
            dynamics=self.dynamics,
            horizon=self.horizon,
            observation=self.observation,
            starts=random_starts(share, full_only=self.dynamics == "classic"),
        )

    def obstacle(self) -> str | None:
        return find_obstacle(self.build(train=False).layout, self.dynamics)

    def check(self) -> None:
        if not 0 <= self.random_starts <= 1:
            raise UsageError(
                f"--env.random-starts is a share, between 0 and 1, but is {self.random_starts}."
            )


@dataclasses.dataclass(frozen=True)
class GoalsWorld(AbstractWorldConfig):
    """The room with flags, and how an episode goes."""

    name: Literal["goals"] = "goals"
    """Which world; each has settings of its own."""
    layout: str = "room"
    """room, rooms, or the path of a layout file."""
    num_agents: int = 2
    """How many agents, and flags, there are."""
    shared: bool = False
    """Whoever comes first takes a flag."""
    horizon: int = 50
    """Length of an episode, in steps."""
    observation: Literal["features", "planes"] = "features"
    """Named features, or planes."""
    normalize_observation: bool = False
    """Bring observations to mean 0 and variance 1."""

    @property
    def title(self) -> str:
        return self.layout

    @property
    def optimum(self) -> float | None:
        return 1.0

    def build(self, *, train: bool) -> GridWorld:
        return Goals(
            self.layout,
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
    view_radius: int = 0
    """How far cooks see, in cells; 0 for everything."""
    negative_rewards: bool = False
    """A wrong delivery costs as much as a right one pays."""
    sample_recipe_on_delivery: bool = False
    """Every right delivery draws a new recipe."""
    random_positions: bool = False
    """Cooks start anywhere."""
    horizon: int = 400
    """Length of an episode, in steps."""
    observation: Literal["planes"] = "planes"
    """The planes of OvercookedV2."""
    normalize_observation: bool = False
    """Bring observations to mean 0 and variance 1."""

    @property
    def title(self) -> str:
        return self.layout

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
    size: int = 8
    """Rows, and columns, of the field."""
    num_agents: int = 2
    """How many agents there are."""
    num_food: int = 2
    """How much food there is."""
    coop: bool = False
    """All food needs several agents."""
    sight: int = 0
    """How far agents see, in cells; 0 for everything."""
    horizon: int = 50
    """Length of an episode, in steps."""
    observation: Literal["vector", "grid"] = "vector"
    """Numbers of every food and agent, or a grid."""
    normalize_observation: bool = False
    """Bring observations to mean 0 and variance 1."""

    @property
    def title(self) -> str:
        what = f"{self.size}x{self.size}-{self.num_agents}p-{self.num_food}f"
        return what + ("-coop" if self.coop else "")

    @property
    def has_images(self) -> bool:
        return self.observation == "grid"

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
    num_agents: int = 2
    """How many robots there are."""
    difficulty: Literal["easy", "normal", "hard"] = "normal"
    """2, 1 or 0.5 requested shelves for each robot."""
    reward: Literal["individual", "shared", "two_stage"] = "individual"
    """Who is paid for a delivery."""
    horizon: int = 500
    """Length of an episode, in steps."""
    observation: Literal["sensors"] = "sensors"
    """What a robot's sensors say."""
    normalize_observation: bool = False
    """Bring observations to mean 0 and variance 1."""

    @property
    def title(self) -> str:
        return f"{self.size}-{self.num_agents}ag-{self.difficulty}"

    @property
    def has_slow_resets(self) -> bool:
        return True

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
    layout: Literal["small", "large"] = "small"
    """Which site."""
    radius: int = 3
    """How far agents see, in cells."""
    horizon: int = 250
    """Length of an episode, in steps."""
    observation: Literal["planes"] = "planes"
    """A window of planes around each agent."""
    normalize_observation: bool = False
    """Bring observations to mean 0 and variance 1."""

    @property
    def title(self) -> str:
        return self.layout

    @property
    def optimum(self) -> float | None:
        return float(victims_left(self.build(train=False).layout.start))

    def build(self, *, train: bool) -> GridWorld:
        return Rescue(self.layout, horizon=self.horizon, radius=self.radius)


WORLDS: dict[str, type[AbstractWorldConfig]] = {
    "overcooked": Kitchen,
    "overcooked_v2": KitchenV2,
    "foraging": ForagingWorld,
    "warehouse": WarehouseWorld,
    "rescue": RescueWorld,
    "goals": GoalsWorld,
}


def default_world(name: str | None) -> AbstractWorldConfig:
    """The settings of a world that nobody has changed; the kitchen's where none is named.

    **Raises:** `UsageError` when there is no such world.
    """
    if name is None:
        return Kitchen()
    if name not in WORLDS:
        near = difflib.get_close_matches(name, WORLDS, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else "."
        raise UsageError(
            f"There is no world {name!r:.60} for --env.name{hint} Known are {', '.join(WORLDS)}."
        )
    return WORLDS[name]()  # pyright: ignore[reportCallIssue]
