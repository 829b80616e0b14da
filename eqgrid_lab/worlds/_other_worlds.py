"""The settings of MiniGrid, of Harvest and Cleanup, and of bodies, as flags."""

import dataclasses
import importlib
import importlib.util
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from agents import PPO
from eqgrid import AbstractEnv, TimeLimit, unwrap
from eqgrid.envs.commons import MEASURES, ORCHARDS, RIVERS, Cleanup, Harvest
from eqgrid.envs.minigrid import ROOMS, MiniGrid
from eqgrid.grid import GridWorld
from eqgrid.typing import PyTree

from ..base import UsageError
from ._world_config import (
    NAME_OF_WORLD,
    AbstractWorldConfig,
    Horizon,
    RunSettings,
    Share,
    files_among,
)

_Option = Annotated[int, Meta(ge=0, le=127)]
_MISSIONS = {
    "unlock": "Pick up the key, face the door, and toggle it: whoever opens it ends the game.",
    "keycorridor": "Find the key, open the locked door, drop the key, and pick up the ball.",
    "doorkey": "Pick up the key, open the door, and go to the green goal.",
    "lavacrossing": "Go to the green goal, and not into the lava.",
    "dynamicobstacles": "Go to the green goal, and do not run into balls or walls.",
    "multiroom": "Open the doors, and go to the green goal.",
}


@dataclasses.dataclass(frozen=True)
class MiniGridWorld(AbstractWorldConfig):
    """Settings of the rooms of MiniGrid."""

    name: Annotated[Literal["minigrid"], NAME_OF_WORLD] = "minigrid"
    layout: Literal[
        "empty",
        "fourrooms",
        "doorkey",
        "unlock",
        "keycorridor",
        "lavacrossing",
        "dynamicobstacles",
        "multiroom",
    ] = "doorkey"
    """Room."""
    size: _Option = 0
    """Size of the grid, or of each of several rooms; 0 for the usual one."""
    crossings: _Option = 0
    """Rivers in lavacrossing; 0 for the usual number."""
    obstacles: _Option = 0
    """Balls in dynamicobstacles; 0 for the usual number."""
    rows: _Option = 0
    """Rows of rooms in keycorridor; 0 for the usual number."""
    rooms: _Option = 0
    """Rooms in multiroom; 0 for the usual number."""
    random_start: bool = False
    """Start anywhere in empty and dynamicobstacles, instead of in the corner."""
    num_agents: Annotated[int, Meta(ge=1, le=8)] = 1
    """Number of agents."""
    reward: Literal["shared", "individual"] = "shared"
    """Rewarded for a success: all agents, or the one whose it is."""
    horizon: Horizon | None = None
    """Length of an episode, in steps; by default that of MiniGrid."""
    view: Annotated[int, Meta(ge=3, le=127)] = 7
    """Side of the window that an agent sees, an odd number of cells."""
    observation: Literal["planes", "symbolic"] = "planes"
    """Planes, or MiniGrid's own numbers."""
    normalize_observation: bool = False
    """Normalise observations to mean 0 and variance 1."""
    run_settings: ClassVar[RunSettings] = {"total_steps": 2_000_000}
    has_shaped_reward = False

    def how_to_play(self, world: AbstractEnv) -> tuple[str, ...]:
        return (
            _MISSIONS.get(self.layout, "Go to the green goal."),
            "A success pays between 1 and 0.1, and more the sooner it comes.",
        )

    @property
    def known_layouts(self) -> tuple[str, ...]:
        return tuple(ROOMS)

    @property
    def title(self) -> str:
        size = f"-{self.size}" if self.size else ""
        return f"{self.layout}{size}" + (f"-{self.num_agents}p" if self.num_agents > 1 else "")

    @property
    def has_images(self) -> bool:
        return True

    @property
    def has_slow_resets(self) -> bool:
        # In other rooms, some episode of a batch ends in nearly every step, and nothing is saved.
        return self.layout in ("doorkey", "unlock", "keycorridor", "multiroom")

    def build(self, *, train: bool) -> GridWorld:
        return MiniGrid(
            self.layout,
            num_agents=self.num_agents,
            size=self.size or None,
            crossings=self.crossings or None,
            obstacles=self.obstacles or None,
            rows=self.rows or None,
            rooms=self.rooms or None,
            random_start=self.random_start or None,
            reward=self.reward,
            horizon=self.horizon,
            view=self.view,
            observation=self.observation,
        )


@dataclasses.dataclass(frozen=True)
class AbstractCommonsWorld(AbstractWorldConfig):
    """The settings that Harvest and Cleanup share, and what a run reports."""

    name: str = ""
    layout: str = ""
    num_agents: Annotated[int, Meta(ge=0, le=35)] = 0
    """Number of agents; 0 for that of the layout."""
    shared: bool = False
    """Every agent is paid what all earn, instead of what it eats."""
    zap_cost: float = 0.0
    """What a shot costs."""
    zapped_cost: float = 0.0
    """What being hit costs."""
    radius: Annotated[int, Meta(ge=1, le=127)] = 5
    """Half the side of the window that an agent sees, in cells."""
    horizon: Horizon = 1000
    """Length of an episode, in steps."""
    observation: Literal["planes"] = "planes"
    """A window of planes, turned the way the agent faces."""
    normalize_observation: bool = False
    """Normalise observations to mean 0 and variance 1."""
    run_settings: ClassVar[RunSettings] = {
        "ppo": PPO(
            num_epochs=2,
            gamma=0.997,
            normalize_values=True,
            entropy_coefficient=0.03,
            advantage_std_offset=0.1,
        )
    }
    known: ClassVar[tuple[str, ...]]
    """The names of the layouts."""
    has_shaped_reward = False
    threshold = 10

    @property
    def known_layouts(self) -> tuple[str, ...]:
        return self.known

    @property
    def layout_files(self) -> tuple[str, ...]:
        return files_among((self.layout,), self.known)

    def totals(self, world: AbstractEnv) -> dict[str, tuple[str, ...]]:
        return super().totals(world) | {name: (name,) for name in MEASURES}


@dataclasses.dataclass(frozen=True)
class HarvestWorld(AbstractCommonsWorld):
    """Settings of Harvest."""

    name: Annotated[Literal["harvest"], NAME_OF_WORLD] = "harvest"
    layout: str = "open"
    """open, small, or a file."""
    known = tuple(ORCHARDS)

    def how_to_play(self, world: AbstractEnv) -> tuple[str, ...]:
        whom = "everybody" if self.shared else "you"
        return (
            f"Walk onto an apple to eat it, which pays {whom} 1. Apples grow only where others are "
            "near: a patch that is eaten up stays empty.",
            "Whom your beam hits is away for some steps.",
        )

    def build(self, *, train: bool) -> GridWorld:
        return Harvest(
            self.layout,
            num_agents=self.num_agents or None,
            shared=self.shared,
            zap_cost=self.zap_cost,
            zapped_cost=self.zapped_cost,
            radius=self.radius,
            observation=self.observation,
            horizon=self.horizon,
        )


@dataclasses.dataclass(frozen=True)
class CleanupWorld(AbstractCommonsWorld):
    """Settings of Cleanup."""

    name: Annotated[Literal["cleanup"], NAME_OF_WORLD] = "cleanup"
    layout: str = "river"
    """river, small, or a file."""
    pollution: Share = 0.5
    """Probability per step that another cell of the river is polluted."""
    known = tuple(RIVERS)

    def how_to_play(self, world: AbstractEnv) -> tuple[str, ...]:
        whom = "everybody" if self.shared else "you"
        return (
            f"Walk onto an apple to eat it, which pays {whom} 1. Apples grow only while the river "
            "is clean enough: the cleaning beam removes pollution.",
            "Whom your zapping beam hits is away for some time.",
        )

    def build(self, *, train: bool) -> GridWorld:
        return Cleanup(
            self.layout,
            num_agents=self.num_agents or None,
            shared=self.shared,
            pollution=self.pollution,
            zap_cost=self.zap_cost,
            zapped_cost=self.zapped_cost,
            radius=self.radius,
            observation=self.observation,
            horizon=self.horizon,
        )


_TASKS = {"cartpole": ("balance", "swing_up"), "biped": ("balance", "walk", "reach")}


@dataclasses.dataclass(frozen=True)
class BodyWorld(AbstractWorldConfig):
    """Settings of a MuJoCo body and its task."""

    name: Annotated[Literal["body"], NAME_OF_WORLD] = "body"
    model: Literal["cartpole", "biped"] = "cartpole"
    """The body to control."""
    task: Literal["balance", "swing_up", "walk", "reach"] = "balance"
    """Task; swing_up is for the cartpole, walk and reach are for the biped."""
    horizon: Horizon = 500
    """Length of an episode, in steps."""
    normalize_observation: bool = True
    """Normalise observations to mean 0 and variance 1."""
    normalize_reward: bool = True
    """Divide rewards by the standard deviation of discounted returns."""
    run_settings: ClassVar[RunSettings] = {
        "ppo": PPO(rollout_length=64, learning_rate=1e-3, entropy_coefficient=0.003),
        "total_steps": 2_000_000,
        "num_envs": 128,
    }
    has_shaped_reward = False
    threshold = 50

    @property
    def title(self) -> str:
        return f"{self.model}-{self.task}"

    @property
    def has_images(self) -> bool:
        return False

    @property
    def optimum(self) -> float | None:
        return float(self.horizon) if self.title == "cartpole-balance" else None

    def check(self) -> None:
        if importlib.util.find_spec("mujoco") is None:
            raise UsageError("--env.name body needs MuJoCo MJX: pip install -e '.[mjx]'.")
        if self.task not in _TASKS[self.model]:
            raise UsageError(
                f"--env.task {self.task} is no task of the {self.model}: choose "
                f"{' or '.join(_TASKS[self.model])}."
            )

    def build(self, *, train: bool) -> AbstractEnv:
        make = {"cartpole": "CartPole", "biped": "Biped"}[self.model]
        return TimeLimit(getattr(_bodies(), make)(self.task), self.horizon)

    def totals(self, world: AbstractEnv) -> dict[str, tuple[str, ...]]:
        body: Any = unwrap(world)
        return {name: (f"eval_{name}",) for name in (*body.rewards, *body.measures)}

    def draw(self, world: AbstractEnv, states: PyTree, scores: Sequence[float]) -> bytes:
        body: Any = unwrap(world)
        return body.render_episode(states, captions=[f"{score:.1f}" for score in scores])


def _bodies() -> Any:
    """The module of bodies, imported on first use, since MuJoCo is slow to import.

    **Raises:** `UsageError` when a part of MuJoCo cannot be imported.
    """
    try:
        return importlib.import_module("eqgrid.envs.bodies")
    except ImportError as error:
        raise UsageError(f"--env.name body cannot be used: {error}") from error
