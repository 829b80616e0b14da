"""Recording episodes of a policy, step by step."""

from typing import Any, cast

import equinox as eqx
import jax
from jaxtyping import Array, Bool, PRNGKeyArray, Shaped

from eqgrid import AbstractVectorEnv, Trajectories, unwrap_state
from eqgrid.typing import PyTree

from ..ppo import RunnerState, init_runner
from ..training import check_memory
from ._evaluate import Players, check_playable, step_episodes


def record_episodes(
    policy: Players,
    env: AbstractVectorEnv,
    key: PRNGKeyArray,
    *,
    max_steps: int,
    greedy: bool = False,
) -> Trajectories:
    """Plays one episode in each environment, and records all of its steps.

    With the same arguments, `evaluate` plays the same episodes.

    **Arguments:**

    - `policy`, `env`, `key`, `greedy`: as in `evaluate`; `env` needs no `LogEpisodes`.
    - `max_steps`: the largest number of steps of an episode. There must be memory for this many
        steps of every environment.

    **Returns:** the episodes, in the order of the environments.

    **Raises:** `ValueError` as `evaluate`, and `OutOfMemory`, before anything is played, when the
    steps do not fit into memory.
    """
    check_playable(policy, env)
    key, init_key = jax.random.split(key)
    inputs = (policy, env, init_key, _keys_of_steps(key, max_steps), greedy)
    program = cast(Any, record_steps).lower(*inputs).compile()
    check_memory(program)
    rows, done, final = program(*inputs)
    return Trajectories.from_steps(rows, done, final)


def _keys_of_steps(key: PRNGKeyArray, max_steps: int) -> Shaped[PRNGKeyArray, "steps 2"]:
    """The keys that `evaluate` uses in every step."""

    def split(key: PRNGKeyArray, _: None) -> tuple[PRNGKeyArray, Shaped[PRNGKeyArray, " 2"]]:
        keys = jax.random.split(key, 3)
        return keys[0], keys[1:]

    return jax.lax.scan(split, key, length=max_steps)[1]


@eqx.filter_jit
def record_steps(
    policy: Players,
    env: AbstractVectorEnv,
    init_key: PRNGKeyArray,
    keys: Shaped[PRNGKeyArray, "steps 2"],
    greedy: bool,
) -> tuple[dict[str, PyTree], Bool[Array, "steps envs"], PyTree]:
    """Plays a number of steps in each environment, from the start of an episode.

    **Arguments:**

    - `policy`, `env`, `greedy`: as in `evaluate`.
    - `init_key`: the source of randomness of the first reset.
    - `keys`: those of the actions, and of the environments, in every step.

    **Returns:** the fields of `Trajectories` that have a row for every step, whether an episode
    ended with the step, and the final observations; all have the leading axes `[steps, envs]`.
    """

    def step(runner: RunnerState, keys: Shaped[PRNGKeyArray, " 2"]) -> tuple[RunnerState, Any]:
        action, timestep, after = step_episodes(policy, env, runner, keys, greedy)
        row = {
            "state": unwrap_state(runner.env_state),
            "observation": runner.observation,
            "action": action,
            "reward": timestep.earned(runner.active),
            "terminated": timestep.terminated,
            "truncated": timestep.truncated,
        }
        return after, (row, timestep.done, timestep.final_observation)

    return jax.lax.scan(step, init_runner(policy, env, init_key), keys)[1]
