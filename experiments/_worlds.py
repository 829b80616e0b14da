"""The worlds that the command lines know: the settings of each, as flags, and what they build.

A world of your own becomes one more class here, and one more entry in `WORLDS`.
"""

import abc
import dataclasses
import difflib
from typing import Any, Literal

from _errors import UsageError

from eqgrid.envs.goals import Goals
from eqgrid.envs.overcooked import Overcooked, best_known_return, find_obstacle, random_starts
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
    """overcooked or goals: each has settings of its own."""
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
    """overcooked or goals: each has settings of its own."""
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


WORLDS: dict[str, type[AbstractWorldConfig]] = {
    "overcooked": Kitchen,
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
