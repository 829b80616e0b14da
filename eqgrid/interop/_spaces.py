"""Conversion of spaces and actions for Gymnasium and PettingZoo, which share their spaces."""

from typing import Any

import equinox as eqx
import gymnasium
import jax
import numpy as np
from jaxtyping import Shaped

from .._env import AbstractEnv
from .._spaces import Box, Discrete, MultiDiscrete


def action_space(env: AbstractEnv) -> gymnasium.spaces.Space[Any]:
    """The Gymnasium action space of one agent.

    **Raises:** `ValueError` when Gymnasium has no such space.
    """
    space = env.action_space
    if isinstance(space, Discrete):
        return gymnasium.spaces.Discrete(space.n)
    if isinstance(space, MultiDiscrete):
        return gymnasium.spaces.MultiDiscrete(np.asarray(space.ns))
    if isinstance(space, Box):
        low, high = np.asarray(space.low), np.asarray(space.high)
        return gymnasium.spaces.Box(low, high, dtype=low.dtype.type)
    raise ValueError(
        f"The actions are of a {type(space).__name__}, but must be Discrete, MultiDiscrete or a "
        "Box for another library."
    )


def observation_space(env: AbstractEnv) -> gymnasium.spaces.Box:
    """The Gymnasium observation space of one agent. Integers are bounded by their dtype, booleans
    by 0 and 1; floats are unbounded.

    **Raises:** `ValueError` when an observation is not one array of a NumPy dtype.
    """
    shown, _ = eqx.filter_eval_shape(env.reset, jax.random.key(0))
    bounds: dict[str, tuple[float, float]] = {"b": (0, 1), "f": (-np.inf, np.inf)}
    if not isinstance(shown, jax.ShapeDtypeStruct) or np.dtype(shown.dtype).kind not in "biuf":
        what = getattr(shown, "dtype", type(shown).__name__)
        raise ValueError(
            f"The observation is of {what}, but must be one array of a NumPy dtype for another "
            "library: choose such an observation when you build the environment."
        )
    shape, dtype = shown.shape[1:], np.dtype(shown.dtype)
    if dtype.kind in "iu":
        bounds[dtype.kind] = (np.iinfo(dtype).min, np.iinfo(dtype).max)
    low, high = bounds[dtype.kind]
    return gymnasium.spaces.Box(low, high, shape, dtype.type)


def read_action(
    space: gymnasium.spaces.Space[Any], action: Any, who: str
) -> Shaped[np.ndarray, "..."]:
    """Converts an action to an array of the space's dtype.

    **Arguments:**

    - `space`: the space of the action.
    - `action`: the action.
    - `who`: the agent, for the error message.

    **Raises:** `ValueError` when it is not in the space.
    """
    try:
        array = np.asarray(action).astype(space.dtype, casting="same_kind")
    except (TypeError, ValueError):
        array = None
    if array is None or not space.contains(array):
        raise ValueError(f"{who} cannot do {action!r:.60}: give it an action of {space}.")
    return array


def to_numpy(tree: Any) -> Any:
    """Copies every array to a writable NumPy array."""
    return jax.tree.map(np.array, jax.device_get(tree))
