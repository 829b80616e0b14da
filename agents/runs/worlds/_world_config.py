"""What every world of the command lines says of itself."""

import abc
import dataclasses
from collections.abc import Container, Iterable, Sequence
from typing import Annotated, Any, ClassVar, TypeAlias, TypedDict

from jaxtyping import PyTree
from msgspec import Meta

from agents import PPO
from agents.runs.display._errors import UsageError
from eqgrid import AbstractEnv
from eqgrid.grid import AbstractGenerator, GridWorld, RandomLayouts

Horizon: TypeAlias = Annotated[int, Meta(ge=1, le=100_000)]
"""Length of an episode, in steps."""
NumAgents: TypeAlias = Annotated[int, Meta(ge=1, le=35)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]


class RunSettings(TypedDict, total=False):
    """Settings of a run that some world wants otherwise than `Config` has them."""

    ppo: PPO
    total_steps: int
    num_envs: int
    width: int
    shaping_steps: int
    agent_id: bool


class AbstractWorldConfig(abc.ABC):
    """Which world, and how an episode goes."""

    name: Any
    layout: Any
    horizon: Any  # a number of steps, or none where that is up to the world
    observation: Any
    normalize_observation: bool
    normalize_reward: bool = False
    only_in_training: ClassVar[tuple[str, ...]] = ()
    """The settings that evaluations know nothing of."""

    def as_judged(self) -> "AbstractWorldConfig":
        """The same game, with the defaults of what only training knows."""
        own: Any = self
        defaults = {field.name: field.default for field in dataclasses.fields(own)}
        return dataclasses.replace(own, **{name: defaults[name] for name in self.only_in_training})

    @property
    def title(self) -> str:
        """What a run is called by: the name of the layout, or what stands for it."""
        return self.layout

    @abc.abstractmethod
    def build(self, *, train: bool) -> AbstractEnv:
        """The world to train or to evaluate in.

        **Raises:** `ValueError` with one sentence.
        """

    @property
    def run_settings(self) -> RunSettings:
        """The defaults of a run in this world, where they are not those of `Config`."""
        return {}

    @property
    def rules(self) -> str | None:
        """Which of several sets of rules is played, where there are several."""
        return None

    @property
    def layout_files(self) -> tuple[str, ...]:
        """The layouts that are read from files, since they are neither names nor texts."""
        return ()

    @property
    def has_images(self) -> bool:
        """Whether a convolution can read the observation."""
        return self.observation == "planes"

    @property
    def has_shaped_reward(self) -> bool:
        """Whether there is pay for steps towards the goal, which fades."""
        return True

    @property
    def has_film(self) -> bool:
        """Whether an episode can be drawn."""
        return True

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

    def generator(self) -> AbstractGenerator | None:
        """What draws layouts, where the layout is `generated`.

        **Raises:** `ValueError` with one sentence.
        """
        return None

    def totals(self, world: AbstractEnv) -> dict[str, tuple[str, ...]]:
        """What is summed in every evaluated episode: the names of entries of `info`, and what the
        log calls the numbers in each.
        """
        assert isinstance(world, GridWorld | RandomLayouts)
        return {"events": tuple(f"event_{name}" for name in world.event_names)}

    def draw(self, world: AbstractEnv, states: PyTree, scores: Sequence[float]) -> bytes:
        """A GIF of an episode.

        **Arguments:**

        - `world`: what `build` gave.
        - `states`: its states, which lead with a time axis.
        - `scores`: what was earned before each state.
        """
        assert isinstance(world, GridWorld | RandomLayouts)
        return world.render_episode(
            states,
            captions=[f"{score:g}" for score in scores],
            cell_pixels=min(64, max(4, 1024 // max(world.shape))),
        )

    def parts(self) -> dict[str, RandomLayouts]:
        """The worlds that are trained in side by side, by name, where there are several."""
        return {}

    def zero_shot(self) -> dict[str, RandomLayouts]:
        """Worlds that were not trained in, by name, in which the final policy is judged, too."""
        return {}

    def remarks(self) -> tuple[str, ...]:
        """What a person is told before a run begins, a sentence each."""
        return ()

    def obstacle(self) -> str | None:
        """Says why nothing can be earned, if that is so."""
        return None

    def check(self) -> None:  # noqa: B027 (most worlds need none)
        """**Raises:** `UsageError` for numbers that are out of range."""


def files_among(layouts: Iterable[str], names: Container[str]) -> tuple[str, ...]:
    """The layouts that are neither among the names nor texts."""
    return tuple(x for x in layouts if x not in names and "\n" not in x.strip())


def check_same_game(
    name: str, world: AbstractWorldConfig, other_name: str, other_world: AbstractWorldConfig
) -> None:
    """Refuses a team that learned different games, in whatever layouts.

    **Arguments:**

    - `name`, `other_name`: what a person calls the two who are to play together.
    - `world`, `other_world`: what each of them was trained in.

    **Raises:** `UsageError` when the worlds or their rules differ.
    """
    if other_world.name != world.name:
        raise UsageError(
            f"{name} was trained in {world.name}, but {other_name} in {other_world.name}: "
            "policies of one team need one world."
        )
    if other_world.rules != world.rules:
        raise UsageError(
            f"{name} was trained with the rules {world.rules!r}, but {other_name} with "
            f"{other_world.rules!r}: policies of one team need the same rules."
        )
