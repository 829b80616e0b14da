"""Spaces, actions, and stepping of an episode from Python, for the adapters to PettingZoo and
Gymnasium, which share their spaces.
"""

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import equinox as eqx
import gymnasium
import jax
import numpy as np
from jaxtyping import Array, ArrayLike, Shaped, UInt8

from .._env import AbstractEnv, AbstractVectorEnv, TimeStep, unwrap, unwrap_state
from .._spaces import Box, Discrete, MultiDiscrete
from ..typing import PyTree
from ..wrappers import TimeLimit
from ._foreign import check_episodes
from ._window import Window

Space: TypeAlias = gymnasium.spaces.Space[Any]
"""A space of Gymnasium."""

Action: TypeAlias = Any
"""An action, as `Space.sample` returns it."""

Info: TypeAlias = dict[str, Any]
"""The info, or the options, of Gymnasium."""


def action_space(env: AbstractEnv) -> Space:
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


def read_action(space: Space, action: Action, who: str) -> Shaped[np.ndarray, "..."]:
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


def to_numpy(tree: PyTree) -> PyTree:
    """Copies every array to a writable NumPy array."""
    return jax.tree.map(np.array, jax.device_get(tree))


Arrays: TypeAlias = tuple[Shaped[Array, "..."], ...]


@final
@dataclass(frozen=True)
class Form:
    """The static part of a PyTree: its structure, and its leaves that are not arrays. It is hashed
    once and passed to compiled functions as a static argument, since flattening all Modules of an
    environment would take longer than its step.
    """

    structure: PyTree
    rest: tuple[object, ...]
    hashed: int

    def __hash__(self) -> int:
        return self.hashed

    def join(self, arrays: Sequence[Shaped[Array, "..."]]) -> PyTree:
        """The PyTree with these arrays as its array leaves."""
        left = iter(arrays)
        leaves = [next(left) if leaf is _ARRAY else leaf for leaf in self.rest]
        return jax.tree.unflatten(self.structure, leaves)


_ARRAY = object()


def split(tree: PyTree) -> tuple[Arrays, Form]:
    """Splits a PyTree into its arrays and its static part."""
    leaves, structure = jax.tree.flatten(tree)
    rest = tuple(_ARRAY if eqx.is_array(leaf) else leaf for leaf in leaves)
    return tuple(filter(eqx.is_array, leaves)), Form(structure, rest, hash((structure, rest)))


def _join(parts: tuple[Arrays, Form]) -> PyTree:
    arrays, form = parts
    return form.join(arrays)


@functools.cache
def _first_process() -> int:
    """The number of the process that called this function first. A process that is forked from it
    inherits the cached number.
    """
    return os.getpid()


def _check_process() -> None:
    """**Raises:** `RuntimeError` in a forked process. It inherits the locks of JAX's threads but
    not the threads, and would wait for them forever.
    """
    if os.getpid() != _first_process():
        raise RuntimeError(
            "JAX hangs in a process that was forked after JAX had started. Start the processes "
            "with 'spawn' or 'forkserver', as in AsyncVectorEnv(..., context='spawn')."
        )


@final
class Episode:
    """A single or vector environment together with its current state, which Gymnasium and
    PettingZoo do not pass around. `reset` and `step` are compiled once for all environments with
    the same static part.
    """

    def __init__(self, env: AbstractEnv | AbstractVectorEnv):
        _first_process()  # remembers this process
        self._env = split(env)
        self._running: tuple[Arrays, Form] | None = None

    def __getstate__(self) -> tuple[PyTree, PyTree]:
        """Whole PyTrees for pickles and copies, since a tree structure cannot be pickled."""
        return _join(self._env), None if self._running is None else _join(self._running)

    def __setstate__(self, trees: tuple[PyTree, PyTree]) -> None:
        env, running = trees
        self._env, self._running = split(env), None if running is None else split(running)

    def reset(self, random: np.random.Generator) -> Shaped[np.ndarray, "..."]:
        """Starts an episode, and returns its first observation.

        **Arguments:**

        - `random`: the generator from which the seed of the episode is drawn.

        **Raises:** `RuntimeError` in a process that was forked from one with environments.
        """
        _check_process()
        number = random.integers(2**32, dtype=np.uint32)
        observation, running = _reset(*self._env, number)
        self._running = split(running)
        return to_numpy(observation)

    def step(self, action: Shaped[np.ndarray, "..."]) -> TimeStep:
        """Advances by one action of every agent. The arrays of the timestep are jax arrays.

        **Raises:** `gymnasium.error.ResetNeeded` before the first reset.
        """
        if self._running is None:
            raise gymnasium.error.ResetNeeded("No episode has begun yet: call reset() first.")
        _check_process()
        timestep, arrays = _step(*self._env, *self._running, action)
        self._running = arrays, self._running[1]
        return timestep

    @property
    def state(self) -> PyTree:
        """The state of the innermost environment, without the states of wrappers.

        **Raises:** `gymnasium.error.ResetNeeded` before the first reset.
        """
        if self._running is None:
            raise gymnasium.error.ResetNeeded("There is nothing to draw yet: call reset() first.")
        _, state = _join(self._running)
        return unwrap_state(state)


@eqx.filter_jit
def _reset(arrays: Arrays, form: Form, number: ArrayLike) -> tuple[Shaped[Array, "..."], PyTree]:
    key, reset_key = jax.random.split(jax.random.key(number))
    observation, state = form.join(arrays).reset(reset_key)
    return observation, (key, state)


# Faster than `eqx.filter_jit`, which is not needed: everything that is not an array is in the
# forms.
@functools.partial(jax.jit, static_argnums=(1, 3))
def _step(
    arrays: Arrays, form: Form, running: Arrays, running_form: Form, action: ArrayLike
) -> tuple[TimeStep, Arrays]:
    key, state = running_form.join(running)
    key, step_key = jax.random.split(key)
    timestep, state = form.join(arrays).step(step_key, state, action)
    return timestep, split((key, state))[0]


def read_timestep(
    timestep: TimeStep,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Info]:
    """Observation, reward, terminated, truncated and info, as NumPy arrays."""
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
    """Draws the states of one environment according to a `render_mode`."""

    def __init__(
        self, env: AbstractEnv, mode: str | None, modes: Sequence[str] = ("rgb_array", "human")
    ):
        """**Arguments:**

        - `env`: the environment, with or without wrappers.
        - `mode`: the `render_mode`.
        - `modes`: the modes that the adapter supports.

        **Raises:** `ValueError` when the environment does not support this mode.
        """
        core = unwrap(env)
        self._name, self._window = type(core).__name__, None
        self._render = getattr(core, "render", None)
        self.mode, self.modes = mode, list(modes) if callable(self._render) else []
        if mode is not None and mode not in self.modes:
            known = " or ".join(map(repr, [*self.modes, None]))
            raise ValueError(f"{self._name} does not support render_mode {mode!r}: choose {known}.")
        # MJX environments define the duration of a step; videos of grids play at the same speed.
        self.frames_per_second = round(1 / float(getattr(core, "seconds_per_step", 0.125)))

    @property
    def metadata(self) -> Info:
        """The `metadata` that Gymnasium and PettingZoo expect."""
        return {"render_modes": self.modes, "render_fps": self.frames_per_second}

    def draw(self, state: PyTree) -> UInt8[np.ndarray, "rows columns 3"] | None:
        """Draws a state: returns the picture, or shows it in a window and returns `None`. The
        height and the width of the picture are even.
        """
        if self.mode is None or self._render is None:
            raise ValueError("There is no render_mode: pass render_mode='rgb_array'.")
        picture = self._render(state)
        # H.264, in which videos are encoded, needs an even height and width.
        height, width = picture.shape[:2]
        picture = np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        if self.mode == "rgb_array":
            return picture
        if self._window is None:
            self._window = Window(self._name, self.frames_per_second)
        self._window.show(picture)
        return None

    def close(self) -> None:
        """Closes the window, if there is one."""
        if self._window is not None:
            self._window.close()
            self._window = None


def prepare(env: object, usage: str, max_cycles: int | None) -> AbstractEnv:
    """Checks the environment of an adapter, and adds a time limit if there is one.

    **Arguments:**

    - `env`: the argument of the adapter.
    - `usage`: how the adapter is called, such as `"to_gymnasium(env)"`, for the message.
    - `max_cycles`: the number of steps after which an episode is truncated, or `None`.

    **Returns:** `env`, in a `TimeLimit` if `max_cycles` is given.

    **Raises:** as `check_episodes`.
    """
    env = check_episodes(env, usage)
    return env if max_cycles is None else TimeLimit(env, max_cycles)
