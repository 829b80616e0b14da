"""The adapter from jumanji, for environments with one or several agents."""

import operator
from collections.abc import Callable
from typing import TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, PRNGKeyArray, Shaped
from jumanji import specs
from jumanji.env import Environment
from jumanji.wrappers import AutoResetWrapper, VmapAutoResetWrapper, VmapWrapper, Wrapper

from .._env import AbstractEnv, TimeStep
from .._spaces import AbstractSpace, Box, Discrete, Masked
from ..typing import PyTree
from ._foreign import identity, implicit_promotion, strongly_typed

Observe: TypeAlias = Callable[[PyTree], PyTree]
"""A function from an observation of jumanji to the observations of the agents."""

_NOT_OBSERVED = ("action_mask", "step_count")
"""Fields of an observation of jumanji that are not part of the agent's observation by default."""

_MAX_ACTIONS = 10_000
"""The largest number of combined actions of one agent with several choices."""


@final
class FromJumanjiState(eqx.Module):
    """The state of a `FromJumanji`.

    - `world`: the state of the jumanji environment.
    - `observation`: the observations of the agents.
    - `over`: which agents have terminated.
    """

    world: PyTree
    observation: PyTree[Shaped[Array, "agents ..."]]
    over: Bool[Array, " agents"]


@final
class FromJumanji(AbstractEnv):
    """A jumanji environment as an `AbstractEnv`, made by `from_jumanji`.

    - `seen`: the argument `observe` of `from_jumanji`, or its default.
    - `choices`: the number of options of each choice, if an action combines several choices.
    """

    env: Environment = eqx.field(static=True)
    seen: Observe = eqx.field(static=True)
    mask: bool = eqx.field(static=True)
    choices: tuple[int, ...] | None = eqx.field(static=True)
    action_space: AbstractSpace
    num_agents: int = eqx.field(static=True)

    def __init__(self, env: Environment, observe: Observe | None, mask: bool):
        inner = env
        while isinstance(inner, Wrapper):
            if isinstance(inner, AutoResetWrapper | VmapAutoResetWrapper | VmapWrapper):
                raise ValueError(
                    "from_jumanji(env) needs a single environment that does not reset itself: leave"
                    f" out its {type(inner).__name__}, and use Vectorize(AutoReset(env), num_envs)."
                )
            inner = inner._env
        self.env, self.num_agents = env, getattr(env, "num_agents", 1)
        self.action_space, self.choices = _actions(env, self._multi_agent)
        with implicit_promotion():
            _, first = jax.eval_shape(env.reset, jax.random.PRNGKey(0))
        theirs = first.observation
        self.seen = _default_observe(env, theirs, self._multi_agent) if observe is None else observe
        for array in jax.tree.leaves(jax.eval_shape(lambda x: self._unmasked(x), theirs)):
            if array.shape[:1] != (self.num_agents,):
                raise ValueError(
                    f"An observation of the {self.num_agents} agents of {_name(env)} must have a "
                    f"row for each, but has the shape {array.shape}: let observe stack the rows."
                )
        self.mask = mask and hasattr(theirs, "action_mask")
        if self.mask:
            shape, space = jax.eval_shape(lambda x: self._mask(x), theirs).shape, self.action_space
            if not isinstance(space, Discrete) or shape[1:] != (space.n,):
                raise ValueError(
                    f"The masks of {_name(env)} have the shape {shape}, which does not fit its "
                    "actions: set mask=False."
                )

    @property
    def _multi_agent(self) -> bool:
        """Whether the arrays of jumanji lead with an axis of agents."""
        return hasattr(self.env, "num_agents")

    def reset(
        self, key: PRNGKeyArray
    ) -> tuple[PyTree[Shaped[Array, "agents ..."]], FromJumanjiState]:
        with implicit_promotion():
            world, first = self.env.reset(jax.random.key_data(key))
        observation = self._observation(first.observation)
        terminated = jnp.zeros(self.num_agents, bool)
        return observation, FromJumanjiState(strongly_typed(world), observation, terminated)

    def step(
        self, key: PRNGKeyArray, state: FromJumanjiState, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, FromJumanjiState]:
        """Steps the environment. An agent terminates when its discount is 0. An episode that ends
        before all agents have terminated is truncated.

        The key is not used: the randomness of a step comes from jumanji's state.
        """
        with implicit_promotion():
            world, after = self.env.step(state.world, self._their_action(action))
        observation = self._observation(after.observation)
        terminated = state.over | (self._by_agent(after.discount) == 0)
        reward = self._by_agent(after.reward).astype(float)
        truncated = jnp.asarray(after.last()) & ~terminated.all()
        info = {name: jnp.asarray(value) for name, value in after.extras.items()}
        timestep = TimeStep(observation, reward, terminated, truncated, info)
        return timestep, FromJumanjiState(strongly_typed(world), observation, terminated)

    def observe(self, state: FromJumanjiState) -> PyTree[Shaped[Array, "agents ..."]]:
        return state.observation

    def _their_action(self, action: Shaped[Array, "agents ..."]) -> Shaped[Array, "..."]:
        if self._multi_agent:
            return action.astype(self.env.action_spec.dtype)
        if self.choices is not None:
            return jnp.stack(jnp.unravel_index(action[0], self.choices))
        return action[0].astype(self.env.action_spec.dtype)

    def _observation(self, theirs: PyTree) -> PyTree[Shaped[Array, "agents ..."]]:
        """Converts an observation of jumanji to the observations of the agents."""
        observation = self._unmasked(theirs)
        return Masked(observation, self._mask(theirs)) if self.mask else observation

    def _unmasked(self, theirs: PyTree) -> PyTree[Shaped[Array, "agents ..."]]:
        with implicit_promotion():
            observation = strongly_typed(self.seen(theirs))
        return observation if self._multi_agent else jax.tree.map(lambda x: x[None], observation)

    def _mask(self, theirs: PyTree) -> Bool[Array, "agents actions"]:
        mask = jnp.asarray(theirs.action_mask, bool)
        return mask if self._multi_agent else mask.reshape(1, -1)

    def _by_agent(self, numbers: ArrayLike) -> Shaped[Array, " agents"]:
        """One number per agent; a number for all agents is repeated."""
        return jnp.broadcast_to(jnp.asarray(numbers), (self.num_agents,))


def from_jumanji(
    env: Environment, *, observe: Observe | None = None, mask: bool = True
) -> FromJumanji:
    """Converts a jumanji environment to an `AbstractEnv`.

    The number of agents is `num_agents` of the environment, or 1 if it has no such attribute. A
    scalar reward or discount applies to every agent. An agent terminates when its discount is 0. An
    episode that ends with another discount is truncated, so its last value is bootstrapped.

    If one agent makes several choices, such as the rotation and the column in Tetris, these become
    one `Discrete` action, in the order of `numpy.ravel_multi_index`.

    **Arguments:**

    - `env`: such as `jumanji.make("RobotWarehouse-v0")`. Reuse one object: each call of
        `jumanji.make` returns a new one, which JAX compiles again.
    - `observe`: a function from an observation of jumanji to the observations of the agents, which
        are one array or a PyTree of arrays. With several agents, each array needs a leading axis of
        agents. The default is the field `agents_view` or, for one agent, the only array except
        `action_mask` and `step_count`.
    - `mask`: whether observations are `Masked` with jumanji's `action_mask`, if there is one.

    **Raises:** `ValueError` when the observation has no default, or when the action space or the
    mask is not supported.

    !!! example

        ```python
        env = from_jumanji(jumanji.make("LevelBasedForaging-v0"))
        env = Vectorize(AutoReset(LogEpisodes(env)), 64)
        ```
    """
    return FromJumanji(env, observe, mask)


def _actions(env: Environment, multi_agent: bool) -> tuple[AbstractSpace, tuple[int, ...] | None]:
    """The action space of one agent. If an action combines several choices, also the number of
    options of each choice, otherwise `None`.

    **Raises:** `ValueError` unless the actions are discrete or a bounded box.
    """
    spec = env.action_spec
    if isinstance(spec, specs.DiscreteArray):
        return Discrete(int(spec.num_values)), None
    if isinstance(spec, specs.MultiDiscreteArray):
        choices = np.asarray(spec.num_values)
        # With several agents, jumanji's choices are the actions of the agents.
        if multi_agent and choices.ndim == 1 and (choices == choices[0]).all():
            return Discrete(int(choices[0])), None
        if not multi_agent and np.prod(choices, dtype=float) <= _MAX_ACTIONS:
            return Discrete(int(np.prod(choices))), tuple(int(n) for n in choices.flat)
    elif isinstance(spec, specs.BoundedArray) and jnp.issubdtype(spec.dtype, jnp.floating):
        low, high = (jnp.broadcast_to(x, spec.shape) for x in (spec.minimum, spec.maximum))
        box = Box(low[0], high[0], low.shape[1:]) if multi_agent else Box(low, high, low.shape)
        return box, None
    raise ValueError(
        f"The actions of {_name(env)} are not supported: an agent needs one of up to "
        f"{_MAX_ACTIONS:,} actions, the same number for each agent, or a bounded box of numbers, "
        f"not {spec!r}."
    )


def _default_observe(env: Environment, theirs: PyTree, multi_agent: bool) -> Observe:
    """The default for `observe`.

    **Raises:** `ValueError` when this observation has no default.
    """
    if eqx.is_array_like(theirs) or isinstance(theirs, jax.ShapeDtypeStruct):
        fields: dict[str, object] = {}
    else:
        fields = theirs._asdict() if hasattr(theirs, "_asdict") else vars(theirs)
    if "agents_view" in fields:
        return operator.attrgetter("agents_view")
    if not multi_agent and not fields:
        return identity
    rest = [name for name in fields if name not in _NOT_OBSERVED]
    if not multi_agent and len(rest) == 1 and isinstance(fields[rest[0]], jax.ShapeDtypeStruct):
        return operator.attrgetter(rest[0])
    raise ValueError(
        f"The observation of {_name(env)} has the parts {', '.join(fields) or '(a single array)'}: "
        "choose what an agent observes with from_jumanji(env, observe=lambda observation: ...)"
        + (", an array with a row for each agent." if multi_agent else ", one array.")
    )


def _name(env: Environment) -> str:
    return type(env.unwrapped).__name__
