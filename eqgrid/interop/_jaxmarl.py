"""The adapters to and from JaxMARL."""

from collections.abc import Mapping
from functools import partial
from typing import TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxmarl.environments import spaces
from jaxmarl.environments.multi_agent_env import MultiAgentEnv
from jaxtyping import Array, Bool, PRNGKeyArray, Shaped

from .._env import AbstractEnv, Environment, TimeStep, unwrap
from .._env_checks import step_env
from .._spaces import AbstractSpace, Box, Discrete, Masked, MultiDiscrete, split_mask
from ..typing import PyTree
from ._foreign import (
    ForeignState,
    check_episodes,
    check_stackable,
    common_space,
    entries_by_agent,
    implicit_promotion,
    mask_rewards,
    observation_spec,
    own_action,
    stack,
    strongly_typed,
    typed_key,
)

ByAgent: TypeAlias = dict[str, PyTree]
"""A dict with one entry per agent: `agent_0`, `agent_1`, and so on."""


@final
class JaxmarlEnv(MultiAgentEnv):
    """An environment of eqgrid as a JaxMARL environment, made by `to_jaxmarl`."""

    def __init__(self, env: Environment):
        super().__init__(env.num_agents)
        self.env, self._per_agent = mask_rewards(env), entries_by_agent(env)
        spec = observation_spec(env, "JaxMARL")
        space = spaces.Box(spec.low, spec.high, spec.shape, spec.dtype)
        self.observation_spaces = dict.fromkeys(self.agents, space)
        self.action_spaces = dict.fromkeys(self.agents, _to_jaxmarl_space(env.action_space))

    @partial(jax.jit, static_argnums=(0,))
    def reset(self, key: PRNGKeyArray) -> tuple[ByAgent, PyTree]:
        observation, state = self.env.reset(typed_key(key))
        return self._observations(observation), state

    @partial(jax.jit, static_argnums=(0,))
    def step_env(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, key: PRNGKeyArray, state: PyTree, actions: ByAgent
    ) -> tuple[ByAgent, PyTree, ByAgent, ByAgent, ByAgent]:
        """One step, without a reset. JaxMARL has no truncation: truncated episodes are done."""
        action = jnp.stack([actions[agent] for agent in self.agents])
        timestep, state = step_env(self.env, typed_key(key), state, action)
        dones = self._split(timestep.terminated | timestep.done)
        infos = {
            name: self._split(x) if name in self._per_agent else x
            for name, x in timestep.info.items()
        }
        return (
            self._observations(timestep.observation),
            state,
            self._split(timestep.reward),
            {**dones, "__all__": timestep.done},
            infos,
        )

    @partial(jax.jit, static_argnums=(0,))
    def get_obs(self, state: PyTree) -> ByAgent:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._observations(self.env.observe(state))

    @partial(jax.jit, static_argnums=(0,))
    def get_avail_actions(self, state: PyTree) -> ByAgent:
        """The action mask of each agent. All actions are allowed if observations have no mask.

        **Raises:** `NotImplementedError` unless actions are discrete.
        """
        space = self.env.action_space
        if not isinstance(space, Discrete | MultiDiscrete):
            raise NotImplementedError("Only discrete actions can be masked.")
        _, action_mask = split_mask(self.env.observe(state))
        if action_mask is None:
            action_mask = jnp.ones((self.num_agents, space.num_options), bool)
        return self._split(action_mask)

    @property
    def name(self) -> str:
        return type(unwrap(self.env)).__name__

    @property
    def agent_classes(self) -> dict[str, list[str]]:
        return {"agents": self.agents}

    def _observations(self, observation: PyTree) -> ByAgent:
        return self._split(split_mask(observation)[0])

    def _split(self, array: Shaped[Array, "agents ..."]) -> ByAgent:
        return {agent: array[i] for i, agent in enumerate(self.agents)}


def to_jaxmarl(env: object) -> MultiAgentEnv:
    """Converts an environment to a JaxMARL environment.

    As usual in JaxMARL, `step` resets automatically. `infos` has the entries of `TimeStep.info`.
    Entries with a row for each agent become dicts by agent, so that JaxMARL's scripts for
    Overcooked find `infos["shaped_reward"]["agent_0"]`. Agents that are done get no reward until
    the episode ends. The state of the innermost environment is `eqgrid.unwrap_state(state)`.

    **Arguments:**

    - `env`: a single environment, with any wrappers except `AutoReset`. Its observation must be
        one array.

    **Raises:** `ValueError` when JaxMARL does not support the observation or the action space, or
    when the environment resets itself.

    !!! example

        ```python
        env = to_jaxmarl(eqgrid.make("overcooked", layout="cramped"))
        observations, state = env.reset(jax.random.PRNGKey(0))
        ```
    """
    return JaxmarlEnv(check_episodes(env, "to_jaxmarl(env)"))


@final
class FromJaxmarl(AbstractEnv):
    """A JaxMARL environment as an `AbstractEnv`, made by `from_jaxmarl`.

    - `own_spaces`: the action space of each agent.
    - `own_actions`: which actions of `action_space` each agent has, or `None` if each has all.
    """

    env: MultiAgentEnv = eqx.field(static=True)
    pad: bool = eqx.field(static=True)
    mask: bool = eqx.field(static=True)
    action_space: AbstractSpace
    own_spaces: tuple[AbstractSpace, ...]
    own_actions: Bool[Array, "agents actions"] | None
    num_agents: int = eqx.field(static=True)

    def __init__(self, env: MultiAgentEnv, pad: bool = False, mask: bool = False):
        self.env, self.pad, self.mask = env, pad, mask
        self.num_agents = len(env.agents)
        self.own_spaces = tuple(_to_eqgrid_space(env.action_space(agent)) for agent in env.agents)
        self.action_space, self.own_actions = common_space(self.own_spaces, env.name, pad)
        with implicit_promotion():
            seen, _ = jax.eval_shape(env.reset, jax.random.key(0))
        if not isinstance(seen, Mapping) or not set(env.agents) <= set(seen):
            raise ValueError(
                f"The observation of {env.name} is not a dict with an entry for each agent: put "
                "a wrapper around it whose reset and step_env return one."
            )
        check_stackable([seen[agent] for agent in env.agents], env.name, pad)
        if mask:
            self._check_masks()

    def _check_masks(self) -> None:
        """**Raises:** `ValueError` unless each agent has a mask for its discrete actions."""
        env = self.env
        try:
            with implicit_promotion():
                masks = jax.eval_shape(
                    lambda key: env.get_avail_actions(env.reset(key)[1]), jax.random.key(0)
                )
        except NotImplementedError:
            masks = {}
        shapes = [tuple(masks[agent].shape) if agent in masks else None for agent in env.agents]
        if shapes != [(x.n,) if isinstance(x, Discrete) else () for x in self.own_spaces]:
            raise ValueError(f"{env.name} has no masks of allowed actions: set mask=False.")

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], ForeignState]:
        with implicit_promotion():
            observations, world = self.env.reset(key)
        observation = self._observation(observations, world)
        return observation, ForeignState(strongly_typed(world), observation)

    def step(
        self, key: PRNGKeyArray, state: ForeignState, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, ForeignState]:
        """Steps the environment. `truncated` is true when all agents are done at the time limit."""
        triples = zip(self.env.agents, self.own_spaces, action, strict=True)
        actions = {agent: own_action(space, padded) for agent, space, padded in triples}
        with implicit_promotion():
            seen, world, rewards, dones, infos = self.env.step_env(key, state.world, actions)
        observation = self._observation(seen, world)
        reward = self._values(rewards, jnp.float32)
        done = jnp.asarray(dones["__all__"], bool).reshape(())
        limit, time = getattr(self.env, "max_steps", None), getattr(world, "step", None)
        truncated = jnp.zeros((), bool)
        if limit is not None and time is not None:
            truncated = done & (jnp.asarray(time).reshape(()) >= limit)
        terminated = (self._values(dones, bool) | done) & ~truncated
        info = {}
        if "shaped_reward" in infos:
            info["shaped_reward"] = self._values(infos["shaped_reward"], jnp.float32)
        timestep = TimeStep(observation, reward, terminated, truncated, info)
        return timestep, ForeignState(strongly_typed(world), observation)

    def observe(self, state: ForeignState) -> PyTree[Shaped[Array, "agents ..."]]:
        return state.observation

    def _observation(self, seen: Mapping[str, Array], world: PyTree) -> PyTree:
        """Stacks the observations of the agents, and adds the mask of their actions, if any."""
        observation = stack([seen[agent] for agent in self.env.agents], self.pad)
        if not self.mask:
            own = self.own_actions
            return observation if own is None else Masked(observation, own)
        with implicit_promotion():
            masks = self.env.get_avail_actions(world)
        rows = [masks[agent].astype(bool) for agent in self.env.agents]
        return Masked(observation, stack(rows, self.own_actions is not None))

    def _values(self, by_agent: Mapping[str, PyTree], dtype: DTypeLike) -> Shaped[Array, " agents"]:
        """One number per agent, from scalars or arrays with one element."""
        return jnp.stack([jnp.asarray(by_agent[a], dtype).reshape(()) for a in self.env.agents])


def from_jaxmarl(env: MultiAgentEnv, *, pad: bool = False, mask: bool = False) -> FromJaxmarl:
    """Converts a JaxMARL environment to an `AbstractEnv`.

    The adapter calls `step_env`, which does not reset. JaxMARL does not distinguish truncation from
    termination. The adapter truncates an episode if all agents are done and the `step` of the state
    has reached `max_steps` of the environment, so the following steps still have a value. It cannot
    detect that an episode also terminates in this step.

    **Arguments:**

    - `env`: such as `jaxmarl.make("MPE_simple_spread_v3")`. Each call of `jaxmarl.make` returns a
        new environment, which JAX compiles again, so reuse one object.
    - `pad`: whether agents may have different observations and actions. Shorter observation vectors
        are padded with zeros at the end. Agents with fewer discrete actions than others get masks
        of their actions. Agents with shorter action vectors ignore the additional numbers.
    - `mask`: whether observations are `Masked` with the environment's `get_avail_actions`.

    **Raises:** `ValueError` when the agents' action spaces or observations differ without `pad`, or
    are not supported, when the observations are not a dict by agent, or when `mask` is set but
    the environment has no masks.

    !!! example

        ```python
        env = from_jaxmarl(jaxmarl.make("MPE_simple_spread_v3"))
        env = Vectorize(AutoReset(LogEpisodes(env)), 64)
        ```
    """
    return FromJaxmarl(env, pad, mask)


def _to_jaxmarl_space(space: AbstractSpace) -> spaces.Space:
    if isinstance(space, Discrete):
        return spaces.Discrete(space.n)
    if isinstance(space, MultiDiscrete):
        return spaces.MultiDiscrete(space.ns)
    if isinstance(space, Box):
        return spaces.Box(space.low, space.high, space.low.shape)
    raise ValueError(f"JaxMARL has no {type(space).__name__}: use Discrete, MultiDiscrete or Box.")


def _to_eqgrid_space(space: spaces.Space) -> AbstractSpace:
    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return MultiDiscrete([int(n) for n in space.num_categories])
    if isinstance(space, spaces.Box):
        return Box(
            jnp.asarray(space.low, float), jnp.asarray(space.high, float), tuple(space.shape)
        )
    raise ValueError(
        f"Actions of a {type(space).__name__} are not supported: use Discrete, MultiDiscrete or "
        "Box."
    )
