"""Multi-agent PPO (Yu et al. 2022): critics observe what all agents observe, or the state.

python experiments/mappo.py --env.layout cramped

This script defines the experiment: its settings, the world with its wrappers, the networks,
the critic's input, and PPO. Edit any of them here. `run_experiment` adds folders, checkpoints,
--resume, many seeds, loggers and GIFs.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Annotated, Literal

from eqgrid_lab import Experiment, check_shaping, run_experiment
from jaxtyping import PRNGKeyArray
from msgspec import Meta

from agents import (
    CNN,
    GRU,
    MLP,
    PPO,
    ActorCritic,
    GlobalState,
    JointObservation,
    Precision,
    actor_critic,
    gae,
)
from eqgrid import (
    AbstractEnv,
    AbstractVectorEnv,
    AppendAgentId,
    AppendTimeLeft,
    AutoReset,
    LinearSchedule,
    LogEpisodes,
    NormalizeObservation,
    NormalizeReward,
    ShapedReward,
    Vectorize,
    replace_innermost,
    unwrap,
)
from eqgrid.grid import AbstractGridWorld, RandomLayouts, WithState


@dataclasses.dataclass(frozen=True)
class MAPPO(Experiment):
    """Trains agents with MAPPO, and writes results, plots and checkpoints into a folder."""

    algorithm = "mappo"
    stage_settings = ("shaping", "shaping_steps")  # may differ between stages of a curriculum

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
    precision: Precision = "float32"
    """Dtype of computations in hidden layers; bfloat16 is for accelerators."""
    critic: Literal["joint", "state"] = "joint"
    """Input of critics: the observations of all agents, or the state of the world."""
    agent_id: bool = False
    """Append the agent's one-hot index to its observation."""
    time_left: bool = False
    """Append the remaining share of the episode to observations."""
    shaping: Annotated[float, Meta(ge=0)] = 1.0
    """Initial weight of the shaped reward."""
    shaping_steps: Annotated[int, Meta(ge=0, le=10**15)] = 2_000_000
    """Environment steps over which the weight of the shaped reward decreases to 0."""

    def observe(self, world: AbstractEnv) -> AbstractEnv:
        if self.time_left and self.env.horizon is not None:
            world = AppendTimeLeft(world, self.env.horizon)
        return AppendAgentId(world) if self.agent_id else world

    def with_state(self, world: AbstractEnv) -> AbstractEnv:
        """Adds the state of the world to the observations, if it is the input of critics."""
        if self.critic == "joint":
            return world
        grid = unwrap(world)  # a world of your own may have wrappers around it
        if not isinstance(grid, AbstractGridWorld | RandomLayouts):
            raise ValueError("--critic state is for worlds on a grid: leave it out.")
        shown = grid.with_observation(WithState(grid.observation))
        return replace_innermost(world, lambda _: shown)

    def train_env(self) -> AbstractVectorEnv:
        world = self.observe(self.with_state(self.env.build(train=True)))
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
        return NormalizeReward(envs, self.ppo.gamma) if self.env.normalize_reward else envs

    def eval_env(
        self, world: AbstractEnv, num_envs: int, totals: Sequence[str] = ()
    ) -> AbstractVectorEnv:
        world = self.observe(self.with_state(world))
        envs = Vectorize(AutoReset(LogEpisodes(world, totals)), num_envs)
        # Evaluations use the statistics of training, which then stay fixed.
        return NormalizeObservation(envs) if self.env.normalize_observation else envs

    def policy(self, env: AbstractVectorEnv, key: PRNGKeyArray) -> ActorCritic:
        kind = CNN if "cnn" in self.network else MLP
        network = functools.partial(kind, width=self.width, precision=self.precision)
        if "gru" in self.network:
            network = functools.partial(GRU, width=self.width, encoder=network)
        shared = self.parameters == "shared"
        critic_input = JointObservation() if self.critic == "joint" else GlobalState()
        return actor_critic(env, key, network=network, critic_input=critic_input, shared=shared)

    def learner(self) -> PPO:
        # The hyperparameters of PPO are flags. `gae` is the default; replace it with your function.
        return dataclasses.replace(self.ppo, advantage=gae)

    def check(self) -> None:
        check_shaping(self)
        if self.network in ("cnn", "cnn-gru") and not self.env.has_images:
            raise ValueError(
                f"--network {self.network} reads images: add --env.observation planes."
            )
        if self.time_left and self.env.horizon is None:
            raise ValueError("--time-left counts the steps of an episode: add --env.horizon.")
        if self.time_left and self.env.has_images:
            raise ValueError(
                "--time-left is for features: with --env.observation planes, leave it out."
            )


if __name__ == "__main__":
    # Calls `PPO.update` (agents/ppo/_ppo.py) in blocks of --eval-every steps (agents/training/
    # _train.py), and evaluates and saves after each block (eqgrid_lab/runs/_hooks.py).
    run_experiment(MAPPO)
