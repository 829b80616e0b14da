"""`WithPartner`: a partner, sampled for each episode, acts for one agent."""

import dataclasses
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray, Real, Shaped

from .._checks import as_probability, is_known
from .._env import (
    AbstractWrapper,
    AbstractWrapperState,
    Environment,
    TimeStep,
    VectorEnvironment,
    unwrap_state,
)
from .._env_checks import (
    check_action,
    check_own_state,
    check_single_env,
    step_env,
)
from .._partner import OneOf, PartnerInput
from .._spaces import sample_allowed
from ..typing import PyTree
from ._episode_ends import AbstractAutoReset
from ._nesting import contains_wrapper

PARTNER_MASK = "replaced"
"""The key in `info` of a boolean per agent: whether a partner's action replaced the agent's."""
JOINT_ACTION = "taken"
"""The key in `info` of the actions that all agents took, including the partner's."""


@final
class WithPartnerState(AbstractWrapperState):
    """The partner of this episode, and the inner state.

    **Arguments:**

    - `env_state`: the inner state.
    - `present`: whether there is a partner in this episode.
    - `seat`: the index of the agent for which the partner acts.
    - `number`: the index of the partner among `partners`.
    - `level`: the noise level: the probability that a random action replaces the partner's action.
    - `carry`: the partner's memory.
    """

    env_state: PyTree
    present: Bool[Array, ""]
    seat: Int[Array, ""]
    number: Int[Array, ""]
    level: Float[Array, ""]
    carry: PyTree


@final
class WithPartner(AbstractWrapper):
    """Lets a partner act for one agent, so that the other agents learn to play with it.

    Each reset samples whether there is a partner in this episode, its seat, its index in
    `partners`, and its noise level. In each step, the partner's action replaces the action that is
    passed for its seat. `info[PARTNER_MASK]` marks this agent, and `info[JOINT_ACTION]` contains
    the actions that all agents took. `agents.collect_rollout` excludes replaced actions from
    learning.

    With policies of earlier runs as partners, this is the second stage of fictitious co-play
    (Strouse et al. 2021, "Collaborating with Humans without Human Data"). Without `partners`, only
    the noise replaces actions: the partner is a mixture of the learner's own policy and a random
    policy, as in E3T (Yan et al. 2023, "An Efficient End-to-End Training Approach for Zero-Shot
    Human-AI Coordination").

    ```python
    from eqgrid import OneOf, WithPartner, make
    from eqgrid.envs.overcooked import ScriptedCook

    cooks = [ScriptedCook("ring", "greedy"), ScriptedCook("ring", "onion")]
    env = WithPartner(make("overcooked", layout="ring"), OneOf(cooks), share=0.8)
    ```

    **Arguments:**

    - `env`: a single environment, not yet inside `AutoReset`.
    - `partners`: the partners to sample from, uniformly; `None` for the learner's own policy.
    - `share`: the probability that an episode has a partner.
    - `noise`: the bounds of the noise level, which each episode samples uniformly between them. The
        noise level is the probability that a random action replaces the partner's action.

    **Raises:** `ValueError` for a wrong nesting, for an environment with one agent, for a
    probability outside 0 to 1, or if the lower bound of the noise exceeds the upper one. Traced
    numbers are not checked.
    """

    env: Environment
    partners: OneOf | None
    share: Float[Array, ""]
    noise: Float[Array, " 2"]

    def __init__(
        self,
        env: Environment | VectorEnvironment,
        partners: OneOf | None = None,
        *,
        share: Real[ArrayLike, ""] = 1.0,
        noise: tuple[Real[ArrayLike, ""], Real[ArrayLike, ""]] | Float[Array, " 2"] = (0.0, 0.0),
    ):
        self.env = check_single_env(env, "WithPartner(env)")
        if contains_wrapper(self.env, AbstractAutoReset):
            raise ValueError(
                "WithPartner must be inside AutoReset, so that each episode has a partner of its "
                "own: AutoReset(WithPartner(env))."
            )
        if not isinstance(partners, OneOf | None):
            raise TypeError(
                f"WithPartner needs OneOf(partners), but got {type(partners).__name__}."
            )
        if self.env.num_agents < 2:
            raise ValueError("WithPartner needs an environment with at least 2 agents.")
        self.partners = partners
        self.share = as_probability(share, "WithPartner needs a share between 0 and 1")
        needs = "WithPartner needs two numbers between 0 and 1 for the noise, the smaller one first"
        if len(noise) != 2:
            raise ValueError(f"{needs}, but got {noise!r:.60}.")
        self.noise = jnp.stack([as_probability(bound, needs) for bound in noise])
        if is_known(*noise) and np.diff(np.asarray(noise, float))[0] < 0:
            raise ValueError(f"{needs}, but got {noise!r:.60}.")

    def reset(
        self, key: PRNGKeyArray
    ) -> tuple[PyTree[Shaped[Array, "agents ..."]], WithPartnerState]:
        env_key, share_key, seat_key, number_key, level_key = jax.random.split(key, 5)
        observation, env_state = self.env.reset(env_key)
        count = 1 if self.partners is None else self.partners.num_partners
        number = jax.random.randint(number_key, (), 0, count)
        state = WithPartnerState(
            env_state=env_state,
            present=jax.random.bernoulli(share_key, self.share),
            seat=jax.random.randint(seat_key, (), 0, self.num_agents),
            number=number,
            level=jax.random.uniform(level_key, (), float, self.noise[0], self.noise[1]),
            carry=None if self.partners is None else self.partners.pick(number).initial_carry(),
        )
        return observation, state

    def step(
        self, key: PRNGKeyArray, state: WithPartnerState, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, WithPartnerState]:
        check_own_state(self, WithPartnerState, state, present=())
        check_action(self, action)
        action = jnp.asarray(action)
        env_key, act_key, random_key, level_key = jax.random.split(key, 4)
        # Under jit, the observation is not computed if it is not used.
        observation = self.env.observe(state.env_state)
        chosen, carry = self._partner_action(observation, state, action, act_key)
        noise = sample_allowed(self.action_space, observation, state.seat, random_key)
        noise = noise.astype(action.dtype)
        chosen = jnp.where(jax.random.bernoulli(level_key, state.level), noise, chosen)
        replaced = state.present & (jnp.arange(self.num_agents) == state.seat)
        action = jnp.where(replaced.reshape(-1, *[1] * (action.ndim - 1)), chosen[None], action)
        timestep, env_state = step_env(self.env, env_key, state.env_state, action)
        timestep = dataclasses.replace(
            timestep, info={**timestep.info, PARTNER_MASK: replaced, JOINT_ACTION: action}
        )
        return timestep, dataclasses.replace(state, env_state=env_state, carry=carry)

    def observe(self, state: WithPartnerState) -> PyTree[Shaped[Array, "agents ..."]]:
        check_own_state(self, WithPartnerState, state, present=())
        return self.env.observe(state.env_state)

    def _partner_action(
        self,
        observation: PyTree[Shaped[Array, "agents ..."]],
        state: WithPartnerState,
        action: Shaped[Array, "agents ..."],
        key: PRNGKeyArray,
    ) -> tuple[Shaped[Array, "..."], PyTree]:
        """The partner's action before noise, and its next memory."""
        if self.partners is None:
            return action[state.seat], None
        seen = PartnerInput(observation, unwrap_state(state.env_state), state.seat)
        chosen, carry = self.partners.pick(state.number)(seen, state.carry, key)
        return chosen.astype(action.dtype), carry
