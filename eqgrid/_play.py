"""Plays episodes with one partner per agent, at once or step by step, and records trajectories."""

import functools
from collections.abc import Mapping, Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from ._env import Environment, unwrap_state
from ._env_checks import check_single_env, step_env
from ._partner import AbstractPartner, act_as_team, check_partners
from .typing import PyTree


@final
class Trajectories(eqx.Module):
    """Several episodes, concatenated along the `steps` axis of each array.

    **Arguments:**

    - `state`: the state of the innermost environment (without wrapper states) before each step.
    - `action`: the action of each agent in the step.
    - `reward`: the reward of each agent in the step; 0 once the agent has terminated, so that the
        sums over episodes are returns.
    - `terminated`, `truncated`: as in `TimeStep`.
    - `length`: the number of steps of each episode.
    - `observation`, `final_observation`: the observation of each agent before each step, and after
        the last step of each episode; `None` where they were not recorded.
    """

    state: PyTree[Shaped[Array, "steps ..."]]
    action: Shaped[Array, "steps agents ..."]
    reward: Float[Array, "steps agents"]
    terminated: Bool[Array, "steps agents"]
    truncated: Bool[Array, " steps"]
    length: Int[Array, " episodes"]
    observation: PyTree[Shaped[Array, "steps agents ..."]] | None = None
    final_observation: PyTree[Shaped[Array, "episodes agents ..."]] | None = None

    @classmethod
    def from_steps(
        cls,
        rows: Mapping[str, PyTree[Shaped[Array, "steps episodes ..."]]],
        done: Bool[Array, "steps episodes"],
        final_observation: PyTree[Shaped[Array, "steps episodes ..."]] | None = None,
    ) -> "Trajectories":
        """Builds trajectories from episodes that were played in parallel for the same number of
        steps.

        **Arguments:**

        - `rows`: the fields that have a row for every step.
        - `done`: whether the episode ended with the step. Later steps are left out.
        - `final_observation`: the observation after every step. Only the observation after the
            last step of each episode is kept.

        **Returns:** the episodes, in their order.

        **Raises:** `ValueError` when an episode did not end.
        """
        ended = np.asarray(done)
        if not ended.any(axis=0).all():
            raise ValueError(
                f"An episode did not end in {len(ended)} steps: put a TimeLimit into the "
                f"environment, or raise max_steps."
            )
        length = ended.argmax(axis=0) + 1
        # The episode of each row of the result, and the step within this episode.
        episode = np.repeat(np.arange(len(length)), length)
        step = np.arange(len(episode)) - np.repeat(np.cumsum(length) - length, length)
        last = (length - 1, np.arange(len(length)))
        return cls(
            **jax.tree.map(lambda x: x[step, episode], dict(rows)),
            length=jnp.asarray(length, jnp.int32),
            final_observation=jax.tree.map(lambda x: x[last], final_observation),
        )


@final
class Game(eqx.Module):
    """The outcome of an episode.

    **Arguments:**

    - `episode_return`: the sum of each agent's rewards until it terminated; see `TimeStep`.
    - `episode_length`: the number of steps.
    - `finished`: whether the episode ended within `max_steps`. If not, the other two fields cover
        the steps that were played.
    """

    episode_return: Float[Array, "*games agents"]
    episode_length: Int[Array, "*games"]
    finished: Bool[Array, "*games"]


@final
class PlayState(eqx.Module):
    """A game between two steps.

    **Arguments:**

    - `env_state`: the state of the environment.
    - `carries`: the memory of each partner.
    - `key`: the source of randomness of the remaining steps.
    - `active`: which agents act in the next step.
    - `game`: the outcome so far.
    """

    env_state: PyTree
    carries: tuple[PyTree[Shaped[Array, "..."]], ...]
    key: PRNGKeyArray
    active: Bool[Array, " agents"]
    game: Game


def play(
    env: Environment,
    team: Sequence[AbstractPartner],
    key: PRNGKeyArray,
    *,
    max_steps: int = 100_000,
) -> Game:
    """Plays one episode with the given partners.

    `play` is a pure function for one game: map it over keys, partners or environments with
    `eqx.filter_vmap` to play thousands of games with different partners in one compiled program.

    ```python
    import jax

    from eqgrid import RandomPartner, ConstantPartner, make, play

    env = make("overcooked")
    game = play(env, (RandomPartner(env.action_space), ConstantPartner(4)), jax.random.key(0))
    print(game.episode_return, game.episode_length)
    ```

    **Arguments:**

    - `env`: a single environment, without `AutoReset`.
    - `team`: the partner that acts for each agent, in the order of the agents.
    - `key`: the source of randomness.
    - `max_steps`: the largest number of steps to play.

    **Returns:** the return of each agent, the length of the episode, and whether it ended.

    **Raises:** `ValueError` unless there is one partner for each agent.
    """
    arrays, rest = eqx.partition(start_play(env, team, key), eqx.is_array)
    step = functools.partial(_step, env, tuple(team), rest)
    arrays = jax.lax.while_loop(
        lambda arrays: ~arrays.game.finished & (arrays.game.episode_length < max_steps),
        lambda arrays: step(arrays)[0],
        arrays,
    )
    return arrays.game


def record_play(
    env: Environment,
    team: Sequence[AbstractPartner],
    keys: Shaped[PRNGKeyArray, " episodes"],
    *,
    max_steps: int,
) -> Trajectories:
    """Plays one episode for each key, and records all of its steps.

    With the same key, `play` plays the same episode.

    ```python
    import jax

    from eqgrid import ConstantPartner, make, record_play
    from eqgrid.envs.overcooked import ScriptedCook

    env, team = make("overcooked"), (ScriptedCook("cramped"), ConstantPartner(4))
    games = record_play(env, team, jax.random.split(jax.random.key(0), 4), max_steps=400)
    ```

    **Arguments:**

    - `env`, `team`: as in `play`.
    - `keys`: the source of randomness of each episode.
    - `max_steps`: the largest number of steps of an episode. Memory is needed for this number of
        steps of every episode.

    **Returns:** the episodes, in the order of the keys, without observations.

    **Raises:** `ValueError` unless there is one partner for each agent, or when an episode does not
    end.
    """
    return Trajectories.from_steps(*_record(env, tuple(team), keys, max_steps))


@eqx.filter_jit
def _record(
    env: Environment,
    team: tuple[AbstractPartner, ...],
    keys: Shaped[PRNGKeyArray, " episodes"],
    max_steps: int,
) -> tuple[dict[str, PyTree], Bool[Array, "steps episodes"]]:
    """The fields of `Trajectories` that have a row for every step, and whether the episode was over
    after each step. Steps after its end are played, too.
    """

    def episode(key: PRNGKeyArray) -> tuple[dict[str, PyTree], Bool[Array, " steps"]]:
        arrays, rest = eqx.partition(start_play(env, team, key), eqx.is_array)
        step = functools.partial(_step, env, team, rest)
        return jax.lax.scan(lambda arrays, _: step(arrays), arrays, length=max_steps)[1]

    return jax.vmap(episode, out_axes=1)(keys)


def start_play(env: Environment, team: Sequence[AbstractPartner], key: PRNGKeyArray) -> PlayState:
    """Starts a game that is played step by step, such as a game with a person:

        state = start_play(env, team, key)
        while not state.game.finished:
            state, row = play_step(env, team, state)

    With the same key, `play` plays the same game.

    **Arguments:** as in `play`.

    **Returns:** the game before its first step.

    **Raises:** `ValueError` unless there is one partner for each agent.
    """
    env = check_single_env(env, "play(env, team, key)")
    check_partners(team)
    if len(team) != env.num_agents:
        raise ValueError(
            f"The environment has {env.num_agents} agents, so play needs a team of "
            f"{env.num_agents} partners, but got {len(team)}."
        )
    key, reset_key = jax.random.split(key)
    _, env_state = env.reset(reset_key)
    game = Game(jnp.zeros(env.num_agents, float), jnp.zeros((), jnp.int32), jnp.zeros((), bool))
    carries = tuple(partner.initial_carry() for partner in team)
    return PlayState(env_state, carries, key, jnp.ones(env.num_agents, bool), game)


def play_step(
    env: Environment, team: Sequence[AbstractPartner], state: PlayState
) -> tuple[PlayState, dict[str, PyTree]]:
    """Plays one step of a game; compile it with `eqx.filter_jit`.

    **Arguments:**

    - `env`: as in `play`.
    - `team`: the partner that acts for each agent; the team may change from step to step. A
        `ConstantPartner` with the action of a person acts for this person: the action is an array,
        so another action does not compile the program again.
    - `state`: the game before the step.

    **Returns:** the game after the step, and the fields of `Trajectories` that have a row for every
    step.
    """
    if not isinstance(state, PlayState):
        raise TypeError(
            f"play_step needs a PlayState, such as start_play(env, team, key), but got "
            f"{type(state).__name__}."
        )
    key, env_key, *keys = jax.random.split(state.key, 2 + len(team))
    # Under jit, the observation is not computed if no partner uses it.
    observation, world = env.observe(state.env_state), unwrap_state(state.env_state)
    action, carries = act_as_team(team, observation, world, state.carries, keys)
    timestep, env_state = step_env(env, env_key, state.env_state, action)
    reward = timestep.counted_reward(state.active)
    row = {
        "state": world,
        "action": action,
        "reward": reward,
        "terminated": timestep.terminated,
        "truncated": timestep.truncated,
    }
    # The dtype of the return must not change in the loop, whatever the dtype of the rewards is.
    total = state.game.episode_return + reward.astype(state.game.episode_return.dtype)
    game = Game(total, state.game.episode_length + 1, timestep.done)
    return PlayState(env_state, carries, key, timestep.acts_next, game), row


def _step(
    env: Environment, team: tuple[AbstractPartner, ...], rest: PlayState, arrays: PlayState
) -> tuple[PlayState, tuple[dict[str, PyTree], Bool[Array, ""]]]:
    """`play_step` as the body of a loop, whose state may contain only arrays.

    **Returns:** the arrays of the next state; the row, and whether it was the last of its episode.
    """
    state, row = play_step(env, team, eqx.combine(arrays, rest))
    return eqx.filter(state, eqx.is_array), (row, state.game.finished)
