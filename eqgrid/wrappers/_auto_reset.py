"""AutoReset: resets an environment when its episode ends."""

import dataclasses
from typing import final

import equinox as eqx
import jax
from jaxtyping import Array, PRNGKeyArray, Shaped

from .._checks import check_leading, check_state, check_timestep
from .._env import AbstractEnv, AbstractVectorEnv, AbstractWrapper, TimeStep, unwrap, unwrap_state
from .._functions import batched_cond, select
from ..typing import PyTree
from ._nesting import check_single_env, contains_wrapper
from ._shaped_reward import Scheduled, ShapedReward


class AbstractAutoReset(AbstractWrapper):
    """A wrapper whose `step` resets the environment on the same step on which an episode ends.

    No other environment or wrapper resets by itself. On the last step of an episode, `observation`
    is the first observation of the next episode, and `final_observation` is the last one of the
    episode that ended; all other fields of the timestep belong to the episode that ended. The state
    that `step` returns is that of the next episode. On all other steps, `step` returns what the
    inner environment does.

    Other wrappers, rollouts, evaluations and adapters accept any subclass as they do `AutoReset`.
    """


@final
class AutoReset(AbstractAutoReset):
    """Resets the environment on the same step on which an episode ends.

    `observation` is recomputed from the state after the reset, so under `jit` the final observation
    costs nothing if it is not used.

    By default a reset is computed in every step and selected where it is needed, which is what
    happens under `vmap` in any case. With `lazy`, it is computed only in steps in which an episode
    ends somewhere in the batch. AutoReset has no state of its own: its state is the inner state.

    ```python
    from eqgrid import AutoReset, LogEpisodes, make

    env = AutoReset(LogEpisodes(make("overcooked")))
    ```

    **Arguments:**

    - `env`: a single environment, including all wrappers whose state must be reset with an episode.
    - `lazy`: whether to skip resets that are not needed. It is faster where a reset is expensive,
        as with random initial states, and episodes end together. The results are the same, but a
        lazy step does not support reverse-mode differentiation.

    **Raises:** `ValueError` for a wrong nesting.
    """

    env: AbstractEnv
    lazy: bool = eqx.field(static=True)

    def __init__(self, env: AbstractEnv | AbstractVectorEnv, lazy: bool = False):
        self.lazy = lazy
        self.env = check_single_env(env, "AutoReset(env)")
        if contains_wrapper(self.env, AbstractAutoReset):
            raise ValueError("One AutoReset is enough: AutoReset(env).")
        for kind, more in ((ShapedReward, ""), (Scheduled, "where, ")):
            if contains_wrapper(self.env, kind):
                raise ValueError(
                    f"{kind.__name__} must be outside AutoReset, which would restart its schedule "
                    f"with every episode: {kind.__name__}(AutoReset(env), {more}schedule)."
                )

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], PyTree]:
        observation, state = self.env.reset(key)
        check_leading((self.num_agents,), observation=observation)
        check_state(unwrap(self.env), unwrap_state(state))
        return observation, state

    def step(
        self, key: PRNGKeyArray, state: PyTree, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, PyTree]:
        step_key, reset_key = jax.random.split(key)
        timestep, stepped = self.env.step(step_key, state, action)
        check_timestep((self.num_agents,), timestep)
        choose = batched_cond if self.lazy else select
        arrays = choose(timestep.done, _restart, _go_on, self.env, reset_key, stepped)
        state = eqx.combine(arrays, stepped)  # leaves that are not arrays, such as functions, stay
        observation = self.env.observe(state)
        check_leading((self.num_agents,), observation=observation)
        return dataclasses.replace(timestep, observation=observation), state

    def observe(self, state: PyTree) -> PyTree[Shaped[Array, "agents ..."]]:
        return self.env.observe(state)


def _restart(env: AbstractEnv, key: PRNGKeyArray, stepped: PyTree) -> PyTree:
    return eqx.filter(env.reset(key)[1], eqx.is_array_like)


def _go_on(env: AbstractEnv, key: PRNGKeyArray, stepped: PyTree) -> PyTree:
    return eqx.filter(stepped, eqx.is_array_like)
