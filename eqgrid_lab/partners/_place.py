"""`Place`: a world in which partners act."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Self

import jax.numpy as jnp
from jaxtyping import Array, Int32

from agents import PolicyWorld, describe_wrappers
from eqgrid import AbstractEnv, MultiDiscrete, unwrap
from eqgrid.grid import AbstractGridWorld, RandomLayouts, Stay, by_choice

from ..base import Table, UsageError
from ..worlds import WorldSettings, world_of_policy


@dataclasses.dataclass(frozen=True, eq=False)
class Place:
    """A world in which partners act, with the observations that they get.

    **Arguments:**

    - `settings`: the settings of the world.
    - `world`: the world as `settings.build` returns it.
    - `env`: the world in wrappers that change its observations.
    - `wrappers`: the description of these wrappers.
    """

    settings: WorldSettings
    world: AbstractEnv
    env: AbstractEnv
    wrappers: list[Table]

    @classmethod
    def of(
        cls,
        settings: WorldSettings,
        observe: Callable[[AbstractEnv], AbstractEnv] = lambda world: world,
        world: AbstractEnv | None = None,
    ) -> Self:
        """The world of an evaluation.

        **Arguments:**

        - `settings`: the settings of the world.
        - `observe`: wraps the world so that it returns the observations.
        - `world`: a world to use instead of `settings.build(train=False)`.

        **Raises:** `ValueError` when the settings are invalid, or a wrapper cannot be described.
        """
        world = settings.build(train=False) if world is None else world
        env = observe(world)
        return cls(settings, world, env, describe_wrappers(env, world))

    @property
    def policy_world(self) -> PolicyWorld:
        """The world as the file of a policy names it."""
        return PolicyWorld(*world_of_policy(self.settings), self.wrappers)

    @property
    def observation(self) -> tuple[Any, ...]:
        """What determines the observations."""
        return self.settings.observation, self.wrappers

    @property
    def grid(self) -> AbstractGridWorld:
        """The grid world inside all wrappers and `RandomLayouts`.

        **Raises:** `UsageError` when the world is not a grid world.
        """
        inner = unwrap(self.world)
        grid = inner.env if isinstance(inner, RandomLayouts) else inner
        if not isinstance(grid, AbstractGridWorld):
            raise UsageError(f"The world {self.settings.name:.60} is not a grid world.")
        return grid

    @functools.cached_property
    def idle(self) -> Int32[Array, "*choices"]:
        """The action of an agent that does nothing: to stay if the world has this action, and
        otherwise -1, which does nothing in a grid world.
        """
        idle = [
            next((i for i, action in enumerate(choice) if isinstance(action, Stay)), -1)
            for choice in by_choice(self.grid.actions)
        ]
        several = isinstance(self.env.action_space, MultiDiscrete)
        return jnp.asarray(idle if several else idle[0], jnp.int32)
