"""The settings of the worlds with a common good, as flags."""

import dataclasses
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from agents import PPO
from eqgrid import AbstractEnv
from eqgrid.envs.commons import MEASURES, ORCHARDS, RIVERS, Cleanup, Harvest
from eqgrid.grid import GridWorld

from ._world_config import (
    NAME_OF_WORLD,
    AbstractWorldConfig,
    Horizon,
    RunSettings,
    Share,
    files_among,
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
