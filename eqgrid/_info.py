"""The shapes and dtypes of what an environment returns, without running the environment."""

import equinox as eqx
import jax
from jaxtyping import PRNGKeyArray

from ._env import AbstractEnv, TimeStep


def info_entry(env: AbstractEnv, name: str, wrapper: str) -> jax.ShapeDtypeStruct:
    """The shape and dtype of one entry of `info`.

    **Arguments:**

    - `env`: the environment; it is traced, not run.
    - `name`: the key of the entry.
    - `wrapper`: the name of the calling wrapper, for the error message.

    **Returns:** the shape and dtype of `info[name]`.

    **Raises:** `ValueError` when there is no such entry.
    """
    entries = eqx.filter_eval_shape(first_timestep, env, jax.random.key(0)).info
    if name not in entries:
        known = ", ".join(repr(entry) for entry in sorted(entries)) or "none"
        raise ValueError(f"{wrapper} needs info[{name!r}], but this environment has only: {known}.")
    return entries[name]


def first_timestep(env: AbstractEnv, key: PRNGKeyArray) -> TimeStep:
    """The result of the first step of an episode, with random actions.

    Under `eqx.filter_eval_shape` it gives the shapes of what an environment returns.

    **Arguments:**

    - `env`: the environment.
    - `key`: the source of randomness.
    """
    reset_key, action_key, step_key = jax.random.split(key, 3)
    _, state = env.reset(reset_key)
    action = jax.vmap(env.action_space.sample)(jax.random.split(action_key, env.num_agents))
    timestep, _ = env.step(step_key, state, action)
    return timestep
