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

_NOT_SEEN = ("action_mask", "step_count")
_MOST_ACTIONS = 10_000


@final
class FromJumanjiState(eqx.Module):
    """The state of a jumanji environment, the observations, and which agents have terminated."""

    world: PyTree
    observation: PyTree[Shaped[Array, "agents ..."]]
    over: Bool[Array, " agents"]


@final
class FromJumanji(AbstractEnv):
    """A jumanji environment as an `AbstractEnv`, made by `from_jumanji`."""

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
                    f"from_jumanji(env) needs one environment, whose episodes end: leave out its "
                    f"{type(inner).__name__}, and use Vectorize(AutoReset(env), num_envs)."
                )
            inner = inner._env
        self.env, self.num_agents = env, getattr(env, "num_agents", 1)
        self.action_space, self.choices = _actions(env, self._several)
        with implicit_promotion():
            _, first = jax.eval_shape(env.reset, jax.random.PRNGKey(0))
        shown = first.observation
        self.seen = _whole_observation(env, shown, self._several) if observe is None else observe
        for row in jax.tree.leaves(jax.eval_shape(lambda x: self._per_agent(x), shown)):
            if row.shape[:1] != (self.num_agents,):
                raise ValueError(
                    f"An observation of the {self.num_agents} agents of {_name(env)} must have a "
                    f"row for each, but has the shape {row.shape}: let observe stack the rows."
                )
        self.mask = mask and hasattr(shown, "action_mask")
        if self.mask:
            shape, space = jax.eval_shape(lambda x: self._mask(x), shown).shape, self.action_space
            if not isinstance(space, Discrete) or shape[1:] != (space.n,):
                raise ValueError(
                    f"The masks of {_name(env)} have the shape {shape}, which does not fit its "
                    "actions: set mask=False."
                )

    @property
    def _several(self) -> bool:
        """Whether the arrays of jumanji lead with an axis of agents."""
        return hasattr(self.env, "num_agents")

    def reset(
        self, key: PRNGKeyArray
    ) -> tuple[PyTree[Shaped[Array, "agents ..."]], FromJumanjiState]:
        with implicit_promotion():
            world, first = self.env.reset(jax.random.key_data(key))
        observation = self._observation(first.observation)
        over = jnp.zeros(self.num_agents, bool)
        return observation, FromJumanjiState(strongly_typed(world), observation, over)

    def step(
        self, key: PRNGKeyArray, state: FromJumanjiState, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, FromJumanjiState]:
        """Steps the environment. An agent terminates where jumanji's discount is 0; an episode that
        ends otherwise is truncated.

        The key is not used: in jumanji, randomness comes from the state.
        """
        with implicit_promotion():
            world, after = self.env.step(state.world, self._their_action(action))
        observation = self._observation(after.observation)
        over = state.over | (self._by_agent(after.discount) == 0)
        reward = self._by_agent(after.reward).astype(float)
        cut = jnp.asarray(after.last()) & ~over.all()
        info = {name: jnp.asarray(value) for name, value in after.extras.items()}
        timestep = TimeStep(observation, reward, over, cut, info)
        return timestep, FromJumanjiState(strongly_typed(world), observation, over)

    def observe(self, state: FromJumanjiState) -> PyTree[Shaped[Array, "agents ..."]]:
        return state.observation

    def _their_action(self, action: Shaped[Array, "agents ..."]) -> Shaped[Array, "..."]:
        if self._several:
            return action.astype(self.env.action_spec.dtype)
        if self.choices is not None:
            return jnp.stack(jnp.unravel_index(action[0], self.choices))
        return action[0].astype(self.env.action_spec.dtype)

    def _observation(self, shown: PyTree) -> PyTree[Shaped[Array, "agents ..."]]:
        rows = self._per_agent(shown)
        return Masked(rows, self._mask(shown)) if self.mask else rows

    def _per_agent(self, shown: PyTree) -> PyTree[Shaped[Array, "agents ..."]]:
        with implicit_promotion():
            rows = strongly_typed(self.seen(shown))
        return rows if self._several else jax.tree.map(lambda x: x[None], rows)

    def _mask(self, shown: PyTree) -> Bool[Array, "agents actions"]:
        mask = jnp.asarray(shown.action_mask, bool)
        return mask if self._several else mask.reshape(1, -1)

    def _by_agent(self, numbers: ArrayLike) -> Shaped[Array, " agents"]:
        """One number per agent; a number for all agents is repeated."""
        return jnp.broadcast_to(jnp.asarray(numbers), (self.num_agents,))


def from_jumanji(
    env: Environment, *, observe: Observe | None = None, mask: bool = True
) -> FromJumanji:
    """Converts a jumanji environment to an `AbstractEnv`.

    An environment with `num_agents` has that many agents, and any other one has one agent. A scalar
    reward or discount applies to every agent. Several choices of one agent, such as the rotation
    and the column in Tetris, become one `Discrete` action, in the order of
    `numpy.ravel_multi_index`. An agent terminates where the discount is 0; an episode that ends
    with another discount is truncated, so its last value is bootstrapped.

    **Arguments:**

    - `env`: such as `jumanji.make("RobotWarehouse-v0")`. Reuse one object: each call of
        `jumanji.make` returns a new one, which JAX compiles again.
    - `observe`: a function from an observation of jumanji to the observations of the agents: one
        array, or a PyTree of arrays. With several agents, each array needs a leading axis of
        agents. By default it returns `agents_view` or, for one agent, the only array except
        `action_mask` and `step_count`.
    - `mask`: whether observations are `Masked` with jumanji's `action_mask`, where it has one.

    **Raises:** `ValueError` when there is no default for the observation, or when the action space
    or the mask is not supported.

    !!! example

        ```python
        env = from_jumanji(jumanji.make("LevelBasedForaging-v0"))
        env = Vectorize(AutoReset(LogEpisodes(env)), 64)
        ```
    """
    return FromJumanji(env, observe, mask)


def _actions(env: Environment, several: bool) -> tuple[AbstractSpace, tuple[int, ...] | None]:
    """The action space of one agent and, if each action stands for several choices, the number of
    options of each choice.

    **Raises:** `ValueError` unless the actions are discrete or a bounded box.
    """
    spec = env.action_spec
    if isinstance(spec, specs.DiscreteArray):
        return Discrete(int(spec.num_values)), None
    if isinstance(spec, specs.MultiDiscreteArray):
        choices = np.asarray(spec.num_values)
        if several and choices.ndim == 1 and (choices == choices[0]).all():
            return Discrete(int(choices[0])), None
        if not several and np.prod(choices, dtype=float) <= _MOST_ACTIONS:
            return Discrete(int(np.prod(choices))), tuple(int(n) for n in choices.flat)
    elif isinstance(spec, specs.BoundedArray) and jnp.issubdtype(spec.dtype, jnp.floating):
        low, high = (jnp.broadcast_to(x, spec.shape) for x in (spec.minimum, spec.maximum))
        return (Box(low[0], high[0], low.shape[1:]) if several else Box(low, high, low.shape)), None
    raise ValueError(
        f"The actions of {_name(env)} are not supported: an agent needs one of up to "
        f"{_MOST_ACTIONS:,} actions, the same number for each agent, or a bounded box of numbers, "
        f"not {spec!r}."
    )


def _whole_observation(env: Environment, shown: PyTree, several: bool) -> Observe:
    """The default for `observe`.

    **Raises:** `ValueError` when there is none for this observation.
    """
    if eqx.is_array_like(shown) or isinstance(shown, jax.ShapeDtypeStruct):
        fields: dict[str, object] = {}
    else:
        fields = shown._asdict() if hasattr(shown, "_asdict") else vars(shown)
    rest = [name for name in fields if name not in _NOT_SEEN]
    if "agents_view" in fields:
        return operator.attrgetter("agents_view")
    if not several and not fields:
        return identity
    if not several and len(rest) == 1 and isinstance(fields[rest[0]], jax.ShapeDtypeStruct):
        return operator.attrgetter(rest[0])
    raise ValueError(
        f"The observation of {_name(env)} has the parts {', '.join(fields) or '(a single array)'}: "
        "choose what an agent observes with from_jumanji(env, observe=lambda observation: ...)"
        + (", an array with a row for each agent." if several else ", one array.")
    )


def _name(env: Environment) -> str:
    return type(env.unwrapped).__name__
