"""Checks that policies fit environments and observations, made while a program is traced."""

import equinox as eqx
import jax
import numpy as np

from eqgrid import Environment, VectorEnvironment, is_batch, split_mask
from eqgrid.typing import PyTree

from ._policy import ActorCritic
from ._team import EnvArrays, Shapes


def check_acts(
    policy: ActorCritic, env: VectorEnvironment, observation: EnvArrays | Shapes
) -> None:
    """Checks that a policy can act for the agents of environments.

    **Arguments:**

    - `policy`: the policy.
    - `env`: the environments.
    - `observation`: their observations, or the shapes of these.

    **Raises:** `TypeError` for another type of policy; `ValueError` when the numbers of agents, the
    observations or the actions do not fit.
    """
    if not isinstance(policy, ActorCritic):
        raise TypeError(
            "The policy must be an ActorCritic, such as the field actor_critic of a TrainedPolicy, "
            f"but is of the type {type(policy).__name__}."
        )
    check_num_agents(policy.actor.num_agents, env)

    def output(policy: ActorCritic, seen: PyTree) -> PyTree:
        return policy.actor(policy.critic_input.local(seen), policy.actor.initial_carry())[0]

    seen, _ = split_mask(observation)
    seen = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), seen)
    found = eqx.filter_eval_shape(output, policy, seen).shape[-1]
    needed = policy.head.out_size(env.action_space)
    if found != needed:
        raise ValueError(
            f"The policy has {found} outputs for the actions of an agent, but the actions of the "
            f"environment, {env.action_space!r:.60}, need {needed}."
        )


def check_num_agents(num_agents: int, env: Environment | VectorEnvironment) -> None:
    """**Raises:** `ValueError` when a policy acts for another number of agents."""
    if env.num_agents != num_agents:
        agents = "1 agent" if num_agents == 1 else f"{num_agents} agents"
        raise ValueError(f"The policy acts for {agents}, but the environment has {env.num_agents}.")


def observation_of(env: Environment | VectorEnvironment) -> Shapes:
    """The shapes and dtypes of the observations of all agents of one environment."""
    observation, _ = eqx.filter_eval_shape(env.reset, jax.random.key(0))
    batch_axes = 1 if is_batch(env) else 0
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[batch_axes:], x.dtype), observation)


def check_arrays(what: str, given: PyTree, expected: Shapes) -> None:
    """Checks the shapes, and the dtypes after JAX has converted 64-bit NumPy arrays to 32 bits."""
    arrays = all(isinstance(x, jax.Array | np.ndarray) for x in jax.tree.leaves(given))
    if not arrays or _described(given) != _described(expected):
        found = describe(given) if arrays else f"something that is not an array: {given!r:.60}"
        raise ValueError(
            f"The policy needs the {what} {describe(expected)}, all agents in one array, but got "
            f"{found}."
        )


def check_observation(found: Shapes, expected: Shapes) -> None:
    if _described(found) != _described(expected):
        raise ValueError(
            f"The policy reads observations {describe(expected)}, but the environment returns "
            f"{describe(found)}: it needs the same kind of observation, and a layout of the same "
            f"size, as in training."
        )


def _described(tree: PyTree) -> dict[str, str]:
    """The dtype and the shape of each array, by its path."""
    return {
        jax.tree_util.keystr(path): f"{jax.dtypes.canonicalize_dtype(x.dtype)}{list(x.shape)}"
        for path, x in jax.tree_util.tree_leaves_with_path(tree)
    }


def describe(tree: PyTree) -> str:
    """The dtypes and shapes of the arrays of a tree, as a text."""
    described = [f"{path} {array}".strip() for path, array in _described(tree).items()]
    return " and ".join(described) or "nothing"
