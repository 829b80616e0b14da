"""The adapters to and from jaxnasium."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxnasium
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, PRNGKeyArray, Shaped

from .._env import AbstractEnv, Environment, TimeStep
from .._env_checks import step_env
from .._spaces import AbstractSpace, Box, Discrete, Masked, MultiDiscrete, split_mask
from ..typing import PyTree
from ._foreign import (
    ForeignState,
    ObservationSpec,
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


@final
class JaxnasiumEnv(jaxnasium.Environment[PyTree]):
    """An environment of eqgrid as a jaxnasium environment, made by `to_jaxnasium`.

    With several agents, observations, actions and rewards are dicts with the keys `agent_0`,
    `agent_1`, and so on. With one agent, they are arrays.
    """

    env: Environment
    agents: tuple[str, ...] = eqx.field(static=True)
    _multi_agent: bool = eqx.field(static=True)
    _per_agent: frozenset[str] = eqx.field(static=True)
    _observation_spec: ObservationSpec = eqx.field(static=True)
    _mask_shape: tuple[int, ...] = eqx.field(static=True)
    _action_spec: tuple[PyTree, ...] = eqx.field(static=True)

    def __init__(self, env: Environment):
        self.env, self._per_agent = mask_rewards(env), entries_by_agent(env)
        self.agents = tuple(f"agent_{i}" for i in range(env.num_agents))
        self._multi_agent = env.num_agents > 1
        self._observation_spec = spec = observation_spec(env, "jaxnasium")
        self._mask_shape = _mask_shape(env.action_space) if spec.masked else ()
        # Static fields are compared under tracing, so they are plain numbers instead of arrays.
        space = env.action_space
        if isinstance(space, Discrete):
            self._action_spec = ("discrete", space.n)
        elif isinstance(space, MultiDiscrete):
            self._action_spec = ("multi_discrete", space.ns)
        elif isinstance(space, Box):
            low, high = (tuple(np.asarray(x).ravel().tolist()) for x in (space.low, space.high))
            self._action_spec = ("box", low, high, space.shape)
        else:
            raise ValueError(
                f"jaxnasium has no {type(space).__name__}: use Discrete, MultiDiscrete or Box."
            )

    def reset_env(self, key: PRNGKeyArray) -> tuple[PyTree, PyTree]:
        observation, state = self.env.reset(typed_key(key))
        return self._observations(observation), state

    def step_env(
        self, key: PRNGKeyArray, state: PyTree, action: PyTree
    ) -> tuple[jaxnasium.TimeStep, PyTree]:
        actions = [action[agent] for agent in self.agents] if self._multi_agent else [action]
        timestep, state = step_env(self.env, typed_key(key), state, jnp.stack(actions))
        truncated = jnp.broadcast_to(timestep.truncated, timestep.terminated.shape)
        theirs = jaxnasium.TimeStep(
            self._observations(timestep.observation),
            self._split(timestep.reward),
            self._split(timestep.terminated),
            self._split(truncated),
            {n: self._split(x) if n in self._per_agent else x for n, x in timestep.info.items()},
        )
        return theirs, state

    @property
    def action_space(self) -> PyTree[jaxnasium.Space]:
        kind, *arguments = self._action_spec
        if kind == "discrete":
            return self._for_all_agents(jaxnasium.Discrete(*arguments))
        if kind == "multi_discrete":
            (options,) = arguments
            return self._for_all_agents(jaxnasium.MultiDiscrete(np.asarray(options)))
        low, high, shape = arguments
        low, high = np.reshape(low, shape), np.reshape(high, shape)
        return self._for_all_agents(jaxnasium.Box(low, high, shape))

    @property
    def observation_space(self) -> PyTree[jaxnasium.Space]:
        spec = self._observation_spec
        space = jaxnasium.Box(spec.low, spec.high, spec.shape, spec.dtype)
        if spec.masked:
            mask = jaxnasium.Box(0, 1, self._mask_shape, bool)
            space = jaxnasium.AgentObservation(space, mask)
        return self._for_all_agents(space)

    def _for_all_agents(self, space: PyTree[jaxnasium.Space]) -> PyTree[jaxnasium.Space]:
        return dict.fromkeys(self.agents, space) if self._multi_agent else space

    def _observations(self, observation: PyTree) -> PyTree:
        unmasked, allowed = split_mask(observation)
        if allowed is None:
            return self._split(unmasked)
        masks = allowed.reshape(-1, *self._mask_shape)
        return self._split(list(map(jaxnasium.AgentObservation, unmasked, masks)))

    def _split(self, rows: Shaped[Array, "agents ..."] | list[PyTree]) -> PyTree:
        by_agent = {agent: rows[i] for i, agent in enumerate(self.agents)}
        return by_agent if self._multi_agent else rows[0]


def _mask_shape(space: Discrete | MultiDiscrete) -> tuple[int, ...]:
    """The shape of one agent's action mask in jaxnasium: `(options,)` or `(choices, options)`.

    **Raises:** `ValueError` when choices have different numbers of options.
    """
    if not isinstance(space, MultiDiscrete):
        return (space.num_options,)
    if len(set(space.ns)) > 1:
        raise ValueError(
            "jaxnasium has no convention for the action mask of choices with different numbers of "
            f"options, but this environment has the choices {space.ns}: use to_pettingzoo."
        )
    return len(space.ns), space.ns[0]


def to_jaxnasium(env: object) -> JaxnasiumEnv:
    """Converts an environment to a jaxnasium environment.

    As usual in jaxnasium, `step` resets automatically. `info` has the entries of `TimeStep.info`.
    Entries with a row for each agent become dicts by agent. Agents that are done get no reward
    until the episode ends. The state of the innermost environment is `eqgrid.unwrap_state(state)`.
    `Masked` observations become jaxnasium's `AgentObservation`.

    **Arguments:**

    - `env`: a single environment, with any wrappers except `AutoReset`. Its observation must be
        one array.

    **Raises:** `ValueError` when jaxnasium does not support the observation, the action space or
    the action mask, `TypeError` when `env` is not an environment.

    !!! example

        ```python
        env = to_jaxnasium(eqgrid.make("overcooked", layout="cramped", observation="features"))
        agents, metrics = jaxnasium.algorithms.PPO().train(jax.random.key(0), env)
        ```
    """
    return JaxnasiumEnv(check_episodes(env, "to_jaxnasium(env)"))


@final
class FromJaxnasium(AbstractEnv):
    """A jaxnasium environment as an `AbstractEnv`, made by `from_jaxnasium`.

    - `own_spaces`: the action space of each agent.
    - `own_actions`: which actions of `action_space` each agent has, or `None` if each has all.
    """

    env: jaxnasium.Environment
    pad: bool = eqx.field(static=True)
    action_space: AbstractSpace
    own_spaces: tuple[AbstractSpace, ...]
    own_actions: Bool[Array, "agents actions"] | None
    num_agents: int = eqx.field(static=True)

    def __init__(self, env: jaxnasium.Environment, pad: bool = False):
        name = type(env).__name__
        self.env, self.pad = env, pad
        spaces = _split_by_agent(env, env.action_space)
        self.own_spaces = tuple(_to_eqgrid_space(space) for space in spaces)
        self.num_agents = len(self.own_spaces)
        self.action_space, self.own_actions = common_space(self.own_spaces, name, pad)
        with implicit_promotion():
            seen, _ = eqx.filter_eval_shape(env.reset, jax.random.key(0))
        rows = [jax.eval_shape(_one_array, row) for row in _split_by_agent(env, seen)]
        check_stackable(rows, name, pad)

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], ForeignState]:
        with implicit_promotion():
            seen, world = self.env.reset(key)
            observation = self._stack(seen)
        return observation, ForeignState(strongly_typed(world), observation)

    def step(
        self, key: PRNGKeyArray, state: ForeignState, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, ForeignState]:
        """Steps the environment. `truncated` is true when all agents have terminated or been
        truncated, and at least one agent has been truncated.
        """
        with implicit_promotion():
            own = [own_action(*pair) for pair in zip(self.own_spaces, action, strict=True)]
            actions = jax.tree.unflatten(self.env.agent_structure, own)
            theirs, world = self._step(key, state.world, actions)
            observation = self._stack(theirs.observation)
            reward = self._values(theirs.reward, jnp.float32)
            terminated = self._values(theirs.terminated, bool)
            cut = self._values(theirs.truncated, bool)  # of each agent
        truncated = (terminated | cut).all() & cut.any()
        timestep = TimeStep(observation, reward, terminated, truncated, {})
        return timestep, ForeignState(strongly_typed(world), observation)

    def observe(self, state: ForeignState) -> PyTree[Shaped[Array, "agents ..."]]:
        return state.observation

    def _step(
        self, key: PRNGKeyArray, world: PyTree, actions: PyTree
    ) -> tuple[jaxnasium.TimeStep, PyTree]:
        """Steps, and returns the observation before any reset. Wrappers of jaxnasium have only a
        `step` that resets. They return the observation before the reset in `info`.
        """
        if type(self.env).step is jaxnasium.Environment.step:
            return self.env.step_env(key, world, actions)
        timestep, world = self.env.step(key, world, actions)
        final_observation = timestep.info[jaxnasium.ORIGINAL_OBSERVATION_KEY]
        return timestep._replace(observation=final_observation), world

    def _stack(self, observation: PyTree) -> PyTree[Shaped[Array, "agents ..."]]:
        rows = [_one_array(row) for row in _split_by_agent(self.env, observation)]
        observation = stack(rows, self.pad)
        return observation if self.own_actions is None else Masked(observation, self.own_actions)

    def _values(self, values: PyTree, dtype: DTypeLike) -> Shaped[Array, " agents"]:
        """One number per agent. A single number for all agents is repeated."""
        if jax.tree.structure(values) != self.env.agent_structure:
            return jnp.full(self.num_agents, values, dtype)
        return jnp.stack([jnp.asarray(x, dtype).reshape(()) for x in jax.tree.leaves(values)])


def from_jaxnasium(env: object, *, pad: bool = False) -> FromJaxnasium:
    """Converts a jaxnasium environment to an `AbstractEnv`.

    The agents are in the order of `jax.tree.leaves`. jaxnasium can truncate one agent; eqgrid
    truncates the episode once every agent has terminated or been truncated. If an agent observes
    several arrays, they are flattened and joined into one vector of floats, in the order of
    `jax.tree.leaves`. Action masks are dropped, and `info` is empty.

    The adapter calls `step_env` of a plain jaxnasium environment, which does not reset. Wrappers of
    jaxnasium, including wrappers around environments of other libraries, have only a `step` that
    resets. The adapter then returns the observation before the reset, and `AutoReset` resets once
    more. It removes the `LogWrapper` that `jaxnasium.make` adds, since `LogEpisodes` replaces it.

    **Arguments:**

    - `env`: such as `jaxnasium.make("CartPole-v1")`.
    - `pad`: whether agents may have different observations and actions. Shorter observation vectors
        are padded with zeros at the end. Agents with fewer discrete actions than others get masks
        of their actions. Agents with shorter action vectors ignore the additional numbers.

    **Raises:** `ValueError` when the agents' action spaces or observations differ without `pad`, or
    are not supported, and when `env` is a batch of environments; `TypeError` when it is not a
    jaxnasium environment.

    !!! example

        ```python
        env = from_jaxnasium(jaxnasium.make("CartPole-v1"))
        env = Vectorize(AutoReset(LogEpisodes(env)), 64)
        ```
    """
    if not isinstance(env, jaxnasium.Environment):
        raise TypeError(
            f"from_jaxnasium needs an environment of jaxnasium, but got a {type(env).__name__}."
        )
    if jaxnasium.is_wrapped(env, jaxnasium.VecEnvWrapper):
        raise ValueError(
            "from_jaxnasium needs a single environment instead of a batch: leave out the "
            "VecEnvWrapper, and use eqgrid's Vectorize."
        )
    return FromJaxnasium(jaxnasium.remove_wrapper(env, jaxnasium.LogWrapper), pad)


def _split_by_agent(env: jaxnasium.Environment, tree: PyTree) -> list[PyTree]:
    """The subtrees of all agents."""
    return env.agent_structure.flatten_up_to(tree)


def _one_array(observation: PyTree) -> Shaped[Array, "..."]:
    """The observation of one agent as one array, without its action mask."""
    if isinstance(observation, jaxnasium.AgentObservation):
        observation = observation.observation
    arrays = jax.tree.leaves(observation)
    if len(arrays) == 1:
        return arrays[0]
    return jnp.concatenate([jnp.ravel(x).astype(float) for x in arrays])


def _to_eqgrid_space(space: object) -> AbstractSpace:
    """**Raises:** `ValueError` unless the space is discrete or a bounded `Box`."""
    if isinstance(space, jaxnasium.Discrete):
        return Discrete(int(space.n))
    if isinstance(space, jaxnasium.MultiDiscrete):
        return MultiDiscrete(np.asarray(space.nvec).tolist())
    if isinstance(space, jaxnasium.Box):
        return Box(jnp.asarray(space.low, float), jnp.asarray(space.high, float), space.shape)
    raise ValueError(
        f"Actions of a {type(space).__name__} are not supported: use Discrete, MultiDiscrete or "
        "Box. jaxnasium's FlattenActionSpaceWrapper converts some other spaces."
    )
