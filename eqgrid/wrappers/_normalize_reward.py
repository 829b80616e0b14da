"""NormalizeReward: scales rewards by the standard deviation of the discounted return."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray, Real, Shaped

from .._checks import as_clip, as_epsilon, as_number
from .._env import (
    AbstractEnv,
    AbstractVectorEnv,
    AbstractVectorWrapper,
    AbstractWrapperState,
    TimeStep,
)
from .._moments import RunningMoments
from ..typing import PyTree
from ._nesting import check_vector_env, contains_wrapper


@final
class NormalizeRewardState(AbstractWrapperState):
    """The running discounted returns and their moments, the agents that have not terminated, and
    the inner state.
    """

    env_state: PyTree
    discounted_return: Float[Array, "envs agents"]
    active: Bool[Array, "envs agents"]
    moments: RunningMoments


@final
class NormalizeReward(AbstractVectorWrapper):
    """Divides the reward by the standard deviation of the running discounted return.

    With `g <- gamma * g + reward`, kept per environment and agent and set to 0 where an episode
    ends, the reward becomes `clip(reward / sqrt(variance(g) + epsilon), -clip, clip)`. The variance
    is shared by all environments and agents, and excludes agents that have terminated (Engstrom et
    al. 2020, "Implementation Matters in Deep Policy Gradients", section 3). The mean is not
    subtracted. `LogEpisodes` is inside this wrapper, so the logged returns are unscaled.

    ```python
    from eqgrid import AutoReset, LogEpisodes, NormalizeReward, Vectorize, make

    envs = NormalizeReward(Vectorize(AutoReset(LogEpisodes(make("overcooked"))), 64), gamma=0.99)
    ```

    **Arguments:**

    - `env`: a vector environment.
    - `gamma`: the discount factor of the learner, from 0 to 1.
    - `epsilon`: added to the variance.
    - `clip`: the largest magnitude; `jnp.inf` for no clipping.

    **Raises:** `ValueError` for a wrong nesting or a number out of range. Traced numbers are not
    checked.
    """

    env: AbstractVectorEnv
    gamma: Float[Array, ""]
    epsilon: Float[Array, ""]
    clip: Float[Array, ""]

    def __init__(
        self,
        env: AbstractEnv | AbstractVectorEnv,
        gamma: Real[ArrayLike, ""] = 0.99,
        epsilon: Real[ArrayLike, ""] = 1e-8,
        clip: Real[ArrayLike, ""] = 10.0,
    ):
        self.env = check_vector_env(env, "NormalizeReward(env)")
        if contains_wrapper(self.env, NormalizeReward):
            raise ValueError("One NormalizeReward is enough: NormalizeReward(env, gamma).")
        needs = "NormalizeReward needs a gamma from 0 to 1"
        self.gamma = as_number(gamma, float, lambda x: 0 <= x <= 1, needs)
        self.epsilon = as_epsilon(epsilon, "NormalizeReward")
        self.clip = as_clip(clip, "NormalizeReward")

    def reset(
        self, key: PRNGKeyArray
    ) -> tuple[PyTree[Shaped[Array, "envs agents ..."]], NormalizeRewardState]:
        observation, env_state = self.env.reset(key)
        state = NormalizeRewardState(
            env_state=env_state,
            discounted_return=jnp.zeros((self.num_envs, self.num_agents), dtype=float),
            active=jnp.ones((self.num_envs, self.num_agents), bool),
            moments=RunningMoments.empty(()),
        )
        return observation, state

    def step(
        self,
        key: PRNGKeyArray,
        state: NormalizeRewardState,
        action: Shaped[Array, "envs agents ..."],
    ) -> tuple[TimeStep, NormalizeRewardState]:
        timestep, env_state = self.env.step(key, state.env_state, action)
        discounted_return = self.gamma * state.discounted_return + timestep.reward
        moments = state.moments.update(discounted_return.reshape(-1), state.active.reshape(-1))
        scaled = timestep.reward / jnp.sqrt(moments.variance + self.epsilon)
        state = NormalizeRewardState(
            env_state=env_state,
            discounted_return=jnp.where(timestep.done[:, None], 0.0, discounted_return),
            active=timestep.acts_next,
            moments=moments,
        )
        reward = jnp.clip(scaled, -self.clip, self.clip)
        return eqx.tree_at(lambda t: t.reward, timestep, reward), state

    def observe(self, state: NormalizeRewardState) -> PyTree[Shaped[Array, "envs agents ..."]]:
        return self.env.observe(state.env_state)
