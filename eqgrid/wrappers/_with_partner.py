"""Wrappers in which a partner acts for one agent: `WithPartner` samples a partner for each episode,
and `DesignPartners` selects the partners from which the learner can learn most.
"""

import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray, Real, Shaped

from .._checks import as_count, as_probability, is_known
from .._env import (
    AbstractVectorWrapper,
    AbstractWrapper,
    AbstractWrapperState,
    Environment,
    TimeStep,
    VectorEnvironment,
    unwrap,
    unwrap_state,
)
from .._env_checks import (
    check_action,
    check_own_state,
    check_single_env,
    check_vector_env,
    step_env,
)
from .._moments import RunningMoments
from .._partner import OneOf, PartnerInput
from .._spaces import Discrete, sample_allowed
from ..typing import PyTree
from ._episode_ends import AbstractAutoReset
from ._nesting import Vectorize, contains_wrapper, iter_wrappers

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
    - `bias`: the logits of the random actions; `None` if all are equally likely.
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
    - `biased`: whether each episode samples the probabilities of the random actions, uniformly from
        all distributions. By default, all actions are equally likely.

    **Raises:** `ValueError` for a wrong nesting, for an environment with one agent, for a
    probability outside 0 to 1, if the lower bound of the noise exceeds the upper one, or for
    `biased` with actions that are not `Discrete`. Traced numbers are not checked.
    """

    env: Environment
    partners: OneOf | None
    share: Float[Array, ""]
    noise: Float[Array, " 2"]
    biased: bool = eqx.field(static=True)

    def __init__(
        self,
        env: Environment | VectorEnvironment,
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
        check_own_state(self, WithPartnerState, state, present=())
        check_action(self, action)
        action = jnp.asarray(action)
        env_key, act_key, random_key, level_key = jax.random.split(key, 4)
        # Under jit, the observation is not computed if it is not used.
        observation = self.env.observe(state.env_state)
        chosen, carry = self._partner_action(observation, state, action, act_key)
        noise = sample_allowed(self.action_space, observation, state.seat, random_key, state.bias)
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

    def _sample_bias(self, key: PRNGKeyArray) -> Float[Array, " actions"] | None:
        if not self.biased:
            return None
        assert isinstance(self.action_space, Discrete)
        return sample_bias(key, self.action_space.n)

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


@final
class DesignPartnersState(AbstractWrapperState):
    """The designs of partners, the returns with each design, and the inner state.

    **Arguments:**

    - `env_state`: the inner state.
    - `level`, `bias`: the noise level of each design, and the logits of its random actions.
    - `returns`: the moments of the returns with each design in this generation.
    - `generation`: the number of earlier generations.
    - `begun`: the generation in which the current episode of each environment began.
    """

    env_state: PyTree
    level: Float[Array, " designs"]
    bias: Float[Array, "designs actions"]
    returns: RunningMoments
    generation: Int[Array, ""]
    begun: Int[Array, " envs"]


@final
class DesignPartners(AbstractVectorWrapper):
    """Keeps the partners with the highest variance of returns, and replaces the others.

    A partner is the learner's own policy, some of whose actions are replaced by random actions. Its
    design is a noise level, which is the probability of a replacement, and a distribution of random
    actions. Each design has an equal share of the environments.

    A generation ends when all designs have had `episodes` episodes: the half of the designs with
    the highest variance of returns stays, and the other half is sampled again. Noise levels are
    uniform from 0 to 1, and ties are broken at random. Episodes should be about equally long, since
    episodes that are unfinished at the end of a generation do not count.

    If the return with a partner varies, the learner can influence it and improve. It cannot improve
    with a partner with which the team always or never succeeds. This is the curriculum of
    Unsupervised Partner Design (Ruhdorfer et al. 2025, "Unsupervised Partner Design Enables Robust
    Ad-hoc Teamwork"), except that eqgrid replaces one half of the designs in each generation.

    ```python
    from eqgrid import AutoReset, DesignPartners, LogEpisodes, Vectorize, WithPartner, make

    one = AutoReset(LogEpisodes(WithPartner(make("overcooked"), biased=True)))
    envs = DesignPartners(Vectorize(one, 128), num_designs=16)
    ```

    **Arguments:**

    - `env`: a vector environment with `WithPartner(..., biased=True)` and `LogEpisodes` inside.
    - `num_designs`: the number of designs: even, and a divisor of the number of environments.
    - `episodes`: the number of episodes of each design in a generation, at least 2.

    **Raises:** `ValueError` for a wrong nesting or a number out of range.
    """

    env: VectorEnvironment
    num_designs: int = eqx.field(static=True)
    episodes: int = eqx.field(static=True)

    def __init__(
        self, env: Environment | VectorEnvironment, num_designs: int = 16, episodes: int = 8
    ):
        self.env = check_vector_env(env, "DesignPartners(env)")
        batch = unwrap(self.env)
        wrappers = iter_wrappers(batch.env) if isinstance(batch, Vectorize) else ()
        inside = [x for x in wrappers if isinstance(x, WithPartner)]
        if not any(x.biased and x.partners is None for x in inside):
            raise ValueError(
                "DesignPartners needs partners to design: put WithPartner(env, biased=True) "
                "inside, without partners of its own."
            )
        self.num_designs = as_count(num_designs, "DesignPartners needs designs")
        self.episodes = as_count(episodes, "DesignPartners needs episodes")
        if self.episodes < 2:
            raise ValueError("DesignPartners needs at least 2 episodes to estimate a variance.")
        if self.num_designs % 2 or self.num_envs % self.num_designs:
            raise ValueError(
                "DesignPartners needs an even number of designs that divides the environments, but "
                f"got {num_designs} for {self.num_envs}."
            )

    def reset(
        self, key: PRNGKeyArray
    ) -> tuple[PyTree[Shaped[Array, "envs agents ..."]], DesignPartnersState]:
        env_key, design_key = jax.random.split(key)
        observation, env_state = self.env.reset(env_key)
        level, bias = self._sample_designs(design_key)
        all_envs = jnp.ones(self.num_envs, bool)
        state = DesignPartnersState(
            env_state=self._assign(env_state, level, bias, all_envs),
            level=level,
            bias=bias,
            returns=self._no_returns(),
            generation=jnp.zeros((), int),
            begun=jnp.zeros(self.num_envs, int),
        )
        return observation, state

    def step(
        self,
        key: PRNGKeyArray,
        state: DesignPartnersState,
        action: Shaped[Array, "envs agents ..."],
    ) -> tuple[TimeStep, DesignPartnersState]:
        check_own_state(self, DesignPartnersState, state, begun=(self.num_envs,))
        env_key, design_key, tie_key = jax.random.split(key, 3)
        timestep, env_state = step_env(self.env, env_key, state.env_state, action)
        if "episode_done" not in timestep.info:
            raise ValueError("DesignPartners needs LogEpisodes inside, for the returns.")
        ended: Bool[Array, " envs"] = timestep.info["episode_done"]
        present = _partner_state(state.env_state).present
        # An episode that began in an earlier generation was played with an earlier design.
        counted = ended & present & (state.begun == state.generation)
        by_design = (self.num_designs, -1)
        team_return = timestep.info["episode_return"].mean(axis=-1)
        returns = jax.vmap(RunningMoments.update)(
            state.returns, team_return.reshape(by_design), counted.reshape(by_design)
        )
        generation_ends = jnp.all(returns.count >= self.episodes)
        order = jnp.lexsort((jax.random.uniform(tie_key, returns.count.shape), -returns.variance))
        rank = jnp.argsort(order)  # 0 for the design with the highest variance
        kept = ~generation_ends | (rank < self.num_designs // 2)
        level, bias = self._sample_designs(design_key)
        level = jnp.where(kept, state.level, level)
        bias = jnp.where(kept[:, None], state.bias, bias)
        returns = jax.tree.map(
            lambda new, old: jnp.where(generation_ends, new, old), self._no_returns(), returns
        )
        generation = state.generation + generation_ends.astype(int)
        state = DesignPartnersState(
            env_state=self._assign(env_state, level, bias, ended),
            level=level,
            bias=bias,
            returns=returns,
            generation=generation,
            begun=jnp.where(ended, generation, state.begun),
        )
        return timestep, state

    def observe(self, state: DesignPartnersState) -> PyTree[Shaped[Array, "envs agents ..."]]:
        check_own_state(self, DesignPartnersState, state, begun=(self.num_envs,))
        return self.env.observe(state.env_state)

    def _sample_designs(
        self, key: PRNGKeyArray
    ) -> tuple[Float[Array, " designs"], Float[Array, "designs actions"]]:
        """The levels and the biases of `num_designs` new designs."""
        level_key, bias_key = jax.random.split(key)
        assert isinstance(self.action_space, Discrete)
        keys = jax.random.split(bias_key, self.num_designs)
        bias = jax.vmap(sample_bias, (0, None))(keys, self.action_space.n)
        return jax.random.uniform(level_key, (self.num_designs,), float), bias

    def _assign(
        self,
        env_state: PyTree,
        level: Float[Array, " designs"],
        bias: Float[Array, "designs actions"],
        where: Bool[Array, " envs"],
    ) -> PyTree:
        """Assigns the current designs to the environments in which an episode begins."""
        repeats = self.num_envs // self.num_designs
        old = _partner_state(env_state)
        assert old.bias is not None
        new = (
            jnp.where(where, jnp.repeat(level, repeats), old.level),
            jnp.where(where[:, None], jnp.repeat(bias, repeats, axis=0), old.bias),
        )
        return eqx.tree_at(
            lambda x: (_partner_state(x).level, _partner_state(x).bias), env_state, new
        )

    def _no_returns(self) -> RunningMoments:
        empty = RunningMoments.empty(())
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (self.num_designs,)), empty)


def sample_bias(key: PRNGKeyArray, num_actions: int) -> Float[Array, " actions"]:
    """The logits of a distribution over actions, sampled uniformly from all distributions."""
    return jnp.log(jax.random.dirichlet(key, jnp.ones(num_actions)))


def _partner_state(state: PyTree) -> WithPartnerState:
    """The state of `WithPartner` in the state of a stack of wrappers."""
    while not isinstance(state, WithPartnerState):
        state = state.env_state
    return state
