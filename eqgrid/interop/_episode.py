"""What the adapters to PettingZoo and Gymnasium share: spaces, actions, rendering, and an `Episode`
that Python code steps.
"""

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Int8, Shaped, UInt8

from .._env import Environment, TimeStep, VectorEnvironment, unwrap, unwrap_state
from .._env_checks import step_env
from .._spaces import Box, Discrete, MultiDiscrete
from ..typing import PyTree
from ._foreign import observation_spec

Space: TypeAlias = gymnasium.spaces.Space[Any]
"""A space of Gymnasium."""

Action: TypeAlias = Any
"""An action, as `Space.sample` returns it."""

ActionMask: TypeAlias = Int8[np.ndarray, "..."] | tuple[Int8[np.ndarray, "..."], ...]
"""The action mask of one agent, as the argument `mask` of `Space.sample`."""

Info: TypeAlias = dict[str, Any]
"""The info of a step, or the options of a reset."""


def action_space(env: Environment) -> Space:
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


def observation_space(env: Environment, *, masks: bool = False) -> Space:
    """The Gymnasium observation space of one agent, with the bounds of `observation_spec`.

    **Arguments:**

    - `env`: a single environment.
    - `masks`: whether a `Masked` observation is a dict with its `action_mask`, as in PettingZoo,
        or only the array.

    **Raises:** `ValueError` when an observation is not one array of a NumPy dtype.
    """
    spec = observation_spec(env, "another library")
    if spec.dtype.kind not in "biuf":
        raise ValueError(
            f"The observation is of {spec.dtype}, but must be of a NumPy dtype for another "
            "library: choose such an observation when you build the environment."
        )
    array = gymnasium.spaces.Box(spec.low, spec.high, spec.shape, spec.dtype.type)
    if not (masks and spec.masked):
        return array
    mask = _mask_space(env.action_space)
    return gymnasium.spaces.Dict({"observation": array, "action_mask": mask})


def _mask_space(space: Discrete | MultiDiscrete) -> Space:
    """The space of the results of `action_mask`."""
    choices = space.split(jnp.ones(space.num_options, jnp.int8))
    masks = [gymnasium.spaces.Box(0, 1, choice.shape, np.int8) for choice in choices]
    return gymnasium.spaces.Tuple(masks) if isinstance(space, MultiDiscrete) else masks[0]


def action_mask(space: Space, allowed: Bool[np.ndarray, " options"]) -> ActionMask:
    """The action mask of one agent, as `space.sample(mask)` expects it: 1 for each allowed action,
    or a tuple of such arrays, one for each choice of a `MultiDiscrete`.
    """
    numbers = allowed.astype(np.int8)
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return tuple(np.split(numbers, np.cumsum(space.nvec)[:-1]))
    return numbers


def read_action(space: Space, action: Action, agent: str) -> Shaped[np.ndarray, "..."]:
    """Converts an action to an array of the space's dtype.

    **Arguments:**

    - `space`: the space of the action.
    - `action`: the action.
    - `agent`: the name of the agent, for the error message.

    **Raises:** `ValueError` when the action is not in the space.
    """
    try:
        array = np.asarray(action).astype(space.dtype, casting="same_kind")
    except (TypeError, ValueError):
        array = None
    if array is None or not space.contains(array):
        raise ValueError(f"{agent} cannot do {action!r:.60}: give it an action of {space}.")
    return array


def to_numpy(tree: PyTree) -> PyTree:
    """Copies every array to a writable NumPy array."""
    return jax.tree.map(np.array, jax.device_get(tree))


Arrays: TypeAlias = tuple[Shaped[Array, "..."], ...]


@final
@dataclass(frozen=True)
class StaticPart:
    """The static part of a PyTree, which compiled functions take as a static argument. It is
    computed once for each environment, because flattening the Modules of an environment takes
    longer than its step.

    - `structure`: the structure of the PyTree.
    - `leaves`: its leaves, with a placeholder for each array.
    - `hashed`: the hash of both.
    """

    structure: PyTree
    leaves: tuple[object, ...]
    hashed: int

    def __hash__(self) -> int:
        return self.hashed

    def join(self, arrays: Sequence[Shaped[Array, "..."]]) -> PyTree:
        """The PyTree with these arrays in place of the placeholders."""
        remaining = iter(arrays)
        leaves = [next(remaining) if leaf is _ARRAY else leaf for leaf in self.leaves]
        return jax.tree.unflatten(self.structure, leaves)


_ARRAY = object()
"""The placeholder for an array."""


def split(tree: PyTree) -> tuple[Arrays, StaticPart]:
    """Splits a PyTree into its arrays and its static part."""
    leaves, structure = jax.tree.flatten(tree)
    arrays = tuple(filter(eqx.is_array, leaves))
    leaves = tuple(_ARRAY if eqx.is_array(leaf) else leaf for leaf in leaves)
    return arrays, StaticPart(structure, leaves, hash((structure, leaves)))


def _join(parts: tuple[Arrays, StaticPart]) -> PyTree:
    arrays, static = parts
    return static.join(arrays)


@functools.cache
def _first_process() -> int:
    """The id of the process that called this function first. Forked processes inherit the cached
    id, which differs from their own id.
    """
    return os.getpid()


def _check_not_forked() -> None:
    """**Raises:** `RuntimeError` in a forked process, where JAX hangs: the process inherits locks
    of JAX's threads, but not the threads that would release them.
    """
    if os.getpid() != _first_process():
        raise RuntimeError(
            "JAX hangs in a process that was forked after JAX had started. Start the processes "
            "with 'spawn' or 'forkserver', as in AsyncVectorEnv(..., context='spawn')."
        )


@final
class Episode:
    """A single or vector environment together with its current state, since environments of
    Gymnasium and PettingZoo are stateful. All environments with the same static part share the
    compiled `reset` and `step`.
    """

    def __init__(self, env: Environment | VectorEnvironment):
        _first_process()  # caches the id of this process
        self._env = split(env)
        self._running: tuple[Arrays, StaticPart] | None = None  # the key and the state

    def __getstate__(self) -> tuple[PyTree, PyTree]:
        """Joins both parts of each PyTree for pickles and copies, since the structure in a static
        part cannot be pickled.
        """
        return _join(self._env), None if self._running is None else _join(self._running)

    def __setstate__(self, trees: tuple[PyTree, PyTree]) -> None:
        """Splits the PyTrees that `__getstate__` has joined."""
        env, running = trees
        self._env, self._running = split(env), None if running is None else split(running)

    def reset(self, random: np.random.Generator) -> PyTree[Shaped[np.ndarray, "..."]]:
        """Starts an episode, and returns its first observation.

        **Arguments:**

        - `random`: the generator that samples the seed of the episode.

        **Raises:** `RuntimeError` in a forked process, if its parent process has environments.
        """
        _check_not_forked()
        seed = random.integers(2**32, dtype=np.uint32)
        observation, running = _reset(*self._env, seed)
        self._running = split(running)
        return to_numpy(observation)

    def step(self, action: Shaped[np.ndarray, "..."]) -> TimeStep:
        """Advances by one action of every agent. The arrays of the timestep are jax arrays.

        **Raises:** `gymnasium.error.ResetNeeded` before the first reset.
        """
        if self._running is None:
            raise gymnasium.error.ResetNeeded("No episode has begun yet: call reset() first.")
        _check_not_forked()
        timestep, arrays = _step(*self._env, *self._running, action)
        _, static = self._running
        self._running = arrays, static  # a step changes only arrays
        return timestep

    @property
    def state(self) -> PyTree:
        """The state of the innermost environment, without the states of wrappers.

        **Raises:** `gymnasium.error.ResetNeeded` before the first reset.
        """
        if self._running is None:
            raise gymnasium.error.ResetNeeded("There is no state yet: call reset() first.")
        _, state = _join(self._running)
        return unwrap_state(state)


@eqx.filter_jit
def _reset(
    env_arrays: Arrays, env_static: StaticPart, seed: ArrayLike
) -> tuple[PyTree[Shaped[Array, "..."]], PyTree]:
    key, reset_key = jax.random.split(jax.random.key(seed))
    observation, state = env_static.join(env_arrays).reset(reset_key)
    return observation, (key, state)


# `jax.jit` is faster than `eqx.filter_jit`, and suffices since arrays and static parts are already
# separate arguments.
@functools.partial(jax.jit, static_argnums=(1, 3))
def _step(
    env_arrays: Arrays,
    env_static: StaticPart,
    running_arrays: Arrays,
    running_static: StaticPart,
    action: Shaped[Array, "..."],
) -> tuple[TimeStep, Arrays]:
    key, state = running_static.join(running_arrays)
    key, step_key = jax.random.split(key)
    timestep, state = step_env(env_static.join(env_arrays), step_key, state, action)
    return timestep, split((key, state))[0]


def read_timestep(
    timestep: TimeStep,
) -> tuple[PyTree, np.ndarray, np.ndarray, np.ndarray, Info]:
    """Converts a time step to a tuple of NumPy arrays in the order of Gymnasium: observation
    (possibly `Masked`), reward, terminated, truncated and info.
    """
    return to_numpy(
        (
            timestep.observation,
            timestep.reward,
            timestep.terminated,
            timestep.truncated,
            timestep.info,
        )
    )


@final
class Screen:
    """Draws the states of one environment in the `render_mode` `rgb_array`."""

    def __init__(self, env: Environment, mode: str | None):
        """**Arguments:**

        - `env`: the environment, with or without wrappers.
        - `mode`: the `render_mode`.

        **Raises:** `ValueError` when the environment does not support this mode.
        """
        core = unwrap(env)
        self._render = getattr(core, "render", None)
        modes = ["rgb_array"] if callable(self._render) else []
        if mode not in (*modes, None):
            known = " or ".join(map(repr, [*modes, None]))
            name = type(core).__name__
            raise ValueError(f"{name} does not support render_mode {mode!r}: choose {known}.")
        # MJX environments define the duration of a step; grid worlds play at 8 steps per second.
        rate = round(1 / float(getattr(core, "seconds_per_step", 0.125)))
        self.mode, self.metadata = mode, {"render_modes": modes, "render_fps": rate}

    def draw(self, state: PyTree) -> UInt8[np.ndarray, "rows columns 3"]:
        """The picture of a state, with an even height and width."""
        if self.mode is None or self._render is None:
            raise ValueError("There is no render_mode: pass render_mode='rgb_array'.")
        picture = self._render(state)
        # Video encoders such as H.264 need an even height and width.
        height, width = picture.shape[:2]
        return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
