"""The shapes and dtypes of an environment's `info`, without running the environment."""

import equinox as eqx
import jax
from jaxtyping import Array, PRNGKeyArray, Shaped

from ._env import AbstractEnv


def info_entry(env: AbstractEnv, name: str, wrapper: str) -> jax.ShapeDtypeStruct:
    """The shape and dtype of one entry of `info`.

    **Arguments:**

    - `env`: the environment; it is traced, not run.
    - `name`: the key of the entry.
    - `wrapper`: the name of the calling wrapper, for the error message.

    **Returns:** the shape and dtype of `info[name]`.

    **Raises:** `ValueError` when there is no such entry.
    """
    entries = eqx.filter_eval_shape(_first_info, env, jax.random.key(0))
    if name not in entries:
        known = ", ".join(repr(entry) for entry in sorted(entries)) or "none"
        raise ValueError(f"{wrapper} needs info[{name!r}], but this environment has only: {known}.")
    return entries[name]


def _first_info(env: AbstractEnv, key: PRNGKeyArray) -> dict[str, Shaped[Array, "..."]]:
    reset_key, action_key, step_key = jax.random.split(key, 3)
    _, state = env.reset(reset_key)
    action = jax.vmap(env.action_space.sample)(jax.random.split(action_key, env.num_agents))
    timestep, _ = env.step(step_key, state, action)
    return timestep.info
