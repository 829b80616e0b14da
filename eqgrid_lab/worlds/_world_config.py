"""`AbstractWorldConfig`, the interface of the settings of all worlds."""

import abc
import dataclasses
import math
from collections.abc import Container, Iterable, Sequence
from typing import Annotated, Any, ClassVar, TypeAlias, TypedDict

import equinox as eqx
import jax
import tyro
from msgspec import Meta

from agents import PPO
from eqgrid import AbstractEnv, first_timestep, unwrap
from eqgrid.grid import GridWorld, RandomLayouts
from eqgrid.typing import PyTree

from ..base import UsageError
from ..show import caption

Horizon: TypeAlias = Annotated[int, Meta(ge=1, le=100_000)]
"""Length of an episode, in steps."""
NumAgents: TypeAlias = Annotated[int, Meta(ge=1, le=35)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]


NAMES_OF_WORLDS = (
    *("overcooked", "overcooked_v2", "foraging", "warehouse", "rescue", "minigrid", "goals"),
    *("harvest", "cleanup", "body"),
)
"""The names of all worlds of eqgrid, in the order of `WORLDS`."""
NAME_OF_WORLD: Any = tyro.conf.arg(
    metavar="NAME",
    help=f"World: {', '.join(NAMES_OF_WORLDS)}, LIBRARY:NAME for one of another library, or "
    "MODULE:NAME for your own. Each has settings of its own: see --env.name NAME --help.",
)
"""The help of `--env.name`."""


class RunSettings(TypedDict, total=False):
    """Settings of a run whose defaults a world can replace."""

    ppo: PPO
    total_steps: int
    num_envs: int
    width: int
    shaping_steps: int
    agent_id: bool


class AbstractWorldConfig(abc.ABC):
    """The settings of a world, from which it is built.

    What is fixed for a world is a class attribute. What depends on its settings is a property or a
    method.
    """

    name: Any
    layout: Any
    horizon: Any  # in steps, or None if the world itself limits its episodes
    observation: Any
    normalize_observation: bool
    normalize_reward: bool = False
    only_in_training: ClassVar[tuple[str, ...]] = ()
    """The names of settings that affect only training."""
    run_settings: ClassVar[RunSettings] = {}
    """The defaults of a run in this world that differ from those of `Experiment`."""
    has_shaped_reward: ClassVar[bool] = True
    """Whether there is a shaped reward."""
    has_film: ClassVar[bool] = True
    """Whether a film of an episode can be drawn."""
    threshold: ClassVar[float] = 0.1
    """The distance between the return thresholds in `result.json`."""

    def as_judged(self) -> "AbstractWorldConfig":
        """The same settings, with defaults for those that affect only training."""
        own: Any = self
        defaults = {field.name: field.default for field in dataclasses.fields(own)}
        return dataclasses.replace(own, **{name: defaults[name] for name in self.only_in_training})

    @property
    def title(self) -> str:
        """The name of the layout, or another short description; runs are named after it."""
        return self.layout

    @abc.abstractmethod
    def build(self, *, train: bool) -> AbstractEnv:
        """Builds the world.

        **Arguments:**

        - `train`: whether it is for training or for evaluation.

        **Raises:** `ValueError` when the settings are invalid.
        """

    @property
    def rules(self) -> str | None:
        """The name of the rules, if the world has several sets of rules."""
        return None

    @property
    def layout_files(self) -> tuple[str, ...]:
        """The layouts that are paths of files, rather than names or texts."""
        return ()

    @property
    def known_layouts(self) -> tuple[str, ...]:
        """The names of layouts that a person can choose instead."""
        return ()

    def how_to_play(self, world: AbstractEnv) -> tuple[str, ...]:
        """Sentences that say what people do in the world, and what pays.

        **Arguments:**

        - `world`: a world that `build` has returned.
        """
        return ()

    @property
    def has_images(self) -> bool:
        """Whether observations are images, which a convolutional network can process."""
        return self.observation == "planes"

    @property
    def has_slow_resets(self) -> bool:
        """Whether resets are slow, so that they should run only when an episode ends."""
        return False

    @property
    def optimum(self) -> float | None:
        """The best known return."""
        return None

    def totals(self, world: AbstractEnv) -> dict[str, tuple[str, ...]]:
        """The entries of `info` that are summed over evaluation episodes.

        **Arguments:**

        - `world`: a world that `build` has returned.

        **Returns:** for each entry, the columns of the log for its numbers.
        """
        grid = unwrap(world)
        assert isinstance(grid, GridWorld | RandomLayouts)
        return {"events": tuple(f"event_{name}" for name in grid.event_names)}

    def draw(self, world: AbstractEnv, states: PyTree, scores: Sequence[float]) -> bytes:
        """A GIF of an episode.

        **Arguments:**

        - `world`: a world that `build` has returned.
        - `states`: its states, with a leading time axis.
        - `scores`: the return so far in each state.
        """
        grid = unwrap(world)
        assert isinstance(grid, GridWorld | RandomLayouts)
        return grid.render_episode(
            states,
            captions=[caption(score) for score in scores],
            cell_pixels=min(64, max(16, 1024 // max(grid.shape))),  # 16 is the smallest
        )

    def parts(self) -> dict[str, RandomLayouts]:
        """The worlds of a mixture of layouts, by name; empty for a single layout."""
        return {}

    def zero_shot(self) -> dict[str, RandomLayouts]:
        """Worlds that are not used in training, by name, for evaluating the final policy."""
        return {}

    def remarks(self) -> tuple[str, ...]:
        """Remarks about the world that are printed before a run starts."""
        return ()

    def obstacle(self) -> str | None:
        """The reason for which no reward can be obtained, if there is one."""
        return None

    def check(self) -> None:  # noqa: B027 (most worlds need none)
        """Checks the settings. **Raises:** `UsageError` when they contradict one another."""


def columns_of(world: AbstractEnv, name: str) -> tuple[str, ...]:
    """The columns of the log for the sums of an entry of `info` over an episode.

    **Arguments:**

    - `world`: the world.
    - `name`: the name of the entry.

    **Returns:** one column for each number of the entry; for each number of an agent, if it leads
    with the agents.

    **Raises:** `ValueError` when the world has no such entry.
    """
    info = eqx.filter_eval_shape(first_timestep, world, jax.random.key(0)).info
    if name not in info:
        known = ", ".join(sorted(info)) or "none"
        raise ValueError(f"--log-info {name}: the world has no such entry of info; it has {known}.")
    shape = info[name].shape
    count = math.prod(shape[1:] if shape[:1] == (world.num_agents,) else shape)
    return tuple(f"info_{name}" + f"_{i}" * (count > 1) for i in range(count))


def files_among(layouts: Iterable[str], names: Container[str]) -> tuple[str, ...]:
    """The layouts that are paths of files: neither known names nor texts of several lines.

    **Arguments:**

    - `layouts`: the layouts.
    - `names`: the known names.
    """
    return tuple(x for x in layouts if x not in names and "\n" not in x.strip())


def check_same_world(name: str, world: str, other_name: str, other_world: str) -> None:
    """Checks that two policies of a team were trained in worlds of the same name.

    **Arguments:** as in `check_same_game`, but the names of the worlds.

    **Raises:** `UsageError` when the names differ.
    """
    if other_world != world:
        raise UsageError(
            f"{name} was trained in {world:.200}, but {other_name} in {other_world:.200}: "
            "policies of one team need one world."
        )


def check_same_game(
    name: str, world: AbstractWorldConfig, other_name: str, other_world: AbstractWorldConfig
) -> None:
    """Checks that two policies of a team were trained in the same world; layouts may differ.

    **Arguments:**

    - `name`, `other_name`: the names of the two policies in the error message.
    - `world`, `other_world`: the world in which each of them was trained.

    **Raises:** `UsageError` when the worlds or their rules differ.
    """
    check_same_world(name, world.name, other_name, other_world.name)
    if other_world.rules != world.rules:
        raise UsageError(
            f"{name} was trained with the rules {world.rules!r}, but {other_name} with "
            f"{other_world.rules!r}: policies of one team need the same rules."
        )
