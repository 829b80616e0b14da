"""Networks that were taught, as policy files and films."""

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from agents import (
    AbstractNetwork,
    SharedParameters,
    actor_critic,
    save_policy,
    trained_policy,
    write_whole,
)
from eqgrid.grid import GridWorld

from ..folders import write_json
from ..settings import default_settings, page, to_table
from ..show import running_return, with_last
from ..worlds import Kitchen
from ._distil import Played


def write_taught(
    folder: Path,
    command: Sequence[str],
    kitchen: Kitchen,
    network: AbstractNetwork,
    width: int,
    numbers: Mapping[str, Any],
    about: Mapping[str, Any],
    film: tuple[GridWorld, Played] | None,
) -> list[Path]:
    """Writes the results of a page that teaches a network: a policy file, which all commands read
    as that of a run of `ippo.py`, the numbers, and a film.

    **Arguments:**

    - `folder`: the folder of the results.
    - `command`: the page, and the arguments of its command line.
    - `kitchen`: the settings of the world, with the observation of the network.
    - `network`, `width`: the network of every cook, an `MLP`, and the size of its hidden layers.
    - `numbers`: what is written beside the policy, in a file that is called as the page.
    - `about`: further metadata of the policy.
    - `film`: the world, and games of which the first one is drawn, if any.

    **Returns:** the files.
    """
    paths = [folder / "policy.safetensors", folder / Path(command[0]).with_suffix(".json").name]
    _save(kitchen, network, width, about, paths[0])
    write_json(paths[1], {"command": shlex.join(["python", *command]), **numbers})
    if film is not None:
        paths.append(folder / "episode.gif")
        write_whole(paths[-1], _draw(kitchen, *film))
    return paths


def _save(
    kitchen: Kitchen, network: AbstractNetwork, width: int, about: Mapping[str, Any], to: Path
) -> None:
    """The critic, which nobody taught, says 0."""
    settings: Any = default_settings(page("ippo"), kitchen)
    settings = dataclasses.replace(settings, width=width)
    envs = settings.eval_env(kitchen.build(train=False), 1)
    policy = actor_critic(envs, jax.random.key(0))
    actor = SharedParameters(network=network, num_agents=envs.num_agents)
    policy = eqx.tree_at(lambda policy: policy.actor, policy, actor)
    silent = jax.tree.map(lambda x: 0 * x if eqx.is_array(x) else x, policy.critic)
    policy = eqx.tree_at(lambda policy: policy.critic, policy, silent)
    save_policy(to, trained_policy(policy, envs), {"run": to_table(settings), **about})


def _draw(kitchen: Kitchen, world: GridWorld, played: Played) -> bytes:
    states, last = jax.tree.map(lambda x: x[0], (played.worlds, played.last))
    scores = running_return(np.asarray(played.rewards)[0])
    return kitchen.draw(world, with_last(states, last), scores)
