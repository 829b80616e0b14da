"""Helpers for the adapters to libraries that are written in JAX."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray, Shaped

from .._env import (
    AbstractEnv,
    AbstractWrapper,
    AbstractWrapperState,
    TimeStep,
    first_timestep,
    unwrap,
)
from .._spaces import AbstractSpace, Box, Discrete, split_mask
from ..typing import PyTree
from ..wrappers import REPLACED, TAKEN, AbstractAutoReset, check_single_env, contains_wrapper


@contextlib.contextmanager
def as_it_was_written() -> Iterator[None]:
    """Allows implicit promotion of dtypes and ranks, which other libraries rely on, even if the
    user has forbidden it.
    """
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def as_it_is(x: PyTree) -> PyTree:
    """The observation itself, for adapters that show the observation of the other library."""
    return x


def strongly_typed(world: PyTree) -> PyTree:
    """The same arrays without weak types, so that the dtypes of a state never change."""

    def strong(x: PyTree) -> Array:
        if eqx.is_array(x) and _is_key(x):
            return x
        array = jnp.asarray(x)
        return jnp.asarray(array, array.dtype)

    return jax.tree.map(strong, world)


def _is_key(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def typed(key: PRNGKeyArray) -> PRNGKeyArray:
    """A typed key, also from the raw keys of `jax.random.PRNGKey` that other libraries use."""
    return key if _is_key(key) else jax.random.wrap_key_data(key)


def check_episodes(env: object, usage: str) -> AbstractEnv:
    """Checks that an adapter is given a single environment whose episodes end.

    **Arguments:**

    - `env`: the argument of the adapter.
    - `usage`: how the adapter is called, such as `"to_gymnax(env)"`, for the message.

    **Returns:** `env`.

    **Raises:** `ValueError` for a vector environment or for `AutoReset`; `TypeError` for anything
    else.
    """
    env = check_single_env(env, usage)
    if contains_wrapper(env, AbstractAutoReset):
        raise ValueError(
            f"{usage} needs episodes that end, and AutoReset starts the next one: leave it out."
        )
    return env


@final
class EarnedState(AbstractWrapperState):
    """The agents that have not terminated, and the inner state."""

    env_state: PyTree
    active: Bool[Array, " agents"]


@final
class Earned(AbstractWrapper):
    """Sets the reward of agents that have terminated to 0. Other libraries sum all rewards of an
    episode, while in eqgrid rewards after termination do not count (see `TimeStep`).

    **Arguments:**

    - `env`: a single environment.
    """

    env: AbstractEnv

    def __init__(self, env: AbstractEnv):
        self.env = env

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], EarnedState]:
        observation, env_state = self.env.reset(key)
        return observation, EarnedState(env_state, jnp.ones(self.num_agents, bool))

    def step(
        self, key: PRNGKeyArray, state: EarnedState, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, EarnedState]:
        timestep, env_state = self.env.step(key, state.env_state, action)
        timestep = dataclasses.replace(timestep, reward=timestep.earned(state.active))
        return timestep, EarnedState(env_state, timestep.acts_next)

    def observe(self, state: EarnedState) -> PyTree[Shaped[Array, "agents ..."]]:
        return self.env.observe(state.env_state)


def paid_until_over(env: AbstractEnv) -> AbstractEnv:
    """`env` with `Earned` around it if it has several agents. A single agent terminates only
    with its episode, so it needs none.
    """
    return Earned(env) if env.num_agents > 1 else env


class Sight(NamedTuple):
    """The observation of one agent.

    - `shape`, `dtype`: the shape and dtype of the array.
    - `low`, `high`: the bounds of its values: the range of the dtype for integers and booleans,
        infinite for floats.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    low: float
    high: float


def sight(env: AbstractEnv, library: str, *, masks: bool = False) -> Sight:
    """The shape, dtype and bounds of the observation of one agent.

    **Arguments:**

    - `env`: a single environment.
    - `library`: the name of the other library, for the error message.
    - `masks`: whether to ignore the mask of a `Masked` observation, which is passed on separately.

    **Raises:** `ValueError` when an observation is not one array of numbers.
    """
    seen, _ = eqx.filter_eval_shape(env.reset, jax.random.key(0))
    seen = split_mask(seen)[0] if masks else seen
    if not isinstance(seen, jax.ShapeDtypeStruct):
        raise ValueError(
            f"The observation is a {type(seen).__name__}, but must be one array for {library}: "
            "choose such an observation when you build the environment."
        )
    dtype, low, high = np.dtype(seen.dtype), -np.inf, np.inf
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    if dtype.kind == "b":
        low, high = 0, 1
    return Sight(seen.shape[1:], dtype, low, high)


def entries_by_agent(env: AbstractEnv, by_agent: Sequence[str]) -> frozenset[str]:
    """The names of the entries of `info` that have a row for each agent.

    They are declared, by the argument of an adapter or by a property `by_agent` of the innermost
    environment, since shapes are ambiguous: a number for each of two rooms has the same shape as a
    number for each of two agents.

    **Arguments:**

    - `env`: a single environment.
    - `by_agent`: the names of such entries, in addition to the entries of eqgrid.

    **Returns:** all such names, also of the sums over an episode that `LogEpisodes` writes.

    **Raises:** `ValueError` when `info` has no entry of a name, or that entry has another shape.
    """
    shapes = eqx.filter_eval_shape(first_timestep, env, jax.random.key(0)) if by_agent else None
    info = {} if shapes is None else shapes.info
    for name in by_agent:
        if name not in info or info[name].shape[:1] != (env.num_agents,):
            known = ", ".join(x for x in info if info[x].shape[:1] == (env.num_agents,)) or "none"
            raise ValueError(
                f"`by_agent` names {name!r:.60}, but no entry of info with {env.num_agents} rows "
                f"has this name: the entries with {env.num_agents} rows are {known}."
            )
    own: tuple[str, ...] = getattr(unwrap(env), "by_agent", ())  # as of an `MjxEnv`
    named = {"shaped_reward", "events", REPLACED, TAKEN, *own, *by_agent}
    return frozenset({*named, "episode_return", *(f"episode_{name}" for name in named)})


def common_space(
    spaces: Sequence[AbstractSpace], name: str, pad: bool
) -> tuple[AbstractSpace, Bool[Array, "agents actions"] | None]:
    """The action space that all agents of an environment of another library share.

    **Arguments:**

    - `spaces`: the action space of each agent.
    - `name`: the name of the environment.
    - `pad`: whether different numbers of actions, or of numbers in an action, are padded.

    **Returns:** the action space, and which of its actions each agent has, if they differ in it.

    **Raises:** `ValueError` when the spaces differ, and cannot or must not be padded.
    """
    if all(bool(eqx.tree_equal(spaces[0], other)) for other in spaces[1:]):
        return spaces[0], None
    if not pad:
        raise ValueError(
            f"The agents of {name} have different actions: set pad=True to give all of them the "
            "largest action space, with a mask of the actions of each agent."
        )
    counts = [space.n for space in spaces if isinstance(space, Discrete)]
    if len(counts) == len(spaces):
        has = np.arange(max(counts))[None] < np.asarray(counts)[:, None]
        return Discrete(max(counts)), jnp.asarray(has)
    longest = max(spaces, key=_length)
    fits = isinstance(longest, Box) and all(
        isinstance(space, Box)
        and _length(space) > 0
        and np.array_equal(space.low, longest.low[: len(space.low)])
        and np.array_equal(space.high, longest.high[: len(space.high)])
        for space in spaces
    )
    if not fits:
        raise ValueError(
            f"The agents of {name} have actions of different kinds or bounds, which cannot be "
            "padded: use an environment in which all of them have the same."
        )
    return longest, None


def _length(space: AbstractSpace) -> int:
    """The number of numbers in an action; 0 if it is not a vector."""
    return space.shape[0] if isinstance(space, Box) and len(space.shape) == 1 else 0


def own_action(space: AbstractSpace, action: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
    """Converts an action in the padded space to the agent's own action space.

    **Arguments:**

    - `space`: the agent's own action space.
    - `action`: an action in the space that `common_space` returned.

    **Returns:** the first numbers of a vector. For a `Discrete` space, it is the same action, or
    the last action of the space if the space does not contain this action.
    """
    if isinstance(space, Discrete):
        return jnp.minimum(action, space.n - 1)
    return action[: _length(space)] if _length(space) else action


def check_rows(rows: Sequence[PyTree], name: str, remedy: str, pad: bool) -> None:
    """Checks that the observations of all agents can be stacked in one array.

    **Arguments:**

    - `rows`: the shape and dtype of the observation of each agent.
    - `name`: the name of the environment.
    - `remedy`: the advice for agents that observe more than one array.
    - `pad`: whether vectors will be padded to the length of the longest.

    **Raises:** `ValueError` when they cannot be stacked.
    """
    if not all(isinstance(row, jax.ShapeDtypeStruct) for row in rows):
        raise ValueError(f"The agents of {name} observe more than one array each: {remedy}.")
    if len({row.dtype for row in rows}) > 1:
        raise ValueError(f"The agents of {name} have observations of different dtypes.")
    if len({row.shape for row in rows}) > 1 and not pad:
        raise ValueError(
            f"The agents of {name} see {', '.join(str(row.shape) for row in rows)}: set "
            "pad=True to pad them with zeros."
        )
    if pad and any(len(row.shape) != 1 for row in rows):
        raise ValueError(
            f"Only vectors can be padded, but {name} has observations of shape {rows[0].shape}."
        )


def stack(rows: Sequence[Shaped[Array, "..."]], pad: bool) -> Shaped[Array, "agents ..."]:
    """Stacks the observations of all agents; with `pad`, shorter vectors are padded with zeros."""
    if pad:
        longest = max(row.shape[0] for row in rows)
        rows = [jnp.pad(row, (0, longest - row.shape[0])) for row in rows]
    return jnp.stack(rows)
