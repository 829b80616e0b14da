"""WithPartner: replaces the actions of one agent by those of a partner."""

import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray, Real, Shaped

from .._checks import as_probability, is_known
from .._env import (
    AbstractEnv,
    AbstractVectorEnv,
    AbstractWrapper,
    AbstractWrapperState,
    TimeStep,
    unwrap_state,
)
from .._observed import sample_allowed
from .._partner import OneOf, Seen
from .._spaces import Discrete
from .._types import PyTree
from ._auto_reset import AbstractAutoReset
from ._nesting import check_single_env, contains_wrapper

REPLACED = "replaced"
"""The key in `info` of a boolean per agent: whether a partner's action replaced its own."""
TAKEN = "taken"
"""The key in `info` of the actions that all agents took, with those of the partner."""


@final
class WithPartnerState(AbstractWrapperState):
    """The partner of this episode, and the inner state.

    **Arguments:**

    - `env_state`: the inner state.
    - `present`: whether there is a partner in this episode.
    - `seat`: the index of the agent for which the partner acts.
    - `number`: the index of the partner among `partners`.
    - `level`: the probability that an action of the partner is replaced by a random one.
    - `bias`: the logits of its random actions; `None` if all are equally likely.
    - `carry`: the partner's memory.
    """

    env_state: PyTree
    present: Bool[Array, ""]
    seat: Int[Array, ""]
    number: Int[Array, ""]
    level: Float[Array, ""]
    bias: Float[Array, " actions"] | None
    carry: PyTree


@final
class WithPartner(AbstractWrapper):
    """Lets a partner act for one agent, so that the other agents learn to play with it.

    Each reset samples whether there is a partner in this episode, its seat, which of `partners` it
    is, and its noise level. The action given for its seat is then replaced: `info[REPLACED]` marks
    the agent whose action was, and `info[TAKEN]` has the actions that all agents took instead.
    `agents.collect_rollout` excludes replaced actions from learning.
    With policies of earlier runs as partners, this is the second stage of fictitious co-play
    (Strouse et al. 2021, "Collaborating with Humans without Human Data"). Without `partners`, the
    given action is kept except for the noise: the partner is then a mixture of the learner's own
    policy and a random one, as in E3T (Yan et al. 2023, "An Efficient End-to-End Training Approach
    for Zero-Shot Human-AI Coordination").

    ```python
    from eqgrid import OneOf, WithPartner, make
    from eqgrid.envs.overcooked import ScriptedCook

    cooks = [ScriptedCook("ring", "greedy"), ScriptedCook("ring", "onion")]
    env = WithPartner(make("overcooked", layout="ring"), OneOf(cooks), share=0.8)
    ```

    **Arguments:**

    - `env`: a single environment, not yet inside `AutoReset`.
    - `partners`: the partners to sample from, uniformly; `None` for the agents themselves.
    - `share`: the probability that an episode has a partner.
    - `noise`: the lower and upper bound of the probability with which an action of the partner is
        replaced by a random one; sampled uniformly for each episode.
    - `biased`: whether some random actions are more likely than others: each episode then samples
        their probabilities uniformly from all distributions. Otherwise all are equally likely.

    **Raises:** `ValueError` for a wrong nesting, for an environment with one agent, for a
    probability outside 0 to 1, if the lower bound of the noise exceeds the upper one, or for
    `biased` with actions that are not `Discrete`. Traced numbers are not checked.
    """

    env: AbstractEnv
    partners: OneOf | None
    share: Float[Array, ""]
    noise: Float[Array, " 2"]
    biased: bool = eqx.field(static=True)

    def __init__(
        self,
        env: AbstractEnv | AbstractVectorEnv,
        partners: OneOf | None = None,
        *,
        share: Real[ArrayLike, ""] = 1.0,
        noise: tuple[Real[ArrayLike, ""], Real[ArrayLike, ""]] | Float[Array, " 2"] = (0.0, 0.0),
        biased: bool = False,
    ):
        self.env = check_single_env(env, "WithPartner(env)")
        if contains_wrapper(self.env, AbstractAutoReset):
            raise ValueError(
                "WithPartner must be inside AutoReset, so that each episode has a partner of its "
                "own: AutoReset(WithPartner(env))."
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
        if biased and not isinstance(self.env.action_space, Discrete):
            raise ValueError(
                f"WithPartner(env, biased=True) needs Discrete actions, but the environment has "
                f"{self.env.action_space!r:.60}: leave `biased` out."
            )
        self.biased = biased

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
            bias=self._sample_bias(jax.random.fold_in(level_key, 0)),
            carry=None if self.partners is None else self.partners.pick(number).initial_carry(),
        )
        return observation, state

    def step(
        self, key: PRNGKeyArray, state: WithPartnerState, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, WithPartnerState]:
        env_key, act_key, random_key, level_key = jax.random.split(key, 4)
        # Under jit, the observation is not computed if it is not used.
        observation = self.env.observe(state.env_state)
        chosen, carry = self._choose(observation, state, action, act_key)
        drawn = sample_allowed(self.action_space, observation, state.seat, random_key, state.bias)
        drawn = drawn.astype(action.dtype)
        chosen = jnp.where(jax.random.bernoulli(level_key, state.level), drawn, chosen)
        replaced = state.present & (jnp.arange(self.num_agents) == state.seat)
        action = jnp.where(replaced.reshape(-1, *[1] * (action.ndim - 1)), chosen[None], action)
        timestep, env_state = self.env.step(env_key, state.env_state, action)
        timestep = dataclasses.replace(
            timestep, info={**timestep.info, REPLACED: replaced, TAKEN: action}
        )
        return timestep, dataclasses.replace(state, env_state=env_state, carry=carry)

    def observe(self, state: WithPartnerState) -> PyTree[Shaped[Array, "agents ..."]]:
        return self.env.observe(state.env_state)

    def _sample_bias(self, key: PRNGKeyArray) -> Float[Array, " actions"] | None:
        if not self.biased:
            return None
        assert isinstance(self.action_space, Discrete)
        return sample_bias(key, self.action_space.n)

    def _choose(
        self,
        observation: PyTree[Shaped[Array, "agents ..."]],
        state: WithPartnerState,
        action: Shaped[Array, "agents ..."],
        key: PRNGKeyArray,
    ) -> tuple[Shaped[Array, "..."], PyTree]:
        """The partner's action before noise, and its next memory."""
        if self.partners is None:
            return action[state.seat], None
        seen = Seen(observation, unwrap_state(state.env_state), state.seat)
        chosen, carry = self.partners.pick(state.number)(seen, state.carry, key)
        return chosen.astype(action.dtype), carry


def sample_bias(key: PRNGKeyArray, num_actions: int) -> Float[Array, " actions"]:
    """The logits of a distribution over actions, sampled uniformly from all distributions."""
    return jnp.log(jax.random.dirichlet(key, jnp.ones(num_actions)))
