"""JaxMARL, in both directions: our worlds for its trainers, and its worlds for ours."""

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxmarl.environments import spaces
from jaxmarl.environments.multi_agent_env import MultiAgentEnv
from jaxtyping import Array, Bool, PRNGKeyArray, PyTree, Shaped

from .._env import AbstractEnv, TimeStep
from .._nesting import check_single_env
from .._spaces import AbstractSpace, Box, Discrete

ByAgent: TypeAlias = dict[str, Any]
"""One entry for every agent: `agent_0`, `agent_1`, and so on."""


@final
class JaxmarlEnv(MultiAgentEnv):
    """One of our environments, as an environment of JaxMARL: `to_jaxmarl`."""

    def __init__(self, env: AbstractEnv):
        super().__init__(env.num_agents)
        self.env = env
        seen, _ = eqx.filter_eval_shape(env.reset, jax.random.key(0))
        self.observation_spaces = dict.fromkeys(self.agents, _observation_space(seen))
        self.action_spaces = dict.fromkeys(self.agents, _their_space(env.action_space))

    @partial(jax.jit, static_argnums=(0,))
    def reset(self, key: PRNGKeyArray) -> tuple[ByAgent, PyTree]:
        observation, state = self.env.reset(_typed(key))
        return self._split(observation), state

    @partial(jax.jit, static_argnums=(0,))
    def step_env(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, key: PRNGKeyArray, state: PyTree, actions: ByAgent
    ) -> tuple[ByAgent, PyTree, ByAgent, ByAgent, ByAgent]:
        """One step, without a reset. JaxMARL knows no cut episodes: they are done as others are."""
        action = jnp.stack([actions[agent] for agent in self.agents])
        timestep, state = self.env.step(_typed(key), state, action)
        dones = self._split(timestep.terminated | timestep.done)
        infos = {name: self._info(entry) for name, entry in timestep.info.items()}
        return (
            self._split(timestep.observation),
            state,
            self._split(timestep.reward),
            {**dones, "__all__": timestep.done},
            infos,
        )

    @partial(jax.jit, static_argnums=(0,))
    def get_obs(self, state: PyTree) -> ByAgent:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._split(self.env.observe(state))

    @partial(jax.jit, static_argnums=(0,))
    def get_avail_actions(self, state: PyTree) -> ByAgent:
        """Every agent can always do everything."""
        space = self.env.action_space
        if not isinstance(space, Discrete):
            raise NotImplementedError("Only a choice among actions can be masked.")
        return dict.fromkeys(self.agents, jnp.ones(space.n, bool))

    @property
    def name(self) -> str:
        return type(self.env).__name__

    @property
    def agent_classes(self) -> dict[str, list[str]]:
        return {"agents": self.agents}

    def _split(self, array: Shaped[Array, "agents ..."]) -> ByAgent:
        return {agent: array[i] for i, agent in enumerate(self.agents)}

    def _info(self, entry: Shaped[Array, "..."]) -> Any:
        """An entry of `info` by agent, if it has a row for each."""
        return self._split(entry) if entry.shape[:1] == (self.num_agents,) else entry


def to_jaxmarl(env: Any) -> MultiAgentEnv:
    """Makes one of our environments an environment of JaxMARL.

    Its `step` resets by itself, as JaxMARL's base class does. `infos` has the entries of `info`;
    those with a row for every agent are dicts by agent, so that JaxMARL's scripts for Overcooked
    find `infos["shaped_reward"]["agent_0"]`.

    **Arguments:**

    - `env`: one environment, with wrappers or without; its observation is one array.

    **Raises:** `ValueError` when JaxMARL has no such observation or action.

    !!! example

        ```python
        env = to_jaxmarl(eqgrid.make("overcooked", layout="cramped"))
        observations, state = env.reset(jax.random.PRNGKey(0))
        ```
    """
    return JaxmarlEnv(check_single_env(env, "to_jaxmarl(env)"))


@final
class FromJaxmarlState(eqx.Module):
    """The state of an environment of JaxMARL, and what its agents see in it."""

    world: PyTree
    observation: Shaped[Array, "agents ..."]


@final
class FromJaxmarl(AbstractEnv):
    """An environment of JaxMARL as one of ours: `from_jaxmarl`."""

    env: MultiAgentEnv = eqx.field(static=True)
    pad: bool = eqx.field(static=True)
    action_space: AbstractSpace
    num_agents: int = eqx.field(static=True)

    def __init__(self, env: MultiAgentEnv, pad: bool = False):
        self.env, self.pad = env, pad
        self.num_agents = len(env.agents)
        self.action_space = _common_space(env)
        _check_observations(env, pad)

    def reset(self, key: PRNGKeyArray) -> tuple[Shaped[Array, "agents ..."], FromJaxmarlState]:
        with _as_it_was_written():
            observations, world = self.env.reset(key)
        observation = self._stack(observations)
        return observation, FromJaxmarlState(_strongly_typed(world), observation)

    def step(
        self, key: PRNGKeyArray, state: FromJaxmarlState, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, FromJaxmarlState]:
        """`truncated` is true when everybody is done and the time of the environment is up."""
        actions = {agent: action[i] for i, agent in enumerate(self.env.agents)}
        with _as_it_was_written():
            seen, world, rewards, dones, infos = self.env.step_env(key, state.world, actions)
        observation, reward = self._stack(seen), self._values(rewards, jnp.float32)
        over = jnp.asarray(dones["__all__"], bool).reshape(())
        truncated = over & _time_is_up(self.env, world)
        terminated = (self._values(dones, bool) | over) & ~truncated
        info = {}
        if "shaped_reward" in infos:
            info["shaped_reward"] = self._values(infos["shaped_reward"], jnp.float32)
        timestep = TimeStep(observation, reward, terminated, truncated, info)
        return timestep, FromJaxmarlState(_strongly_typed(world), observation)

    def observe(self, state: FromJaxmarlState) -> Shaped[Array, "agents ..."]:
        return state.observation

    def _stack(self, observations: Mapping[str, Array]) -> Shaped[Array, "agents ..."]:
        rows = [observations[agent] for agent in self.env.agents]
        if self.pad:
            longest = max(row.shape[0] for row in rows)
            rows = [jnp.pad(row, (0, longest - row.shape[0])) for row in rows]
        return jnp.stack(rows)

    def _values(self, by_agent: Mapping[str, Any], dtype: Any) -> Shaped[Array, " agents"]:
        """A number for every agent; those of JaxMARL are scalars, or arrays of one number."""
        return jnp.stack([jnp.asarray(by_agent[a], dtype).reshape(()) for a in self.env.agents])


def from_jaxmarl(env: MultiAgentEnv, *, pad: bool = False) -> FromJaxmarl:
    """Makes an environment of JaxMARL one of ours, for our wrappers and trainers.

    It calls `step_env`, which does not reset. JaxMARL tells no end from a cut: where everybody is
    done and the environment has a `max_steps` that its `step` has reached, the episode was cut, and
    the value of what follows is not 0. An episode that ends in that very step counts as cut.

    **Arguments:**

    - `env`: such as `jaxmarl.make("MPE_simple_spread_v3")`. Two calls of `jaxmarl.make` give two
        environments, which are compiled one by one.
    - `pad`: whether vectors that are longer for some agents than for others are padded with zeros
        at the end; otherwise they are refused.

    **Raises:** `ValueError` when agents have different actions or observations, or such that we do
    not have.

    !!! example

        ```python
        env = from_jaxmarl(jaxmarl.make("MPE_simple_spread_v3"))
        env = Vectorize(AutoReset(LogEpisodes(env)), 64)
        ```
    """
    return FromJaxmarl(env, pad)


@contextlib.contextmanager
def _as_it_was_written() -> Iterator[None]:
    """JaxMARL mixes types and ranks of arrays, which whoever uses ours may have forbidden."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def _strongly_typed(world: PyTree) -> PyTree:
    """Arrays whose types do not change from the first state to the next."""
    return jax.tree.map(lambda x: x if eqx.is_array(x) and _is_key(x) else _strong(x), world)


def _strong(x: Any) -> Array:
    array = jnp.asarray(x)
    return jnp.asarray(array, array.dtype)


def _is_key(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _typed(key: PRNGKeyArray) -> PRNGKeyArray:
    """JaxMARL's scripts still make keys of plain numbers, with `jax.random.PRNGKey`."""
    return key if _is_key(key) else jax.random.wrap_key_data(key)


def _observation_space(seen: Any) -> spaces.Box:
    """**Raises:** `ValueError` when an observation is not one array."""
    if not isinstance(seen, jax.ShapeDtypeStruct):
        raise ValueError(
            f"The observation is a {type(seen).__name__}, but must be one array for JaxMARL: "
            "choose such an observation when you build the environment."
        )
    whole = jnp.issubdtype(seen.dtype, jnp.integer)
    low, high = (
        (jnp.iinfo(seen.dtype).min, jnp.iinfo(seen.dtype).max) if whole else (-jnp.inf, jnp.inf)
    )
    return spaces.Box(low, high, seen.shape[1:], seen.dtype)


def _their_space(space: AbstractSpace) -> spaces.Space:
    if isinstance(space, Discrete):
        return spaces.Discrete(space.n)
    if isinstance(space, Box):
        return spaces.Box(space.low, space.high, space.low.shape)
    raise ValueError(f"JaxMARL has no {type(space).__name__}: use Discrete or Box actions.")


def _common_space(env: MultiAgentEnv) -> AbstractSpace:
    """The actions of every agent.

    **Raises:** `ValueError` when they differ, or are neither a number of choices nor a bounded box.
    """
    ours = [_our_space(env.action_space(agent)) for agent in env.agents]
    if not all(eqx.tree_equal(ours[0], other) is True for other in ours[1:]):
        raise ValueError(
            f"The agents of {env.name} have different actions: take an environment in which all of "
            "them have the same."
        )
    return ours[0]


def _our_space(space: spaces.Space) -> AbstractSpace:
    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n))
    if isinstance(space, spaces.Box):
        return Box(
            jnp.asarray(space.low, float), jnp.asarray(space.high, float), tuple(space.shape)
        )
    raise ValueError(
        f"Actions of a {type(space).__name__} are not known: only Discrete and Box are."
    )


def _check_observations(env: MultiAgentEnv, pad: bool) -> None:
    """**Raises:** `ValueError` when the observations of the agents cannot be in one array."""
    with _as_it_was_written():
        seen, _ = jax.eval_shape(env.reset, jax.random.key(0))
    rows = [seen[agent] for agent in env.agents]
    if not all(isinstance(row, jax.ShapeDtypeStruct) for row in rows):
        raise ValueError(
            f"The agents of {env.name} see more than one array each: stack them first."
        )
    if len({row.dtype for row in rows}) > 1:
        raise ValueError(f"The agents of {env.name} see numbers of different types.")
    if len({row.shape for row in rows}) > 1 and not pad:
        raise ValueError(
            f"The agents of {env.name} see {', '.join(str(row.shape) for row in rows)}: say "
            "pad=True to pad them with zeros."
        )
    if pad and any(len(row.shape) != 1 for row in rows):
        raise ValueError(f"Only vectors are padded, but {env.name} shows {rows[0].shape}.")


def _time_is_up(env: MultiAgentEnv, world: Any) -> Bool[Array, ""]:
    limit, step = getattr(env, "max_steps", None), getattr(world, "step", None)
    if limit is None or step is None:
        return jnp.array(False)
    return jnp.asarray(step).reshape(()) >= limit
