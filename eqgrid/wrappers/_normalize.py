"""Wrappers that normalise observations and rewards with running moments: means and variances."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray, Real, Shaped

from .._checks import as_clip, as_epsilon, as_number
from .._env import (
    AbstractVectorWrapper,
    AbstractWrapperState,
    Environment,
    TimeStep,
    VectorEnvironment,
)
from .._env_checks import check_own_state, check_vector_env, step_env
from .._moments import RunningMoments
from .._spaces import map_observation, split_mask
from ..typing import PyTree
from ._nesting import contains_wrapper


@final
class NormalizeObservationState(AbstractWrapperState):
    """The state of `NormalizeObservation`.

    - `env_state`: the inner state.
    - `moments`: the moments with which the last observation was normalised.
    - `raw`: the last observation and final observation before normalisation; `None` unless
        `keep_raw`.
    """

    env_state: PyTree
    moments: PyTree[RunningMoments]
    raw: tuple[PyTree[Shaped[Array, "..."]], PyTree[Shaped[Array, "..."]]] | None = None


@final
class NormalizeObservation(AbstractVectorWrapper):
    """Normalises observations to `clip((x - mean) / sqrt(variance + epsilon), -clip, clip)`.

    Each array of the observation has one set of moments, with the shape of one agent's array. All
    environments and agents share it. Each batch of observations is first added to the moments, and
    then normalised with them. Final observations, and observations of agents that have terminated,
    are not added. Observations are not normalised again later, so the policy and the learner use
    the same values. The result is floating-point for all dtypes of observations. The mask of a
    `Masked` observation stays the same.

    With `keep_raw`, a replay buffer can store raw observations (see `raw`), and normalise its
    samples with the current moments (see `normalize`).

    For evaluation, `freeze` the moments:
    `evaluation = NormalizeObservation(other_envs).freeze(state)` normalises with the moments in
    `state` and never updates them.

    ```python
    from eqgrid import AutoReset, LogEpisodes, NormalizeObservation, Vectorize, make

    one = AutoReset(LogEpisodes(make("overcooked", observation="features")))
    envs = NormalizeObservation(Vectorize(one, 64))
    ```

    **Arguments:**

    - `env`: a vector environment.
    - `epsilon`: added to the variance.
    - `clip`: the largest magnitude; `jnp.inf` for no clipping.
    - `moments`: the moments with which `reset` starts; by default, the moments of no samples.
    - `frozen`: whether `moments` stay the same in every reset and step.
    - `keep_raw`: whether the state keeps the last raw observations, for `raw`.

    **Raises:** `ValueError` for a wrong nesting, if `frozen` without `moments`, or for a number out
    of range. Traced numbers are not checked.
    """

    env: VectorEnvironment
    epsilon: Float[Array, ""]
    clip: Float[Array, ""]
    moments: PyTree[RunningMoments] | None
    frozen: bool = eqx.field(static=True)
    keep_raw: bool = eqx.field(static=True)

    def __init__(
        self,
        env: Environment | VectorEnvironment,
        epsilon: Real[ArrayLike, ""] = 1e-8,
        clip: Real[ArrayLike, ""] = 10.0,
        *,
        moments: PyTree[RunningMoments] | None = None,
        frozen: bool = False,
        keep_raw: bool = False,
    ):
        self.env = check_vector_env(env, "NormalizeObservation(env)")
        if contains_wrapper(self.env, NormalizeObservation):
            raise ValueError("One NormalizeObservation is enough: NormalizeObservation(env).")
        if frozen and moments is None:
            raise ValueError("NormalizeObservation has no moments to freeze: pass `moments`.")
        self.epsilon = as_epsilon(epsilon, "NormalizeObservation")
        self.clip = as_clip(clip, "NormalizeObservation")
        self.moments = moments
        self.frozen = frozen
        self.keep_raw = keep_raw

    def freeze(self, state: PyTree) -> "NormalizeObservation":
        """This wrapper with the moments of `state`, which no reset or step updates.

        **Arguments:**

        - `state`: the state of any stack that contains a `NormalizeObservation`, such as the
            state of the training environments. The number of environments may differ.

        **Returns:** a new wrapper, whose moments are array leaves. They are copied, so that the
        wrapper stays valid when `state` is donated to a compiled function.

        **Raises:** `ValueError` when `state` contains no moments.
        """
        moments = jax.tree.map(jnp.copy, _find_state(state, "freeze").moments)
        return self._with(moments, frozen=True)

    def thaw(self) -> "NormalizeObservation":
        """This wrapper with moments that are updated again, starting from the current moments."""
        return self._with(self.moments, frozen=False)

    def normalize(
        self, state: PyTree, observation: PyTree[Shaped[Array, "envs agents ..."]]
    ) -> PyTree[Shaped[Array, "envs agents ..."]]:
        """Normalises observations with the moments of a state.

        **Arguments:**

        - `state`: the state of any stack that contains a `NormalizeObservation`.
        - `observation`: raw observations, such as a batch of stored ones; their number may differ
            from the number of environments.

        **Returns:** the normalised observations.

        **Raises:** `ValueError` when `state` contains no moments.
        """
        return self._normalize(_find_state(state, "normalize").moments, observation)

    def raw(
        self, state: PyTree
    ) -> tuple[PyTree[Shaped[Array, "envs agents ..."]], PyTree[Shaped[Array, "envs agents ..."]]]:
        """The last observations before normalisation.

        **Arguments:**

        - `state`: the state of any stack that contains a `NormalizeObservation` with `keep_raw`.

        **Returns:** the observation and the final observation of the last step; after a reset, both
        are the first observation.

        **Raises:** `ValueError` when `state` contains no raw observations.
        """
        raw = _find_state(state, "raw").raw
        if raw is None:
            raise ValueError(
                "The state keeps no raw observations: use NormalizeObservation(env, keep_raw=True)."
            )
        return raw

    def reset(
        self, key: PRNGKeyArray
    ) -> tuple[PyTree[Shaped[Array, "envs agents ..."]], NormalizeObservationState]:
        observation, env_state = self.env.reset(key)
        start = self.moments
        if start is None:
            seen, _ = split_mask(observation)
            start = jax.tree.map(lambda x: RunningMoments.empty(x.shape[2:]), seen)
        # The moments of no samples are constants, with which XLA may round the returned observation
        # and the stored moments differently. With the barrier, `observe` returns the same bits as
        # `reset`.
        all_agents = jnp.ones((self.num_envs, self.num_agents), bool)
        moments = self._update(jax.lax.optimization_barrier(start), observation, all_agents)
        raw = (observation, jax.tree.map(jnp.copy, observation)) if self.keep_raw else None
        state = NormalizeObservationState(env_state=env_state, moments=moments, raw=raw)
        return self._normalize(moments, observation), state

    def step(
        self,
        key: PRNGKeyArray,
        state: NormalizeObservationState,
        action: Shaped[Array, "envs agents ..."],
    ) -> tuple[TimeStep, NormalizeObservationState]:
        check_own_state(self, NormalizeObservationState, state)
        timestep, env_state = step_env(self.env, key, state.env_state, action)
        before = self.moments if self.frozen else state.moments
        moments = self._update(before, timestep.observation, timestep.acts_next)
        normalized = (
            self._normalize(moments, timestep.observation),
            self._normalize(moments, timestep.final_observation),
        )
        raw = (timestep.observation, timestep.final_observation) if self.keep_raw else None
        timestep = eqx.tree_at(lambda t: (t.observation, t.final_observation), timestep, normalized)
        state = NormalizeObservationState(env_state=env_state, moments=moments, raw=raw)
        return timestep, state

    def observe(self, state: NormalizeObservationState) -> PyTree[Shaped[Array, "envs agents ..."]]:
        check_own_state(self, NormalizeObservationState, state)
        return self._normalize(state.moments, self.env.observe(state.env_state))

    def _with(
        self, moments: PyTree[RunningMoments] | None, *, frozen: bool
    ) -> "NormalizeObservation":
        return NormalizeObservation(
            self.env,
            self.epsilon,
            self.clip,
            moments=moments,
            frozen=frozen,
            keep_raw=self.keep_raw,
        )

    def _update(
        self,
        moments: PyTree[RunningMoments],
        observation: PyTree[Shaped[Array, "envs agents ..."]],
        counts: Bool[Array, "envs agents"],
    ) -> PyTree[RunningMoments]:
        if self.frozen:
            return moments

        def update(
            leaf: Shaped[Array, "envs agents *shape"], moments: RunningMoments
        ) -> RunningMoments:
            samples = leaf.astype(float).reshape(-1, *leaf.shape[2:])
            return moments.update(samples, counts.reshape(-1))

        return jax.tree.map(update, split_mask(observation)[0], moments)

    def _normalize(
        self,
        moments: PyTree[RunningMoments],
        observation: PyTree[Shaped[Array, "envs agents ..."]],
    ) -> PyTree[Shaped[Array, "envs agents ..."]]:
        return map_observation(
            lambda seen: jax.tree.map(self._normalize_leaf, seen, moments), observation
        )

    def _normalize_leaf(
        self, leaf: Shaped[Array, "envs agents *shape"], moments: RunningMoments
    ) -> Float[Array, "envs agents *shape"]:
        per_agent = jax.vmap(moments.standardize, in_axes=(0, None, None))
        per_env = jax.vmap(per_agent, in_axes=(0, None, None))
        return per_env(leaf.astype(float), self.epsilon, self.clip)


def _find_state(state: PyTree, method: str) -> NormalizeObservationState:
    """The state of the `NormalizeObservation` in the state of a stack of wrappers."""
    while isinstance(state, AbstractWrapperState):
        if isinstance(state, NormalizeObservationState):
            return state
        state = state.env_state
    raise ValueError(
        f"{method} needs the state of a NormalizeObservation, but the given state contains none."
    )


@final
class NormalizeRewardState(AbstractWrapperState):
    """The state of `NormalizeReward`.

    - `env_state`: the inner state.
    - `discounted_return`: the running discounted return of each agent.
    - `active`: the agents that have not terminated.
    - `moments`: the moments of the discounted returns.
    """

    env_state: PyTree
    discounted_return: Float[Array, "envs agents"]
    active: Bool[Array, "envs agents"]
    moments: RunningMoments


@final
class NormalizeReward(AbstractVectorWrapper):
    """Divides the reward by the standard deviation of the running discounted return.

    Each agent of each environment has a running discounted return, `g <- gamma * g + reward`, which
    is set to 0 where an episode ends. The reward becomes
    `clip(reward / sqrt(variance(g) + epsilon), -clip, clip)`. All environments and agents share the
    variance, which excludes agents that have terminated (Engstrom et al. 2020, "Implementation
    Matters in Deep Policy Gradients", section 3). The mean is not subtracted. `LogEpisodes` is
    inside this wrapper, so the logged returns are unscaled.

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

    env: VectorEnvironment
    gamma: Float[Array, ""]
    epsilon: Float[Array, ""]
    clip: Float[Array, ""]

    def __init__(
        self,
        env: Environment | VectorEnvironment,
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
        check_own_state(self, NormalizeRewardState, state, active=(self.num_envs, self.num_agents))
        timestep, env_state = step_env(self.env, key, state.env_state, action)
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
        check_own_state(self, NormalizeRewardState, state, active=(self.num_envs, self.num_agents))
        return self.env.observe(state.env_state)
