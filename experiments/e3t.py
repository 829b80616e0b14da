"""E3T (Yan et al. 2023): an agent learns to cooperate with partners from outside of its training.

python experiments/e3t.py --env.layout ring

One agent learns in each episode. Its partner is a copy of its own policy whose actions are
sometimes random, or one of --partners.pool (fictitious co-play). The agent has a memory, and
predicts the partner's next action. Edit any part of the experiment here.
"""

import dataclasses
import functools
import sys
from collections.abc import Sequence
from typing import Annotated, final

from eqgrid_lab import Experiment, PartnerSettings, Run, check_shaping, parse
import equinox as eqx
import jax
import optax
from jaxtyping import Array, Float, PRNGKeyArray
from msgspec import Meta

from agents import (
    MLP,
    PPO,
    ActorCritic,
    Minibatch,
    PredictingGRU,
    SharedParameters,
    TrainState,
    actor_critic,
    loss_of_choices,
    mask_logits,
    mean_over,
    of_agent,
)
from eqgrid import (
    AbstractEnv,
    AbstractVectorEnv,
    AutoReset,
    Discrete,
    LinearSchedule,
    LogEpisodes,
    NormalizeObservation,
    NormalizeReward,
    ShapedReward,
    Vectorize,
    split_mask,
)


@dataclasses.dataclass(frozen=True)
class E3T(Experiment):
    """Trains agents with E3T, and writes results, plots and checkpoints into a folder."""

    algorithm = "e3t"

    # Every field is a flag. `Experiment` has the flags of the world, PPO, partners and the run.
    partners: PartnerSettings = dataclasses.field(
        default_factory=lambda: PartnerSettings(share=1.0, noise=(0.3, 0.3))
    )
    ppo: PPO = dataclasses.field(default_factory=lambda: PPO(chunk_length=32))
    num_envs: Annotated[int, Meta(ge=1, le=2**24)] = 128
    """Number of parallel environments."""
    total_steps: Annotated[int, Meta(ge=1, le=10**15)] = 10_000_000
    """Total environment steps of training."""
    width: Annotated[int, Meta(ge=1, le=2**16)] = 128
    """Units of the memory and of hidden layers."""
    prediction_coefficient: Annotated[float, Meta(ge=0)] = 1.0
    """Weight of the loss of predictions of the partner's actions."""
    shaping: Annotated[float, Meta(ge=0)] = 1.0
    """Initial weight of the shaped reward."""
    shaping_steps: Annotated[int, Meta(ge=0, le=10**15)] = 5_000_000
    """Environment steps over which the weight of the shaped reward decreases to 0."""

    def observe(self, world: AbstractEnv) -> AbstractEnv:
        if world.num_agents != 2 or not isinstance(world.action_space, Discrete):
            raise ValueError("E3T needs two agents with Discrete actions: use another world.")
        return world

    def train_env(self) -> AbstractVectorEnv:
        world = self.with_partners(self.observe(self.env.build(train=True)))
        env = AutoReset(LogEpisodes(world, self.log_info), lazy=self.env.has_slow_resets)
        if self.env.has_shaped_reward:  # outside of LogEpisodes, so that returns are unshaped
            steps = max(1, self.shaping_steps // self.num_envs)
            env = ShapedReward(env, LinearSchedule(self.shaping, 0.0, steps))
        envs = Vectorize(env, self.num_envs)
        if self.env.normalize_observation:
            envs = NormalizeObservation(envs)
        return NormalizeReward(envs, self.ppo.gamma) if self.env.normalize_reward else envs

    def eval_env(
        self, world: AbstractEnv, num_envs: int, totals: Sequence[str] = ()
    ) -> AbstractVectorEnv:
        return Vectorize(AutoReset(LogEpisodes(self.observe(world), totals)), num_envs)

    def policy(self, env: AbstractVectorEnv, key: PRNGKeyArray) -> ActorCritic:
        recurrent = functools.partial(PredictingGRU, width=self.width)
        policy = actor_critic(env, key, network=recurrent)
        feed_forward = actor_critic(env, key, network=functools.partial(MLP, width=self.width))
        return eqx.tree_at(lambda x: x.critic, policy, feed_forward.critic)

    def learner(self) -> PPO:
        return dataclasses.replace(self.ppo, loss=E3TLoss(self.prediction_coefficient))

    def check(self) -> None:
        check_shaping(self)
        if self.partners.share < 1 or self.partners.share_steps:
            raise ValueError(
                "E3T needs a partner in every episode: leave out --partners.share and "
                "--partners.share-steps, or use ippo.py."
            )


@final
class E3TLoss(eqx.Module):
    """The loss of PPO for the agent that learns, plus the cross-entropy of its predictions."""

    coefficient: float | Float[Array, ""]

    def __call__(
        self,
        policy: ActorCritic,
        batch: Minibatch,
        ppo: PPO,
        entropy: float | Float[Array, ""],
        /,
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        assert isinstance(policy.actor, SharedParameters)
        assert isinstance(policy.actor.network, PredictingGRU)
        # Only the agent that learns is active. The seat of this agent may change between episodes.
        learner = batch.rollout.active.argmax(axis=-1)
        own, other = of_agent(batch, learner), of_agent(batch, 1 - learner)
        steps, taken = own.rollout, other.rollout.taken  # `taken`: the actions of the partner
        assert taken is not None
        # The outer vmap maps over sequences, and the inner vmap over agents.
        unroll = jax.vmap(jax.vmap(policy.actor.network.unroll_both, (1, 0, None), 1), (1, 0, 1), 1)
        seen, action_mask = split_mask(steps.observation)
        logits, prediction = unroll(seen, own.carry[0], steps.start)
        masked = jax.vmap(jax.vmap(mask_logits))(logits, action_mask)
        distribution = jax.vmap(jax.vmap(policy.head.distribution))(masked)
        value, _ = jax.vmap(jax.vmap(policy.critic, (0, None)), (0, None))(seen, None)
        loss, parts = loss_of_choices(policy, distribution, value[..., 0], own, ppo, entropy)
        errors = optax.softmax_cross_entropy_with_integer_labels(prediction, taken)
        error = mean_over(errors, steps.active)
        return loss + self.coefficient * error, {**parts, "prediction_loss": error}


def main(config: E3T) -> int:
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
    sys.exit(main(parse(E3T)))
