"""Independent PPO (de Witt et al. 2020): the critic of an agent observes what the agent observes.

python experiments/ippo.py --env.layout cramped

From top to bottom, this script has its settings, the environments, the networks, the critic's
input, PPO, and the training loop in `main`. Edit any of them here.
"""

import dataclasses
import functools
import sys
from collections.abc import Sequence
from typing import Annotated, Literal

from eqgrid_lab import Experiment, Run, check_shaping, parse
import jax
from jaxtyping import PRNGKeyArray
from msgspec import Meta

from agents import (
    CNN,
    GRU,
    MLP,
    PPO,
    ActorCritic,
    LocalObservation,
    TrainState,
    actor_critic,
    gae,
)
from eqgrid import (
    AbstractEnv,
    AbstractVectorEnv,
    AppendAgentId,
    AutoReset,
    LinearSchedule,
    LogEpisodes,
    NormalizeObservation,
    NormalizeReward,
    ShapedReward,
    Vectorize,
)


@dataclasses.dataclass(frozen=True)
class IPPO(Experiment):
    """Trains agents with IPPO, and writes results, plots and checkpoints into a folder."""

    algorithm = "ippo"

    # Every field is a flag. `Experiment` has the flags of the world (--env.layout), of PPO
    # (--ppo.learning-rate), of partners and of the run (--total-steps, --num-envs, --seed).
    # `self.env` has the settings of the world and builds it. Some worlds change defaults of PPO and
    # of the run. The run prints these changes, and writes all settings to config.toml.
    network: Literal["mlp", "cnn", "gru", "cnn-gru"] = "mlp"
    """Network of actor and critic. Networks with a gru are recurrent."""
    width: Annotated[int, Meta(ge=1, le=2**16)] = 64
    """Units per hidden layer."""
    parameters: Literal["shared", "independent"] = "shared"
    """Whether agents share parameters."""
    agent_id: bool = False
    """Append the agent's one-hot index to its observation."""
    shaping: Annotated[float, Meta(ge=0)] = 1.0
    """Initial weight of the shaped reward."""
    shaping_steps: Annotated[int, Meta(ge=0, le=10**15)] = 2_000_000
    """Environment steps over which the weight of the shaped reward decreases to 0."""

    def observe(self, world: AbstractEnv) -> AbstractEnv:
        return AppendAgentId(world) if self.agent_id else world

    def train_env(self) -> AbstractVectorEnv:
        world = self.observe(self.env.build(train=True))
        world = self.with_partners(world)  # a partner replaces one agent in some episodes
        # Add wrappers of single environments here, and wrappers of observations in `observe`.
        env = AutoReset(LogEpisodes(world, self.log_info), lazy=self.env.has_slow_resets)
        env = self.anneal_partners(env)
        if self.env.has_shaped_reward:  # outside of LogEpisodes, so that returns are unshaped
            # Each of the `num_envs` environments counts only its own steps.
            steps = max(1, self.shaping_steps // self.num_envs)
            env = ShapedReward(env, LinearSchedule(self.shaping, 0.0, steps))
        envs = Vectorize(env, self.num_envs)  # add wrappers of vector environments below
        if self.env.normalize_observation:
            envs = NormalizeObservation(envs)
        if self.env.normalize_reward:
            envs = NormalizeReward(envs, self.ppo.gamma)
        return envs

    def eval_env(
        self, world: AbstractEnv, num_envs: int, totals: Sequence[str] = ()
    ) -> AbstractVectorEnv:
        return Vectorize(AutoReset(LogEpisodes(self.observe(world), totals)), num_envs)

    def policy(self, env: AbstractVectorEnv, key: PRNGKeyArray) -> ActorCritic:
        kind = CNN if "cnn" in self.network else MLP
        network = functools.partial(kind, width=self.width)
        if "gru" in self.network:
            network = functools.partial(GRU, width=self.width, encoder=network)
        shared = self.parameters == "shared"
        critic_input = LocalObservation()
        return actor_critic(env, key, network=network, critic_input=critic_input, shared=shared)

    def learner(self) -> PPO:
        # The hyperparameters of PPO are flags. Replace `gae` by another estimator of advantages, or
        # add a `loss`.
        return dataclasses.replace(self.ppo, advantage=gae)

    def check(self) -> None:
        check_shaping(self)
        if self.network in ("cnn", "cnn-gru") and not self.env.has_images:
            raise ValueError(
                f"--network {self.network} reads images: add --env.observation planes."
            )


def main(config: IPPO) -> int:
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
    sys.exit(main(parse(IPPO)))
