"""Records one episode, and draws its video (GIF) with the return so far."""

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from agents.evaluation import Players, record_steps
from eqgrid import (
    AbstractAutoReset,
    AbstractVectorEnv,
    AbstractVectorWrapper,
    AbstractWrapper,
    AutoReset,
    Environment,
    TimeStep,
    Vectorize,
    contains_wrapper,
    unwrap,
)
from eqgrid.typing import PyTree

_MAX_STEPS = 1000
"""The maximum length of a video, in steps. The video of a longer episode shows its beginning."""


def video_episode(
    policy: Players,
    env: AbstractVectorEnv,
    draw: Callable[[PyTree, Sequence[float]], bytes],
    key: PRNGKeyArray,
    horizon: int | None,
) -> bytes:
    """Plays one episode and draws it as a GIF, from its first state to its last state.

    **Arguments:**

    - `policy`: the policy, whose actions are sampled.
    - `env`: one environment (`num_envs=1`), with the wrappers that the policy needs.
    - `draw`: draws a video from states with a leading time axis, and the return so far in each
        state.
    - `key`: the source of randomness.
    - `horizon`: the maximum length of an episode, in steps; `None` if unknown.

    **Returns:** the content of a GIF, as `draw` returns it.
    """
    steps = _length(horizon)
    with _compiling:  # waits for a thread that compiles the same program
        states, rewards, done = record(policy, _without_resets(env), key, steps + 1)
    length = int(np.append(np.flatnonzero(done[:steps]) + 1, steps)[0])
    # The state after the last step is known if `_without_resets` replaced an `AutoReset`. Other
    # resets and vector environments replace this state by the start of the next episode.
    core = unwrap(env)
    shown = length + (isinstance(core, Vectorize) and contains_wrapper(core.env, AutoReset))
    states = jax.tree.map(lambda x: x[:shown], states)
    return draw(states, running_return(np.asarray(rewards[:length]))[:shown])


_compiling = threading.Lock()


def compile_video(
    policy: Players, env: AbstractVectorEnv, key: PRNGKeyArray, horizon: int | None
) -> None:
    """Compiles the program of `video_episode` for arguments of the same shapes, without running it.

    **Arguments:** as in `video_episode`.
    """
    program: Any = record_steps
    with _compiling:
        program.lower(
            *_arguments(policy, _without_resets(env), key, _length(horizon) + 1)
        ).compile()


def running_return(rewards: Float[np.ndarray, " steps"]) -> list[float]:
    """The return so far in each state of an episode: before the first step and after each step."""
    return np.concatenate([[0.0], np.cumsum(rewards)]).tolist()


def with_last(states: PyTree, last: PyTree | None) -> PyTree:
    """The states before each step of an episode, followed by the last state if it is not `None`."""
    if last is None:
        return states
    return jax.tree.map(lambda x, y: jnp.concatenate([x, jnp.asarray(y)[None]]), states, last)


def record(
    policy: Players, env: AbstractVectorEnv, key: PRNGKeyArray, steps: int
) -> tuple[PyTree, Float[Array, " steps"], Bool[Array, " steps"]]:
    """Plays a number of steps in one environment, from the start of an episode.

    **Arguments:**

    - `policy`, `env`, `key`: as in `video_episode`.
    - `steps`: the number of steps.

    **Returns:** the state before each step, the reward of each step (the mean over agents), and
    whether each step ended an episode, all with a leading time axis.
    """
    rows, done, _ = record_steps(*_arguments(policy, env, key, steps))
    states = jax.tree.map(lambda x: x[:, 0], rows["state"])
    return states, jnp.mean(rows["reward"][:, 0], axis=-1), done[:, 0]


def _length(horizon: int | None) -> int:
    """The maximum number of steps in the video of an episode."""
    return min(horizon or _MAX_STEPS, _MAX_STEPS)


def _arguments(
    policy: Players, env: AbstractVectorEnv, key: PRNGKeyArray, steps: int
) -> tuple[Any, ...]:
    """The arguments with which `record_steps` plays a number of steps."""
    return policy, env, *_keys_of(key, steps), False


@functools.partial(jax.jit, static_argnames="steps")
def _keys_of(key: PRNGKeyArray, steps: int) -> tuple[PRNGKeyArray, Shaped[PRNGKeyArray, "steps 2"]]:
    """The keys of the first reset and of every step."""
    key, init_key = jax.random.split(key)
    return init_key, jax.random.split(key, (steps, 2))


@final
class _KeepLastState(AbstractAutoReset):
    """Replaces an `AutoReset` while the first episode is recorded. It does not reset, so the state
    after the last step of the episode can be drawn.
    """

    env: Environment

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], PyTree]:
        return self.env.reset(key)

    def step(
        self, key: PRNGKeyArray, state: PyTree, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, PyTree]:
        step_key, _ = jax.random.split(key)  # as in `AutoReset`, so that the episode is the same
        return self.env.step(step_key, state, action)

    def observe(self, state: PyTree) -> PyTree[Shaped[Array, "agents ..."]]:
        return self.env.observe(state)


def _without_resets(env: PyTree) -> PyTree:
    """The same stack of wrappers with `_KeepLastState` in place of its `AutoReset`.

    Custom resets stay, since they may start episodes differently, and wrappers around them may read
    their state.
    """
    if isinstance(env, AutoReset):
        return _KeepLastState(env.env)
    if isinstance(env, AbstractWrapper | AbstractVectorWrapper | Vectorize):
        return eqx.tree_at(lambda stack: stack.env, env, _without_resets(env.env))
    return env
