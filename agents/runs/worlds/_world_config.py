"""The interface that the settings of every world have."""

import abc
import dataclasses
from collections.abc import Container, Iterable, Sequence
from typing import Annotated, Any, ClassVar, TypeAlias, TypedDict

from jaxtyping import PyTree
from msgspec import Meta

from agents import PPO
from agents.runs.display._errors import UsageError
from eqgrid import AbstractEnv
from eqgrid.grid import GridWorld, RandomLayouts

Horizon: TypeAlias = Annotated[int, Meta(ge=1, le=100_000)]
"""Length of an episode, in steps."""
NumAgents: TypeAlias = Annotated[int, Meta(ge=1, le=35)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]


class RunSettings(TypedDict, total=False):
    """Settings of a run whose defaults a world may replace."""

    ppo: PPO
    total_steps: int
    num_envs: int
    width: int
    shaping_steps: int
    agent_id: bool


class AbstractWorldConfig(abc.ABC):
    """The settings of a world: which one it is, and how an episode goes.

    What is the same for all settings of a world is a class attribute; what depends on them is a
    property or a method.
    """

    name: Any
    layout: Any
    horizon: Any  # a number of steps, or None where the world itself ends its episodes
    observation: Any
    normalize_observation: bool
    normalize_reward: bool = False
    only_in_training: ClassVar[tuple[str, ...]] = ()
    """The settings that only training depends on."""
    run_settings: ClassVar[RunSettings] = {}
    """The defaults of a run in this world, where they are not those of `Experiment`."""
    has_shaped_reward: ClassVar[bool] = True
    """Whether there is a reward for steps towards the goal, which fades."""
    has_film: ClassVar[bool] = True
    """Whether an episode can be drawn."""
    threshold: ClassVar[float] = 0.1
    """The step between the return thresholds of `result.json`."""

    def as_judged(self) -> "AbstractWorldConfig":
        """The same settings, with the defaults of those that only training depends on."""
        own: Any = self
        defaults = {field.name: field.default for field in dataclasses.fields(own)}
        return dataclasses.replace(own, **{name: defaults[name] for name in self.only_in_training})

    @property
    def title(self) -> str:
        """The name of the layout, or what stands for it; runs are named after it."""
        return self.layout

    @abc.abstractmethod
    def build(self, *, train: bool) -> AbstractEnv:
        """The world to train or to evaluate in.

        **Raises:** `ValueError` with one sentence.
        """

    @property
    def rules(self) -> str | None:
        """The name of the rules, where the world has several sets of them."""
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
    def has_slow_resets(self) -> bool:
        """Whether a reset is slow, so that it is better made only when an episode ends."""
        return False

    @property
    def optimum(self) -> float | None:
        """The best known return."""
        return None

    def totals(self, world: AbstractEnv) -> dict[str, tuple[str, ...]]:
        """What is summed in every evaluated episode: the names of entries of `info`, and the
        columns of the log for the numbers in each.
        """
        assert isinstance(world, GridWorld | RandomLayouts)
        return {"events": tuple(f"event_{name}" for name in world.event_names)}

    def draw(self, world: AbstractEnv, states: PyTree, scores: Sequence[float]) -> bytes:
        """A GIF of an episode.

        **Arguments:**

        - `world`: what `build` gave.
        - `states`: its states, which lead with a time axis.
        - `scores`: the return before each state.
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
        """Worlds outside of training, by name, in which the final policy is evaluated, too."""
        return {}

    def remarks(self) -> tuple[str, ...]:
        """Sentences that are printed before a run begins."""
        return ()

    def obstacle(self) -> str | None:
        """The reason why no reward can be earned, if there is one."""
        return None

    def check(self) -> None:  # noqa: B027 (most worlds need none)
        """**Raises:** `UsageError` when the settings cannot go together."""


def files_among(layouts: Iterable[str], names: Container[str]) -> tuple[str, ...]:
    """The layouts that are neither among the names nor texts."""
    return tuple(x for x in layouts if x not in names and "\n" not in x.strip())


def check_same_game(
    name: str, world: AbstractWorldConfig, other_name: str, other_world: AbstractWorldConfig
) -> None:
    """Refuses a team whose policies were trained in different games; layouts may differ.

    **Arguments:**

    - `name`, `other_name`: what a person calls the two policies.
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
