"""AutoReset: starts the next episode where one ends."""

import dataclasses
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PRNGKeyArray, PyTree, Shaped

from ._env import AbstractEnv, AbstractVectorEnv, AbstractWrapper, TimeStep
from ._nesting import holds, one_env
from ._shaped_reward import ShapedReward


@final
class AutoReset(AbstractWrapper):
    """Resets on the very step on which an episode ends. The only thing that resets.

    The timestep's `observation` is what to act on next, so after an end it opens the new episode;
    its `final_observation` is what the action led to. Everything else in it speaks of the episode
    that ended. `observation` is computed once, from the state that was kept, so the final one costs
    nothing in a compiled program that does not read it.

    A reset is computed on every step and kept where it is needed, since that is what a batch does
    anyway. AutoReset remembers nothing: its state is that of the environment in it.

    **Arguments:**

    - `env`: one environment, with all the wrappers in it whose state belongs to an episode.

    **Raises:** `ValueError` for a wrong nesting.
    """

    env: AbstractEnv

    def __init__(self, env: AbstractEnv | AbstractVectorEnv):
        self.env = one_env(env, "AutoReset(env)")
        if holds(self.env, AutoReset):
            raise ValueError("One AutoReset is enough: AutoReset(env).")
        if holds(self.env, ShapedReward):
            raise ValueError(
                "ShapedReward must be outside AutoReset, which would restart its schedule with "
                "every episode: ShapedReward(AutoReset(env), schedule)."
            )

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], PyTree]:
        return self.env.reset(key)

    def step(
        self, key: PRNGKeyArray, state: PyTree, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, PyTree]:
        step_key, reset_key = jax.random.split(key)
        timestep, stepped = self.env.step(step_key, state, action)
        _, fresh = self.env.reset(reset_key)
        state = _select(timestep.done, fresh, stepped)
        return dataclasses.replace(timestep, observation=self.env.observe(state)), state

    def observe(self, state: PyTree) -> PyTree[Shaped[Array, "agents ..."]]:
        return self.env.observe(state)


def _select(condition: Bool[Array, ""], yes: PyTree, no: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: _select_leaf(condition, a, b), yes, no)


def _select_leaf(condition: Bool[Array, ""], yes: Any, no: Any) -> Any:
    # `jnp.where` also takes typed PRNG keys. What is no array, such as a function, never changes.
    return jnp.where(condition, yes, no) if eqx.is_array_like(no) else no
