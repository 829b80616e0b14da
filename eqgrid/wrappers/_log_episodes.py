"""LogEpisodes: the return and the length of every finished episode."""

import dataclasses
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from .._env import (
    AbstractWrapper,
    AbstractWrapperState,
    Environment,
    TimeStep,
    VectorEnvironment,
)
from .._env_checks import check_own_state, check_single_env, info_entry, step_env
from ..typing import PyTree
from ._nesting import contains_wrapper
from ._shaped_reward import ShapedReward


@final
class LogEpisodesState(AbstractWrapperState):
    """The agents that have not terminated, the sums of this episode, and the inner state."""

    env_state: PyTree
    active: Bool[Array, " agents"]
    episode_return: Float[Array, " agents"]
    episode_length: Int[Array, ""]
    totals: dict[str, Shaped[Array, "..."]]


@final
class LogEpisodes(AbstractWrapper):
    """Adds the return and length of an episode to `info`, on the step that ends it.

    The new entries are:

    - `"episode_done"` (a Bool scalar): whether the episode ends on this step. The other entries are
        0 unless it does.
    - `"episode_return"` (Float, `agents`): the sum of each agent's unshaped rewards until it
        terminates; see `TimeStep`.
    - `"episode_length"` (an Int scalar): the number of steps.
    - `"episode_<name>"`: the sum of the entry `name`, for every name in `totals`.

    The sums restart after every episode, so this wrapper works inside and outside `AutoReset`.

    ```python
    from eqgrid import AutoReset, LogEpisodes, Vectorize, make

    envs = Vectorize(AutoReset(LogEpisodes(make("overcooked"), totals=("events",))), 16)
    ```

    **Arguments:**

    - `env`: a single environment with its raw reward; reward shaping and normalisation go outside
        this wrapper.
    - `totals`: names of `info` entries to sum over the episode, such as event counts per step.
        Floats are summed as floats, integers and booleans as integers. The sums include entries of
        agents that have terminated, since an entry need not have an `agents` axis.

    **Raises:** `ValueError` for a wrong nesting, or a name that is not in `info`.
    """

    env: Environment
    totals: tuple[str, ...] = eqx.field(static=True)
    _entries: tuple[jax.ShapeDtypeStruct, ...] = eqx.field(static=True)

    def __init__(self, env: Environment | VectorEnvironment, totals: Sequence[str] = ()):
        self.env = check_single_env(env, "LogEpisodes(env)")
        if contains_wrapper(self.env, LogEpisodes):
            raise ValueError("One LogEpisodes is enough: LogEpisodes(env, totals).")
        if contains_wrapper(self.env, ShapedReward):
            raise ValueError(
                "LogEpisodes must be inside ShapedReward, or it would log the shaped reward: "
                "ShapedReward(LogEpisodes(env), schedule)."
            )
        taken = {"return", "length", "done"}.intersection(totals)
        if taken:
            raise ValueError(f"LogEpisodes already has an entry 'episode_{min(taken)}' of its own.")
        self.totals = tuple(totals)
        self._entries = tuple(info_entry(self.env, name, "LogEpisodes") for name in self.totals)

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], PyTree]:
        observation, env_state = self.env.reset(key)
        state = LogEpisodesState(
            env_state=env_state,
            active=jnp.ones(self.num_agents, dtype=bool),
            episode_return=jnp.zeros(self.num_agents, dtype=float),
            episode_length=jnp.zeros((), dtype=int),
            totals=self.empty_totals(),
        )
        return observation, state

    def empty_totals(self) -> dict[str, Shaped[Array, "..."]]:
        """**Returns:** zeros for every total, by name, with the shapes and dtypes of the sums."""
        return {
            name: jnp.zeros(
                entry.shape, entry.dtype if jnp.issubdtype(entry.dtype, jnp.inexact) else int
            )
            for name, entry in zip(self.totals, self._entries, strict=True)
        }

    def step(
        self, key: PRNGKeyArray, state: LogEpisodesState, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, LogEpisodesState]:
        check_own_state(self, LogEpisodesState, state, active=(self.num_agents,))
        timestep, env_state = step_env(self.env, key, state.env_state, action)
        if taken := [name for name in timestep.info if name.startswith("episode_")]:
            raise ValueError(
                f"LogEpisodes writes the entries 'episode_...' of info, but the environment has an "
                f"entry {min(taken)!r} of its own: give it another name."
            )
        sums = {
            "return": state.episode_return + timestep.counted_reward(state.active),
            "length": state.episode_length + 1,
            **{
                name: total + timestep.info[name].astype(total.dtype)
                for name, total in state.totals.items()
            },
        }
        done = timestep.done
        finished = {f"episode_{name}": _keep_if(done, value) for name, value in sums.items()}
        info = {**timestep.info, **finished, "episode_done": done}
        running = {name: _keep_if(~done, value) for name, value in sums.items()}
        state = LogEpisodesState(
            env_state=env_state,
            active=timestep.acts_next,
            episode_return=running["return"],
            episode_length=running["length"],
            totals={name: running[name] for name in self.totals},
        )
        return dataclasses.replace(timestep, info=info), state

    def observe(self, state: LogEpisodesState) -> PyTree[Shaped[Array, "agents ..."]]:
        check_own_state(self, LogEpisodesState, state, active=(self.num_agents,))
        return self.env.observe(state.env_state)


def _keep_if(condition: Bool[Array, ""], value: Shaped[Array, "*shape"]) -> Shaped[Array, "*shape"]:
    return jnp.where(condition, value, jnp.zeros_like(value))
