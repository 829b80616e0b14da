"""Unsupervised Partner Design (Ruhdorfer et al. 2025): E3T with partners that are worth learning.

python experiments/upd.py --env.layout ring

The partner is a copy of the agent's own policy, some of whose actions are random. Its design is the
probability of a random action, and the distribution of random actions. If the return with a partner
varies, the agent can influence it and improve. It cannot improve with a partner with which the team
always or never succeeds. So the designs with the highest variance of returns are kept. In each
generation, this script replaces one half of the designs; the paper has a buffer of them.
"""

import dataclasses
import sys
from typing import Annotated, final

from eqgrid_lab import PartnerSettings, Run, check_shaping, parse
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped
from msgspec import Meta

from agents import TrainState, mask_logits
from e3t import E3T
from eqgrid import (
    JOINT_ACTION,
    PARTNER_MASK,
    AbstractVectorEnv,
    AbstractVectorWrapper,
    AbstractWrapper,
    AbstractWrapperState,
    AutoReset,
    Discrete,
    Environment,
    LinearSchedule,
    LogEpisodes,
    NormalizeObservation,
    NormalizeReward,
    RunningMoments,
    ShapedReward,
    TimeStep,
    VectorEnvironment,
    Vectorize,
    split_mask,
)


@dataclasses.dataclass(frozen=True)
class UPD(E3T):
    """Trains agents with UPD, and writes results, plots and checkpoints into a folder."""

    algorithm = "upd"

    partners: PartnerSettings = dataclasses.field(default_factory=PartnerSettings)
    designs: Annotated[int, Meta(ge=2, le=2**16)] = 16
    """Number of designs of partners: even, and a divisor of --num-envs."""

    def train_env(self) -> AbstractVectorEnv:
        world = RandomizedPartner(self.observe(self.env.build(train=True)))
        env = AutoReset(LogEpisodes(world, self.log_info), lazy=self.env.has_slow_resets)
        if self.env.has_shaped_reward:  # outside of LogEpisodes, so that returns are unshaped
            steps = max(1, self.shaping_steps // self.num_envs)
            env = ShapedReward(env, LinearSchedule(self.shaping, 0.0, steps))
        envs = DesignPartners(Vectorize(env, self.num_envs), self.designs)
        if self.env.normalize_observation:
            envs = NormalizeObservation(envs)
        return NormalizeReward(envs, self.ppo.gamma) if self.env.normalize_reward else envs

    def check(self) -> None:
        check_shaping(self)
        if self.designs % 2 or self.num_envs % self.designs:
            raise ValueError("--designs must be even, and divide --num-envs.")


@final
class RandomizedPartnerState(AbstractWrapperState):
    """The partner of this episode, and the inner state.

    - `env_state`: the inner state.
    - `seat`: the index of the agent for which the partner acts.
    - `level`: the probability of a random action.
    - `bias`: the logits of the random actions.
    """

    env_state: PyTree
    seat: Int[Array, ""]
    level: Float[Array, ""]
    bias: Float[Array, " actions"]


@final
class RandomizedPartner(AbstractWrapper):
    """Replaces some actions of one agent by random actions. Each reset samples the seat of this
    agent, which is marked in `info` as by `WithPartner`. `DesignPartners` sets the probabilities.

    **Arguments:**

    - `env`: an environment with `Discrete` actions.
    """

    env: Environment

    def reset(
        self, key: PRNGKeyArray
    ) -> tuple[PyTree[Shaped[Array, "agents ..."]], RandomizedPartnerState]:
        env_key, _, seat_key, _, _ = jax.random.split(key, 5)  # as in `WithPartner`
        observation, env_state = self.env.reset(env_key)
        seat = jax.random.randint(seat_key, (), 0, self.num_agents)
        assert isinstance(self.action_space, Discrete)  # checked by `E3T.observe`
        level, bias = jnp.zeros(()), jnp.zeros(self.action_space.n)
        return observation, RandomizedPartnerState(env_state, seat, level, bias)

    def step(
        self, key: PRNGKeyArray, state: RandomizedPartnerState, action: Int[Array, " agents"]
    ) -> tuple[TimeStep, RandomizedPartnerState]:
        env_key, _, random_key, level_key = jax.random.split(key, 4)
        _, mask = split_mask(self.env.observe(state.env_state))
        logits = mask_logits(state.bias, None if mask is None else mask[state.seat])
        noise = jax.random.categorical(random_key, logits).astype(action.dtype)
        own = jnp.where(jax.random.bernoulli(level_key, state.level), noise, action[state.seat])
        replaced = jnp.arange(self.num_agents) == state.seat
        action = jnp.where(replaced, own, action)
        timestep, env_state = self.env.step(env_key, state.env_state, action)
        info = {**timestep.info, PARTNER_MASK: replaced, JOINT_ACTION: action}
        return (
            dataclasses.replace(timestep, info=info),
            dataclasses.replace(state, env_state=env_state),
        )

    def observe(self, state: RandomizedPartnerState) -> PyTree[Shaped[Array, "agents ..."]]:
        return self.env.observe(state.env_state)


@final
class DesignPartnersState(AbstractWrapperState):
    """The designs of partners, the returns with each design, and the inner state.

    - `env_state`: the inner state.
    - `level`, `bias`: the probability of a random action, and the logits of random actions.
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
    """Keeps the designs with the highest variance of returns, and replaces the others.

    Each design has an equal share of the environments. A generation ends when all designs have had
    `episodes` episodes. Then one half of the designs is sampled again; ties are broken at random.
    Episodes should be about equally long, since episodes that are unfinished at the end of a
    generation do not count.

    **Arguments:**

    - `env`: environments with `RandomizedPartner` and `LogEpisodes` inside.
    - `num_designs`: the number of designs: even, and a divisor of the number of environments.
    - `episodes`: the number of episodes of each design in a generation, at least 2.
    """

    env: VectorEnvironment
    num_designs: int = eqx.field(static=True)
    episodes: int = eqx.field(static=True, default=8)

    def reset(
        self, key: PRNGKeyArray
    ) -> tuple[PyTree[Shaped[Array, "envs agents ..."]], DesignPartnersState]:
        env_key, design_key = jax.random.split(key)
        observation, env_state = self.env.reset(env_key)
        level, bias = self._sample_designs(design_key)
        state = DesignPartnersState(
            env_state=self._assign(env_state, level, bias, jnp.ones(self.num_envs, bool)),
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
        action: Int[Array, "envs agents"],
    ) -> tuple[TimeStep, DesignPartnersState]:
        env_key, design_key, tie_key = jax.random.split(key, 3)
        timestep, env_state = self.env.step(env_key, state.env_state, action)
        ended: Bool[Array, " envs"] = timestep.info["episode_done"]
        # An episode that began in an earlier generation was played with an earlier design.
        counted = ended & (state.begun == state.generation)
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
        return self.env.observe(state.env_state)

    def _sample_designs(
        self, key: PRNGKeyArray
    ) -> tuple[Float[Array, " designs"], Float[Array, "designs actions"]]:
        """The levels, from 0 to 1, and the biases of new designs, uniform over distributions."""
        level_key, bias_key = jax.random.split(key)
        keys = jax.random.split(bias_key, self.num_designs)
        assert isinstance(self.action_space, Discrete)
        bias = jax.vmap(jax.random.dirichlet, (0, None))(keys, jnp.ones(self.action_space.n))
        return jax.random.uniform(level_key, (self.num_designs,), float), jnp.log(bias)

    def _assign(
        self,
        env_state: PyTree,
        level: Float[Array, " designs"],
        bias: Float[Array, "designs actions"],
        where: Bool[Array, " envs"],
    ) -> PyTree:
        """Assigns the current designs to the environments in which an episode begins."""
        repeats = self.num_envs // self.num_designs
        old = partner_state(env_state)
        new = (
            jnp.where(where, jnp.repeat(level, repeats), old.level),
            jnp.where(where[:, None], jnp.repeat(bias, repeats, axis=0), old.bias),
        )
        return eqx.tree_at(
            lambda x: (partner_state(x).level, partner_state(x).bias), env_state, new
        )

    def _no_returns(self) -> RunningMoments:
        empty = RunningMoments.empty(())
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (self.num_designs,)), empty)


def partner_state(state: PyTree) -> RandomizedPartnerState:
    """The state of `RandomizedPartner` in the state of a stack of wrappers."""
    while not isinstance(state, RandomizedPartnerState):
        state = state.env_state
    return state


def main(config: UPD) -> int:
    with Run(config) as run:  # the folder with its log and checkpoints, progress and signals
        ppo, envs = config.learner(), config.train_env()
        block = run.block(ppo, envs)  # makes updates of all seeds in one compiled program
        evaluation = run.evaluation(envs)  # plays episodes in `eval_env`

        def init(envs: AbstractVectorEnv, key: PRNGKeyArray) -> TrainState:  # of one seed
            policy_key, run_key = jax.random.split(key)
            return ppo.init(config.policy(envs, policy_key), envs, run_key)

        state = run.start(init, block, evaluation)  # a new state, or that of the last checkpoint
        for count in run.blocks():  # the updates until the next evaluation
            state, metrics = block(state, count)  # metrics: NumPy, of each update and seed
            result = evaluation(state)
            run.log(metrics, result)  # an entry that you add to `result` becomes a column
            run.save(state, result)  # writes every few seconds; `break` after it ends the run
        run.finish(state)  # the final evaluation, policies, plots and a GIF
    return run.exit_code


if __name__ == "__main__":
    sys.exit(main(parse(UPD)))
