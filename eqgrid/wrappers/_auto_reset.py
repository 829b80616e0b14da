"""AutoReset: starts the next episode where one ends."""

import dataclasses
from typing import final

import equinox as eqx
import jax
from jaxtyping import Array, PRNGKeyArray, PyTree, Shaped

from .._checks import check_state
from .._cond import batched_cond, select
from .._env import AbstractEnv, AbstractVectorEnv, AbstractWrapper, TimeStep, unwrap, unwrap_state
from ._nesting import check_single_env, contains_wrapper
from ._shaped_reward import ShapedReward


@final
class AutoReset(AbstractWrapper):
    """Resets on the very step on which an episode ends. The only thing that resets.

    The timestep's `observation` is what to act on next, so after an end it opens the new episode;
    its `final_observation` is what the action led to. Everything else in it speaks of the episode
    that ended. `observation` is computed once, from the state that was kept, so the final one costs
    nothing in a compiled program that does not read it.

    A reset is computed on every step and kept where it is needed, since that is what a batch does
    anyway; a lazy one only on steps on which an episode ends anywhere in the batch. AutoReset
    remembers nothing: its state is that of the environment in it.

    **Arguments:**

    - `env`: one environment, with all the wrappers in it whose state belongs to an episode.
    - `lazy`: pays where a reset is expensive, as when it draws a random start, and where episodes
        end together. Nothing else changes, but a lazy step cannot be differentiated backwards.

    **Raises:** `ValueError` for a wrong nesting.
    """

    env: AbstractEnv
    lazy: bool = eqx.field(static=True)

    def __init__(self, env: AbstractEnv | AbstractVectorEnv, lazy: bool = False):
        self.lazy = lazy
        self.env = check_single_env(env, "AutoReset(env)")
        if contains_wrapper(self.env, AutoReset):
            raise ValueError("One AutoReset is enough: AutoReset(env).")
        if contains_wrapper(self.env, ShapedReward):
            raise ValueError(
                "ShapedReward must be outside AutoReset, which would restart its schedule with "
                "every episode: ShapedReward(AutoReset(env), schedule)."
            )

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], PyTree]:
        observation, state = self.env.reset(key)
        check_state(unwrap(self.env), unwrap_state(state))
        return observation, state

    def step(
        self, key: PRNGKeyArray, state: PyTree, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, PyTree]:
        step_key, reset_key = jax.random.split(key)
        timestep, stepped = self.env.step(step_key, state, action)
        choose = batched_cond if self.lazy else select
        arrays = choose(timestep.done, _restart, _go_on, self.env, reset_key, stepped)
        state = eqx.combine(arrays, stepped)  # what is no array, such as a function, never changes
        return dataclasses.replace(timestep, observation=self.env.observe(state)), state

    def observe(self, state: PyTree) -> PyTree[Shaped[Array, "agents ..."]]:
        return self.env.observe(state)


def _restart(env: AbstractEnv, key: PRNGKeyArray, stepped: PyTree) -> PyTree:
    return eqx.filter(env.reset(key)[1], eqx.is_array_like)


def _go_on(env: AbstractEnv, key: PRNGKeyArray, stepped: PyTree) -> PyTree:
    return eqx.filter(stepped, eqx.is_array_like)
