"""From settings to environments and networks."""

import functools
from collections.abc import Callable

import optax
from _config import Config, EnvConfig

from agents import CNN, MLP, AbstractNetwork
from eqgrid import (
    AbstractVectorEnv,
    AutoReset,
    LogEpisodes,
    NormalizeObservation,
    ShapedReward,
    Vectorize,
)
from eqgrid.envs.overcooked import Overcooked, random_starts
from eqgrid.grid import GridWorld


def build_kitchen(config: EnvConfig, *, train: bool) -> GridWorld:
    """The kitchen to train or to evaluate in; evaluations begin at the layout's own start."""
    return Overcooked(
        config.layout,
        dynamics=config.dynamics,
        horizon=config.horizon,
        observation=config.observation,
        starts=random_starts(
            config.random_starts if train else 0, full_only=config.dynamics == "classic"
        ),
    )


def build_training_env(config: Config) -> AbstractVectorEnv:
    """Many kitchens with the shaped reward, which fades while the agents learn."""
    kitchen = LogEpisodes(build_kitchen(config.env, train=True))
    # Every environment counts its own steps, and there are `num_envs` of them.
    fade = optax.linear_schedule(
        config.shaping, 0.0, max(1, config.shaping_steps // config.num_envs)
    )
    # All episodes are equally long: they end together, and random starts are dear.
    one = AutoReset(kitchen, lazy=config.env.random_starts > 0)
    env = Vectorize(ShapedReward(one, fade), config.num_envs)
    return NormalizeObservation(env) if config.env.normalize_observation else env


def build_evaluation_env(config: Config, num_envs: int) -> AbstractVectorEnv:
    """Many kitchens with nothing but the reward of the game, from the layout's own start."""
    kitchen = LogEpisodes(build_kitchen(config.env, train=False))
    env = Vectorize(AutoReset(kitchen), num_envs)
    return NormalizeObservation(env) if config.env.normalize_observation else env


def build_network(config: Config) -> Callable[..., AbstractNetwork]:
    """What makes the actor's and the critic's network."""
    return functools.partial(CNN if config.network == "cnn" else MLP, width=config.width)
