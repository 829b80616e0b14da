"""From settings to environments and networks."""

import functools
from collections.abc import Callable, Sequence

import optax

from agents import (
    CNN,
    MLP,
    AbstractCriticInput,
    AbstractNetwork,
    GlobalState,
    JointObservation,
    LocalObservation,
)
from eqgrid import (
    AbstractEnv,
    AbstractVectorEnv,
    AppendAgentId,
    AutoReset,
    LogEpisodes,
    NormalizeObservation,
    NormalizeReward,
    ShapedReward,
    Vectorize,
)
from eqgrid.grid import GridWorld, RandomLayouts, WithState
from experiments._config import Config


def build_training_env(config: Config) -> AbstractVectorEnv:
    """Many worlds with the shaped reward, if they have one, which fades while the agents learn."""
    world = LogEpisodes(_shown(config, config.env.build(train=True)))
    one: AbstractEnv = AutoReset(world, lazy=config.env.has_slow_resets)
    if config.env.has_shaped_reward:
        # Every environment counts its own steps, and there are `num_envs` of them.
        fade_steps = max(1, config.shaping_steps // config.num_envs)
        one = ShapedReward(one, optax.linear_schedule(config.shaping, 0.0, fade_steps))
    env: AbstractVectorEnv = Vectorize(one, config.num_envs)
    if config.env.normalize_observation:
        env = NormalizeObservation(env)
    if config.env.normalize_reward:
        env = NormalizeReward(env, config.ppo.gamma)
    return env


def build_evaluation_env(config: Config, num_envs: int) -> AbstractVectorEnv:
    """Many worlds with nothing but the reward of the game."""
    return vectorize_evaluation(config, config.env.build(train=False), num_envs)


def vectorize_evaluation(
    config: Config, world: AbstractEnv, num_envs: int, totals: Sequence[str] = ()
) -> AbstractVectorEnv:
    """The same of another world, with `totals` of `info` for each episode."""
    env = Vectorize(AutoReset(LogEpisodes(_shown(config, world), totals)), num_envs)
    return NormalizeObservation(env) if config.env.normalize_observation else env


def _shown(config: Config, world: AbstractEnv) -> AbstractEnv:
    """The world as agents and critics are shown it."""
    world = _with_state(config, world)
    return AppendAgentId(world) if config.env.appends_agent_id else world


def _with_state(config: Config, world: AbstractEnv) -> AbstractEnv:
    """The world with its state beside what agents see, where critics are shown it."""
    if config.critic == "joint":
        return world
    if not isinstance(world, GridWorld | RandomLayouts):
        raise ValueError("--critic state is for worlds on a grid: leave it out.")
    return world.with_observation(WithState(world.observation))


def build_view(algorithm: str, config: Config) -> AbstractCriticInput:
    """What critics are shown."""
    if algorithm == "ippo":
        return LocalObservation()
    return JointObservation() if config.critic == "joint" else GlobalState()


def build_network(config: Config) -> Callable[..., AbstractNetwork]:
    """What makes the actor's and the critic's network."""
    return functools.partial(CNN if config.network == "cnn" else MLP, width=config.width)
