"""From settings to environments and networks."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from agents import (
    CNN,
    GRU,
    MLP,
    PPO,
    AbstractCriticInput,
    AbstractNetwork,
    GlobalState,
    JointObservation,
    LocalObservation,
)
from agents.runs.settings._config import Config
from agents.runs.worlds._world_config import check_same_game
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
    OneOf,
    ShapedReward,
    Vectorize,
    WithPartner,
)
from eqgrid.grid import GridWorld, RandomLayouts, WithState

from ._policies import world_of


def build_training_env(config: Config, partners: OneOf | None = None) -> AbstractVectorEnv:
    """Many worlds with the shaped reward, if they have one, which fades while the agents learn.

    **Arguments:**

    - `config`: the settings.
    - `partners`: one of them acts for one of the agents in every episode; those of the settings
        unless given.

    **Raises:** `ValueError` when there is no such world, and `UsageError` when a partner of the
    settings does not fit into it, or was trained in another world or with other rules.
    """
    _check_partners(config)
    world = as_shown(config, config.env.build(train=True))
    world = config.partners.around(world) if partners is None else WithPartner(world, partners)
    one: AbstractEnv = AutoReset(LogEpisodes(world), lazy=config.env.has_slow_resets)
    if config.env.has_shaped_reward:
        one = ShapedReward(one, _fade(config))
    env: AbstractVectorEnv = Vectorize(one, config.num_envs)
    if config.env.normalize_observation:
        env = NormalizeObservation(env)
    if config.env.normalize_reward:
        env = NormalizeReward(env, config.ppo.gamma)
    return env


def _check_partners(config: Config) -> None:
    for path in config.partners.found().policies:
        if (trained_in := world_of(Path(path))) is not None:
            check_same_game(f"The partner {path!r}", trained_in, "this run", config.env)


def with_shaping(
    env: AbstractVectorEnv, configs: Sequence[Config]
) -> tuple[AbstractVectorEnv, PyTree[int | None]]:
    """The environments of many runs that differ in nothing but their shaped reward.

    **Arguments:**

    - `env`: the environments of one of them.
    - `configs`: the settings of each.

    **Returns:** the same for all of them, and which arrays have an axis of the runs, for `train`.
    """
    if len({(config.shaping, config.shaping_steps) for config in configs}) == 1:
        return env, None
    fades = jax.tree.map(lambda *x: jnp.stack(x), *map(_fade, configs))
    many = jax.tree.map(lambda x: fades if _is_fade(x) else x, env, is_leaf=_is_fade)
    axes = jax.tree.map(lambda x: 0 if _is_fade(x) else None, env, is_leaf=_is_fade)
    return many, axes


def stack_settings(configs: Sequence[Config]) -> PPO:
    """The settings of many runs in one, with a vector for each real number."""
    ppos = [config.ppo.with_arrays() for config in configs]
    return jax.tree.map(lambda *x: jnp.stack(x) if eqx.is_array(x[0]) else x[0], *ppos)


def _fade(config: Config) -> LinearSchedule:
    # Every environment counts its own steps, and there are `num_envs` of them.
    return LinearSchedule(config.shaping, 0.0, max(1, config.shaping_steps // config.num_envs))


def _is_fade(x: PyTree) -> bool:
    return isinstance(x, LinearSchedule)


def build_evaluation_env(
    config: Config, world: AbstractEnv, num_envs: int, totals: Sequence[str] = ()
) -> AbstractVectorEnv:
    """Many worlds with nothing but the reward of the game, and `totals` of `info` for each
    episode.
    """
    env = Vectorize(AutoReset(LogEpisodes(as_shown(config, world), totals)), num_envs)
    return NormalizeObservation(env) if config.env.normalize_observation else env


def as_shown(config: Config, world: AbstractEnv) -> AbstractEnv:
    """The world as agents and critics are shown it."""
    world = _with_state(config, world)
    if config.time_left and config.env.horizon is not None:
        world = AppendTimeLeft(world, config.env.horizon)
    return AppendAgentId(world) if config.agent_id else world


def _with_state(config: Config, world: AbstractEnv) -> AbstractEnv:
    """The world with its state beside what agents see, where critics are shown it."""
    if config.critic == "joint":
        return world
    if not isinstance(world, GridWorld | RandomLayouts):
        raise ValueError("--critic state is for worlds on a grid: leave it out.")
    return world.with_observation(WithState(world.observation))


def networks(algorithm: str, config: Config) -> dict[str, Any]:
    """The arguments of `init_train_state` that say what the agents are made of."""
    return {
        "network": build_network(config),
        "view": build_view(algorithm, config),
        "shared": config.parameters == "shared",
    }


def build_view(algorithm: str, config: Config) -> AbstractCriticInput:
    """What critics are shown."""
    if algorithm == "ippo":
        return LocalObservation()
    return JointObservation() if config.critic == "joint" else GlobalState()


def build_network(config: Config) -> Callable[..., AbstractNetwork]:
    """What makes the actor's and the critic's network."""
    kind = functools.partial(
        CNN if "cnn" in config.network else MLP, width=config.width, precision=config.precision
    )
    return functools.partial(GRU, width=config.width, encoder=kind) if remembers(config) else kind


def remembers(config: Config) -> bool:
    """Whether the networks have a memory."""
    return "gru" in config.network
