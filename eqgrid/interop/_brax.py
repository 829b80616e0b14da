"""The adapter from Brax and MuJoCo Playground."""

import operator
from collections.abc import Callable
from typing import Protocol, TypeAlias, final, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, Shaped

from .._env import AbstractEnv, TimeStep
from .._spaces import AbstractSpace, Box
from ..typing import PyTree
from ._foreign import identity, implicit_promotion, strongly_typed

Observe: TypeAlias = Callable[[PyTree], PyTree]
"""A function from an observation of Brax to the observation of the agent."""

_WRONG_WRAPPERS = ("AutoReset", "Vmap", "DomainRandomization")
"""Parts of names of wrappers that reset or batch environments, which eqgrid does itself."""


@runtime_checkable
class BraxEnv(Protocol):
    """The interface of environments that Brax and MuJoCo Playground share."""

    def reset(self, rng: Array) -> PyTree: ...

    def step(self, state: PyTree, action: Array) -> PyTree: ...

    @property
    def action_size(self) -> int: ...


@final
class FromBrax(AbstractEnv):
    """A Brax environment as an `AbstractEnv`, made by `from_brax`. Its state is Brax's state."""

    env: BraxEnv = eqx.field(static=True)
    seen: Observe = eqx.field(static=True)  # the argument `observe` of `from_brax`
    action_space: AbstractSpace
    num_agents: int = eqx.field(static=True, default=1)

    def __init__(self, env: BraxEnv, observe: Observe | None = None):
        inner: object = env
        while inner is not None:
            name = type(inner).__name__
            if any(wrong in name for wrong in _WRONG_WRAPPERS):
                raise ValueError(
                    "from_brax(env) needs a single environment that does not reset itself: leave "
                    f"out its {name} (brax.envs.get_environment adds none), and use "
                    "Vectorize(AutoReset(env), num_envs)."
                )
            inner = vars(inner).get("env")
        self.env, self.num_agents = env, 1
        self.action_space = Box(-1.0, 1.0, (env.action_size,))
        with implicit_promotion():
            first = jax.eval_shape(env.reset, jax.random.PRNGKey(0))
        self.seen = _default_observe(env, first.obs) if observe is None else observe

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], PyTree]:
        with implicit_promotion():
            state = self.env.reset(jax.random.key_data(key))
        state = strongly_typed(state)
        return self.observe(state), state

    def step(
        self, key: PRNGKeyArray, state: PyTree, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, PyTree]:
        """Steps the environment. Brax's `EpisodeWrapper` reports truncation in
        `info["truncation"]`.

        The key is not used: the randomness of a step comes from Brax's state.
        """
        copy = jax.tree.map(lambda x: x, state)  # wrappers of Brax write into the dicts of a state
        with implicit_promotion():
            state = self.env.step(copy, action[0])
        state = strongly_typed(state)
        truncated = jnp.asarray(state.info.get("truncation", False), bool)
        terminated = state.done.astype(bool) & ~truncated
        reward = state.reward.astype(float)[None]
        timestep = TimeStep(
            self.observe(state), reward, terminated[None], truncated, dict(state.metrics)
        )
        return timestep, state

    def observe(self, state: PyTree) -> PyTree[Shaped[Array, "agents ..."]]:
        with implicit_promotion():
            observation = self.seen(state.obs)
        return jax.tree.map(lambda x: x[None], observation)


def from_brax(env: BraxEnv, *, observe: Observe | None = None) -> FromBrax:
    """Converts an environment of Brax or MuJoCo Playground to an `AbstractEnv`.

    The environment has one agent, and actions between -1 and 1. The metrics of Brax become entries
    of `info`. Plain Brax environments have no time limit: wrap the result in `TimeLimit`, or pass
    an environment in Brax's `EpisodeWrapper`.

    **Arguments:**

    - `env`: a single environment, such as `brax.envs.get_environment("ant")` or
        `mujoco_playground.registry.load("CartpoleBalance")`.
    - `observe`: a function from an observation of Brax to the observation of the agent, which is
        one array or a PyTree of arrays. By default, the agent gets the whole observation, or the
        entry `"state"` of a dict.

    **Raises:** `ValueError` for a batch of environments, for an environment that resets itself, or
    when the observation is a dict without an entry `"state"`.

    !!! example

        ```python
        env = TimeLimit(from_brax(brax.envs.get_environment("inverted_pendulum")), 1000)
        env = Vectorize(AutoReset(LogEpisodes(env)), 64)
        ```
    """
    return FromBrax(env, observe)


def _default_observe(env: BraxEnv, observation: PyTree) -> Observe:
    """**Raises:** `ValueError` when the observation is a dict without an entry `"state"`."""
    if not hasattr(observation, "keys"):
        return identity
    if "state" not in observation:
        raise ValueError(
            f"The observation of {type(env).__name__} is a dict of {', '.join(observation)}: "
            "choose what the agent observes with from_brax(env, observe=lambda observation: ...)."
        )
    return operator.itemgetter("state")
