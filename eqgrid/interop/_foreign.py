"""What the adapters share: dtypes and keys of other libraries, and descriptions of environments."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray, Shaped

from .._env import AbstractWrapper, AbstractWrapperState, Environment, TimeStep, unwrap
from .._env_checks import check_own_state, check_single_env, step_env
from .._spaces import AbstractSpace, Box, Discrete, split_mask
from ..typing import PyTree
from ..wrappers import (
    JOINT_ACTION,
    PARTNER_MASK,
    AbstractAutoReset,
    contains_wrapper,
    iter_wrappers,
)


@contextlib.contextmanager
def implicit_promotion() -> Iterator[None]:
    """Allows implicit promotion of dtypes and ranks, which other libraries rely on, even if the
    user has forbidden it.
    """
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def strongly_typed(tree: PyTree) -> PyTree:
    """The same arrays without weak types, since `jax.lax.scan` needs a state whose types are the
    same before and after a step.
    """

    def strong(x: PyTree) -> Array:
        if eqx.is_array(x) and _is_key(x):
            return x
        array = jnp.asarray(x)
        return jnp.asarray(array, array.dtype)  # an explicit dtype removes the weak type

    return jax.tree.map(strong, tree)


def _is_key(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def typed_key(key: PRNGKeyArray) -> PRNGKeyArray:
    """Converts a raw key of `jax.random.PRNGKey`, which other libraries use, to a typed key."""
    return key if _is_key(key) else jax.random.wrap_key_data(key)


def check_episodes(env: object, usage: str) -> Environment:
    """Checks that the argument of an adapter is a single environment whose episodes end.

    **Arguments:**

    - `env`: the argument of the adapter.
    - `usage`: the call of the adapter, such as `"to_gymnax(env)"`, for the error message.

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
class ForeignState(eqx.Module):
    """The state of an environment of another library, and the observations of its agents."""

    world: PyTree
    observation: PyTree[Shaped[Array, "agents ..."]]


@final
class MaskRewardsState(AbstractWrapperState):
    """The state of `MaskRewards`.

    - `env_state`: the state of the wrapped environment.
    - `active`: which agents have not terminated; all agents when an episode starts.
    """

    env_state: PyTree
    active: Bool[Array, " agents"]


@final
class MaskRewards(AbstractWrapper):
    """Sets the rewards of agents that have terminated to 0. In eqgrid, rewards after termination do
    not count (see `TimeStep`), but other libraries sum all rewards of an episode.

    **Arguments:**

    - `env`: a single environment.
    """

    env: Environment

    def __init__(self, env: Environment):
        self.env = env

    def reset(
        self, key: PRNGKeyArray
    ) -> tuple[PyTree[Shaped[Array, "agents ..."]], MaskRewardsState]:
        observation, env_state = self.env.reset(key)
        return observation, MaskRewardsState(env_state, jnp.ones(self.num_agents, bool))

    def step(
        self, key: PRNGKeyArray, state: MaskRewardsState, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, MaskRewardsState]:
        check_own_state(self, MaskRewardsState, state, active=(self.num_agents,))
        timestep, env_state = step_env(self.env, key, state.env_state, action)
        timestep = dataclasses.replace(timestep, reward=timestep.counted_reward(state.active))
        return timestep, MaskRewardsState(env_state, timestep.acts_next)

    def observe(self, state: MaskRewardsState) -> PyTree[Shaped[Array, "agents ..."]]:
        check_own_state(self, MaskRewardsState, state, active=(self.num_agents,))
        return self.env.observe(state.env_state)


def mask_rewards(env: Environment) -> Environment:
    """Wraps an environment in `MaskRewards` if it has several agents. A single agent terminates
    only with its episode, so it gets no reward after its termination.
    """
    return MaskRewards(env) if env.num_agents > 1 else env


class ObservationSpec(NamedTuple):
    """The observation of one agent.

    - `shape`, `dtype`: the shape and dtype of the array.
    - `low`, `high`: the bounds of the values. They are the range of the dtype for integers and
        booleans, and infinite for floats.
    - `masked`: whether an action mask comes with the array, as in `Masked`.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    low: float
    high: float
    masked: bool


def observation_spec(env: Environment, library: str) -> ObservationSpec:
    """The shape, dtype and bounds of the observation of one agent.

    **Arguments:**

    - `env`: a single environment.
    - `library`: the name of the other library, for the error message.

    **Raises:** `ValueError` when an observation is not one array of numbers.
    """
    observation, _ = eqx.filter_eval_shape(env.reset, jax.random.key(0))
    observation, action_mask = split_mask(observation)
    if not isinstance(observation, jax.ShapeDtypeStruct):
        kind = type(observation).__name__
        raise ValueError(
            f"The observation is of {kind}, but must be one array for {library}: choose such an "
            "observation when you build the environment."
        )
    dtype, low, high = np.dtype(observation.dtype), -np.inf, np.inf
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    if dtype.kind == "b":
        low, high = 0, 1
    return ObservationSpec(observation.shape[1:], dtype, low, high, action_mask is not None)


def entries_by_agent(env: Environment) -> frozenset[str]:
    """The names of the entries of `info` that have a row for each agent: eqgrid's own, those in the
    property `by_agent` of the environment or of a wrapper, as in `AbstractMjxEnv`, and
    `episode_NAME` for each of them, since `LogEpisodes` adds sums over an episode.

    Shapes are ambiguous: a number for each of two rooms has the same shape as a number for each of
    two agents.
    """
    layers = (*iter_wrappers(env), unwrap(env))
    declared = (name for layer in layers for name in getattr(layer, "by_agent", ()))
    names = {"shaped_reward", "events", PARTNER_MASK, JOINT_ACTION, *declared}
    return frozenset({*names, "episode_return", *(f"episode_{name}" for name in names)})


def common_space(
    spaces: Sequence[AbstractSpace], name: str, pad: bool
) -> tuple[AbstractSpace, Bool[Array, "agents actions"] | None]:
    """Finds one action space for all agents of an environment of another library.

    **Arguments:**

    - `spaces`: the action space of each agent.
    - `name`: the name of the environment, for error messages.
    - `pad`: whether smaller spaces are padded to the largest one: more actions for `Discrete`
        spaces, longer vectors for boxes.

    **Returns:** the action space, and a mask of the actions of each agent. The mask is `None`
    unless agents have different numbers of discrete actions.

    **Raises:** `ValueError` when the spaces differ, and `pad` is false or they cannot be padded.
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
        mask = np.arange(max(counts))[None] < np.asarray(counts)[:, None]
        return Discrete(max(counts)), jnp.asarray(mask)
    longest = max(spaces, key=_vector_length)
    # A shorter vector must have the bounds of the first numbers of the longest vector.
    fits = isinstance(longest, Box) and all(
        isinstance(space, Box)
        and _vector_length(space) > 0
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


def _vector_length(space: AbstractSpace) -> int:
    """The length of an action that is a vector of floats; 0 for any other action."""
    return space.shape[0] if isinstance(space, Box) and len(space.shape) == 1 else 0


def own_action(space: AbstractSpace, action: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
    """Converts an action in the padded space to the agent's own action space. It drops the last
    numbers of a vector that is too long. A discrete action that is too large becomes the largest
    action of the agent's own space.

    **Arguments:**

    - `space`: the agent's own action space.
    - `action`: an action in the space that `common_space` returned.
    """
    if isinstance(space, Discrete):
        return jnp.minimum(action, space.n - 1)
    return action[: _vector_length(space)] if _vector_length(space) else action


def check_stackable(rows: Sequence[PyTree], name: str, pad: bool) -> None:
    """Checks that the observations of all agents can be stacked in one array.

    **Arguments:**

    - `rows`: the shape and dtype of the observation of each agent.
    - `name`: the name of the environment, for error messages.
    - `pad`: whether vectors will be padded to the length of the longest.

    **Raises:** `ValueError` when the observations cannot be stacked.
    """
    if not all(isinstance(row, jax.ShapeDtypeStruct) for row in rows):
        raise ValueError(
            f"The agents of {name} observe more than one array each: stack them in an environment "
            "of your own first."
        )
    if len({row.dtype for row in rows}) > 1:
        raise ValueError(f"The agents of {name} have observations of different dtypes.")
    if len({row.shape for row in rows}) > 1 and not pad:
        raise ValueError(
            f"The agents of {name} see {', '.join(str(row.shape) for row in rows)}: set pad=True "
            "to pad them with zeros."
        )
    if pad and any(len(row.shape) != 1 for row in rows):
        raise ValueError(
            f"Only vectors can be padded, but {name} has observations of shape {rows[0].shape}."
        )


def stack(rows: Sequence[Shaped[Array, "..."]], pad: bool) -> Shaped[Array, "agents ..."]:
    """Stacks the observations of all agents. With `pad`, shorter vectors are padded with zeros."""
    if pad:
        longest = max(row.shape[0] for row in rows)
        rows = [jnp.pad(row, (0, longest - row.shape[0])) for row in rows]
    return jnp.stack(rows)
