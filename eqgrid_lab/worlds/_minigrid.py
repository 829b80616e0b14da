"""The settings of the rooms of MiniGrid, as flags."""

import dataclasses
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from eqgrid import AbstractEnv
from eqgrid.envs.minigrid import ROOMS, MiniGrid
from eqgrid.grid import GridWorld

from ._world_config import NAME_OF_WORLD, AbstractWorldConfig, Horizon, RunSettings

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
