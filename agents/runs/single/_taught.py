"""Networks that were taught, as policy files and films."""

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from agents import AbstractNetwork, SharedParameters, actor_critic, save_policy, trained_policy
from agents.exact._distil import Played
from agents.runs.settings._file import dump
from agents.runs.settings._page import page
from agents.runs.settings._policy_settings import default_settings
from agents.runs.worlds._worlds import Kitchen
from eqgrid.grid import GridWorld


def save_taught(
    kitchen: Kitchen, network: AbstractNetwork, width: int, about: Mapping[str, Any], to: Path
) -> None:
    """Writes a policy file, which all commands read as that of a run of `ippo.py`. Its critic,
    which nobody taught, says 0.

    **Arguments:**

    - `kitchen`: the settings of the world, with the observation of the network.
    - `network`, `width`: the network of every cook, an `MLP`, and the size of its hidden layers.
    - `about`: further metadata of the file.
    - `to`: the file.
    """
    settings: Any = default_settings(page("ippo"), kitchen)
    settings = dataclasses.replace(settings, width=width)
    envs = settings.eval_env(kitchen.build(train=False), 1)
    policy = actor_critic(envs, jax.random.key(0))
    actor = SharedParameters(network=network, num_agents=envs.num_agents)
    policy = eqx.tree_at(lambda policy: policy.actor, policy, actor)
    silent = jax.tree.map(lambda x: 0 * x if eqx.is_array(x) else x, policy.critic)
    policy = eqx.tree_at(lambda policy: policy.critic, policy, silent)
    save_policy(to, trained_policy(policy, envs), {"run": tomllib.loads(dump(settings)), **about})


def film_of(kitchen: Kitchen, world: GridWorld, played: Played) -> bytes:
    """Draws the first of some games."""
    states = jax.tree.map(lambda x: np.asarray(x)[0], played.worlds)
    rewards = np.asarray(played.rewards)[0]
    return kitchen.draw(world, states, np.concatenate([[0.0], np.cumsum(rewards)[:-1]]).tolist())
