"""Trains a MuJoCo body with PPO. The body is a single agent.

python experiments/body.py --env.model biped

This script defines the experiment: its settings, the world with its wrappers, the networks,
and PPO. Edit any of them here. `run_experiment` adds folders, checkpoints, --resume, many seeds,
loggers and GIFs.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Annotated

from eqgrid_lab import Experiment, WorldSettings, run_experiment, world_settings
from jaxtyping import PRNGKeyArray
from msgspec import Meta

from agents import MLP, PPO, ActorCritic, LocalObservation, Precision, actor_critic, gae
from eqgrid import (
    AbstractEnv,
    AbstractVectorEnv,
    AppendTimeLeft,
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
    precision: Precision = "float32"
    """Dtype of computations in hidden layers; bfloat16 is for accelerators."""
    time_left: bool = False
    """Append the remaining share of the episode to observations."""

    def observe(self, world: AbstractEnv) -> AbstractEnv:
        return AppendTimeLeft(world, self.env.horizon) if self.time_left else world

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
        envs = Vectorize(AutoReset(LogEpisodes(self.observe(world), totals)), num_envs)
        # Evaluations use the statistics of training, which then stay fixed.
        return NormalizeObservation(envs) if self.env.normalize_observation else envs

    def policy(self, env: AbstractVectorEnv, key: PRNGKeyArray) -> ActorCritic:
        network = functools.partial(MLP, width=self.width, precision=self.precision)
        return actor_critic(env, key, network=network, critic_input=LocalObservation())

    def check(self) -> None:
        if self.env.has_shaped_reward:
            raise ValueError(f"--env.name {self.env.name} has a shaped reward: use ippo.py.")
        if self.time_left and self.env.horizon is None:
            raise ValueError("--time-left counts the steps of an episode: add --env.horizon.")

    def learner(self) -> PPO:
        # The hyperparameters of PPO are flags. `gae` is the default; replace it with your function.
        return dataclasses.replace(self.ppo, advantage=gae)


if __name__ == "__main__":
    # Calls `PPO.update` (agents/ppo/_ppo.py) in blocks of --eval-every steps (agents/training/
    # _train.py), and evaluates and saves after each block (eqgrid_lab/runs/_hooks.py).
    run_experiment(Body)
