"""Scheduled: changes a number of an environment while it is stepped."""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, Shaped

from .._env import AbstractEnv, AbstractVectorEnv, AbstractWrapper, AbstractWrapperState, TimeStep
from .._types import PyTree
from ._nesting import check_single_env


@final
class ScheduledState(AbstractWrapperState):
    """The number of steps since `reset` was called, over all episodes, and the inner state."""

    env_state: PyTree
    count: Int[Array, ""]


@final
class Scheduled(AbstractWrapper):
    """Sets a number of the environment inside to `schedule(count)`, such as the share of episodes
    that have a partner.

    `count` is the number of steps of this one environment, the current one included, over all its
    episodes: a batch of `n` environments takes `n` steps while `count` rises by 1. It must not
    restart with an episode, so this wrapper goes outside `AutoReset`.

    ```python
    from eqgrid import AutoReset, LinearSchedule, RandomPartner, OneOf, Scheduled, WithPartner, make

    world = make("overcooked")
    one = AutoReset(WithPartner(world, OneOf([RandomPartner(world.action_space)])))
    env = Scheduled(one, lambda env: env.env.share, LinearSchedule(0.0, 1.0, 10_000))
    ```

    **Arguments:**

    - `env`: a single environment.
    - `where`: picks the number, a scalar array, out of `env`, as in `equinox.tree_at`. Environments
        with the same function share compiled programs, and a function of a module can be pickled.
    - `schedule`: the number as a function of `count` (an Int scalar), for example a
        `LinearSchedule`.

    **Raises:** `ValueError` for a wrong nesting, or if `where` picks no scalar array.
    """

    env: AbstractEnv
    where: Callable[[Any], Any] = eqx.field(static=True)
    schedule: Callable[[Int[Array, ""]], Any]

    def __init__(
        self,
        env: AbstractEnv | AbstractVectorEnv,
        where: Callable[[Any], Any],
        schedule: Callable[[Int[Array, ""]], Any],
    ):
        self.env = check_single_env(env, "Scheduled(env, where, schedule)")
        number = where(self.env)
        if not isinstance(number, jax.Array) or number.shape != ():
            raise ValueError(
                "Scheduled needs a function that picks a scalar array out of the environment, but "
                f"it returns {number!r:.60}."
            )
        self.where, self.schedule = where, schedule

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], PyTree]:
        count = jnp.zeros((), dtype=int)
        observation, env_state = self._at(count).reset(key)
        return observation, ScheduledState(env_state=env_state, count=count)

    def step(
        self, key: PRNGKeyArray, state: ScheduledState, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, ScheduledState]:
        count = state.count + 1
        timestep, env_state = self._at(count).step(key, state.env_state, action)
        return timestep, ScheduledState(env_state=env_state, count=count)

    def observe(self, state: ScheduledState) -> PyTree[Shaped[Array, "agents ..."]]:
        return self._at(state.count).observe(state.env_state)

    def _at(self, count: Int[Array, ""]) -> AbstractEnv:
        """The environment at a number of steps."""
        # A schedule is user code; optax's own schedules mix integers and floats.
        with jax.numpy_dtype_promotion("standard"):
            number = jnp.asarray(self.schedule(count), dtype=self.where(self.env).dtype)
        return eqx.tree_at(self.where, self.env, number)
