"""Trains a MuJoCo body with PPO. The body is a single agent.

python experiments/body.py --env.model biped

From top to bottom, this script has its settings, the environments, the networks, PPO, and the
training loop in `main`. Edit any of them here.
"""

import dataclasses
import functools
import sys
from collections.abc import Sequence
from typing import Annotated

from eqgrid_lab import Experiment, Run, WorldSettings, parse, world_settings
import jax
from jaxtyping import PRNGKeyArray
from msgspec import Meta

from agents import MLP, PPO, ActorCritic, LocalObservation, TrainState, actor_critic, gae
from eqgrid import (
    AbstractEnv,
    AbstractVectorEnv,
    AutoReset,
    LogEpisodes,
    NormalizeObservation,
    NormalizeReward,
    Vectorize,
)


@dataclasses.dataclass(frozen=True)
class Body(Experiment):
    """Trains a MuJoCo body with PPO, and writes results, plots and checkpoints into a folder."""

    algorithm = "body"

    # Every field is a flag. `Experiment` has the flags of the world (--env.model), of PPO
    # (--ppo.learning-rate) and of the run (--total-steps, --num-envs, --seed).
    env: WorldSettings = dataclasses.field(default_factory=lambda: world_settings("body"))
    width: Annotated[int, Meta(ge=1, le=2**16)] = 64
    """Units per hidden layer."""

    def observe(self, world: AbstractEnv) -> AbstractEnv:
        return world

    def train_env(self) -> AbstractVectorEnv:
        world = self.with_partners(self.observe(self.env.build(train=True)))
        env = AutoReset(LogEpisodes(world, self.log_info), lazy=self.env.has_slow_resets)
        env = self.anneal_partners(env)
        envs = Vectorize(env, self.num_envs)
        if self.env.normalize_observation:
            envs = NormalizeObservation(envs)
        return NormalizeReward(envs, self.ppo.gamma) if self.env.normalize_reward else envs

    def eval_env(
        self, world: AbstractEnv, num_envs: int, totals: Sequence[str] = ()
    ) -> AbstractVectorEnv:
        return Vectorize(AutoReset(LogEpisodes(self.observe(world), totals)), num_envs)

    def policy(self, env: AbstractVectorEnv, key: PRNGKeyArray) -> ActorCritic:
        network = functools.partial(MLP, width=self.width)
        return actor_critic(env, key, network=network, critic_input=LocalObservation())

    def check(self) -> None:
        if self.env.has_shaped_reward:
            raise ValueError(f"--env.name {self.env.name} has a shaped reward: use ippo.py.")

    def learner(self) -> PPO:
        # The hyperparameters of PPO are flags. `gae` is the default; replace it with your function.
        return dataclasses.replace(self.ppo, advantage=gae)


def main(config: Body) -> int:
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
    sys.exit(main(parse(Body)))
