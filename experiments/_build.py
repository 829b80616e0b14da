"""From settings to environments and networks."""

import functools
from collections.abc import Callable

import optax
from _config import Config

from agents import CNN, MLP, AbstractNetwork
from eqgrid import (
    AbstractVectorEnv,
    AutoReset,
    LogEpisodes,
    NormalizeObservation,
    ShapedReward,
    Vectorize,
)


def build_training_env(config: Config) -> AbstractVectorEnv:
    """Many worlds with the shaped reward, which fades while the agents learn."""
    world = LogEpisodes(config.env.build(train=True))
    # Every environment counts its own steps, and there are `num_envs` of them.
    fade = optax.linear_schedule(
        config.shaping, 0.0, max(1, config.shaping_steps // config.num_envs)
    )
    one = AutoReset(world, lazy=config.env.has_slow_resets)
    env = Vectorize(ShapedReward(one, fade), config.num_envs)
    return NormalizeObservation(env) if config.env.normalize_observation else env


def build_evaluation_env(config: Config, num_envs: int) -> AbstractVectorEnv:
    """Many worlds with nothing but the reward of the game."""
    env = Vectorize(AutoReset(LogEpisodes(config.env.build(train=False))), num_envs)
    return NormalizeObservation(env) if config.env.normalize_observation else env


def build_network(config: Config) -> Callable[..., AbstractNetwork]:
    """What makes the actor's and the critic's network."""
    return functools.partial(CNN if config.network == "cnn" else MLP, width=config.width)
