"""NormalizeObservation: observations of mean 0 and variance 1, by running moments."""

import functools
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray, PyTree, Real, Shaped

from .._checks import as_clip, as_epsilon
from .._env import (
    AbstractEnv,
    AbstractVectorEnv,
    AbstractVectorWrapper,
    AbstractWrapperState,
    TimeStep,
)
from .._moments import RunningMoments
from .._observed import map_observation, split_mask
from ._nesting import check_vector_env, contains_wrapper


@final
class NormalizeObservationState(AbstractWrapperState):
    """The moments that the last observation was normalised with, around the inner state."""

    env_state: PyTree
    moments: PyTree[RunningMoments]


@final
class NormalizeObservation(AbstractVectorWrapper):
    """Makes every observation `clip((x - mean) / sqrt(variance + epsilon), -clip, clip)`.

    There is one set of moments per array of the observation, of one agent's shape, shared by all
    environments and agents. It takes in every batch of observations that is handed out (the first
    included, the final ones not, and none of agents whose task is over), and then normalises that
    batch. What was handed out never
    changes afterwards, so what the policy saw is what the learner sees. The result is a float,
    whatever the observation was. The mask of a `Masked` observation stays as it is.

    To evaluate, `freeze` the moments: `evaluation = NormalizeObservation(other_envs).freeze(state)`
    gives an environment that normalises with the moments in `state` and never moves them.

    **Arguments:**

    - `env`: many environments.
    - `epsilon`: added to the variance. `clip`: the largest magnitude; `jnp.inf` for none.
    - `moments`: where to start from at `reset`; from nothing unless given.
    - `frozen`: whether `moments` stay as they are.

    **Raises:** `ValueError` for a wrong nesting, for frozen moments that are not given, or for a
    number out of range. Numbers that are being traced are not looked at.
    """

    env: AbstractVectorEnv
    epsilon: Float[Array, ""]
    clip: Float[Array, ""]
    moments: PyTree[RunningMoments] | None
    frozen: bool = eqx.field(static=True)

    def __init__(
        self,
        env: AbstractEnv | AbstractVectorEnv,
        epsilon: Real[ArrayLike, ""] = 1e-8,
        clip: Real[ArrayLike, ""] = 10.0,
        *,
        moments: PyTree[RunningMoments] | None = None,
        frozen: bool = False,
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

    def freeze(self, state: PyTree) -> "NormalizeObservation":
        """This wrapper with the moments of `state`, held fixed: no reset or step moves them.

        **Arguments:**

        - `state`: the state of any stack with a `NormalizeObservation` in it, such as the one that
            is trained in. It may have another number of environments.

        **Returns:** a new wrapper, whose moments are array leaves. They are copies, so that the
        wrapper outlives a `state` that is donated to a compiled program.

        **Raises:** `ValueError` when there are no moments in `state`.
        """
        while isinstance(state, AbstractWrapperState):
            if isinstance(state, NormalizeObservationState):
                moments = jax.tree.map(jnp.copy, state.moments)
                return NormalizeObservation(
                    self.env, self.epsilon, self.clip, moments=moments, frozen=True
                )
            state = state.env_state
        raise ValueError("freeze needs the state of a NormalizeObservation; there is none in this.")

    def thaw(self) -> "NormalizeObservation":
        """This wrapper with moments that move again, `reset` continuing from the frozen ones."""
        return NormalizeObservation(self.env, self.epsilon, self.clip, moments=self.moments)

    def reset(
        self, key: PRNGKeyArray
    ) -> tuple[PyTree[Shaped[Array, "envs agents ..."]], NormalizeObservationState]:
        observation, env_state = self.env.reset(key)
        start = self.moments
        if start is None:
            seen, _ = split_mask(observation)
            start = jax.tree.map(lambda x: RunningMoments.empty(x.shape[2:]), seen)
        # Empty moments are constants, around which XLA would round what it shows and what it keeps
        # differently; the barrier makes `observe` repeat the first observation to the bit.
        everybody = jnp.ones((self.num_envs, self.num_agents), bool)
        moments = self._update(jax.lax.optimization_barrier(start), observation, everybody)
        state = NormalizeObservationState(env_state=env_state, moments=moments)
        return self._normalize(moments, observation), state

    def step(
        self,
        key: PRNGKeyArray,
        state: NormalizeObservationState,
        action: Shaped[Array, "envs agents ..."],
    ) -> tuple[TimeStep, NormalizeObservationState]:
        timestep, env_state = self.env.step(key, state.env_state, action)
        before = self.moments if self.frozen else state.moments
        moments = self._update(before, timestep.observation, timestep.acts_next)
        normalized = (
            self._normalize(moments, timestep.observation),
            self._normalize(moments, timestep.final_observation),
        )
        timestep = eqx.tree_at(lambda t: (t.observation, t.final_observation), timestep, normalized)
        return timestep, NormalizeObservationState(env_state=env_state, moments=moments)

    def observe(self, state: NormalizeObservationState) -> PyTree[Shaped[Array, "envs agents ..."]]:
        return self._normalize(state.moments, self.env.observe(state.env_state))

    def _update(
        self,
        moments: PyTree[RunningMoments],
        observation: PyTree[Shaped[Array, "envs agents ..."]],
        counts: Bool[Array, "envs agents"],
    ) -> PyTree[RunningMoments]:
        if self.frozen:
            return moments
        update = functools.partial(_update_leaf, counts.reshape(-1))
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
        per_agent = jax.vmap(moments.standardize, in_axes=(0, None))
        standardized = jax.vmap(per_agent, in_axes=(0, None))(leaf.astype(float), self.epsilon)
        return jnp.clip(standardized, -self.clip, self.clip)


def _update_leaf(
    counts: Bool[Array, " samples"],
    leaf: Shaped[Array, "envs agents *shape"],
    moments: RunningMoments,
) -> RunningMoments:
    return moments.update(leaf.astype(float).reshape(-1, *leaf.shape[2:]), counts)
