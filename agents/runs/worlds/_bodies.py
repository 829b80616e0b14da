"""The settings of worlds with a MuJoCo body."""

import dataclasses
import importlib
import importlib.util
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from agents import PPO
from agents.runs.display._errors import UsageError
from eqgrid import AbstractEnv, PyTree, TimeLimit, unwrap

from ._world_config import NAME_OF_WORLD, AbstractWorldConfig, Horizon, RunSettings

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
