"""From the settings of runs to the environments and the learner that they share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from agents import PPO
from agents.runs.settings._experiment import Experiment
from agents.runs.worlds._world_config import check_same_game
from eqgrid import AbstractVectorEnv

from ._policies import world_of


def check_partners(config: Experiment) -> None:
    """**Raises:** `UsageError` when a partner was trained in another world or with other rules."""
    for path in config.partners.found().policies:
        if (trained_in := world_of(Path(path))) is not None:
            check_same_game(f"The partner {path!r}", trained_in, "this run", config.env)


def remembers(config: Experiment, env: AbstractVectorEnv) -> bool:
    """Whether the networks have a memory."""
    return eqx.filter_eval_shape(config.policy, env, jax.random.key(0)).recurrent


def stack_envs(
    env: AbstractVectorEnv, configs: Sequence[Experiment]
) -> tuple[AbstractVectorEnv, PyTree[int | None]]:
    """The environments of many runs whose settings differ in numbers alone.

    **Arguments:**

    - `env`: the environments of the first of them.
    - `configs`: the settings of each.

    **Returns:** the environments of all of them in one, and which arrays have an axis of the runs,
    for `train`.
    """
    if all(_numbers(config) == _numbers(configs[0]) for config in configs):
        return env, None
    arrays = [eqx.filter(config.train_env(), eqx.is_array) for config in configs]
    leaves, tree = jax.tree.flatten(env)
    each = zip(*(jax.tree.leaves(x) for x in arrays), strict=True)
    stacked, axes = [], []
    for leaf in leaves:
        own = next(each) if eqx.is_array(leaf) else [leaf]
        differ = not all(np.array_equal(x, own[0]) for x in own[1:])
        stacked.append(jnp.stack(own) if differ else leaf)
        axes.append(0 if differ else None)
    return jax.tree.unflatten(tree, stacked), jax.tree.unflatten(tree, axes)


def _numbers(config: Experiment) -> tuple[Any, ...]:
    """What the training environments of runs in one program may differ in."""
    return (config.ppo.gamma, *(getattr(config, name) for name in config.in_one_program))


def stack_learners(configs: Sequence[Experiment]) -> PPO:
    """The learners of many runs in one, with a vector for each real number."""
    ppos = [config.learner().with_arrays() for config in configs]
    return jax.tree.map(lambda *x: jnp.stack(x) if eqx.is_array(x[0]) else x[0], *ppos)
