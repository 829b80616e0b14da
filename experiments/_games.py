"""Teams of saved policies, and the episodes that they play."""

import dataclasses
from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from agents import (
    ActorCritic,
    IndependentParameters,
    RunnerState,
    TrainedPolicy,
    collect_rollout,
    init_runner,
)
from eqgrid import AbstractVectorEnv
from experiments._errors import UsageError
from experiments._policies import SavedPolicy

_BLOCK = 100
"""Steps that are compiled as one program."""


@final
@dataclasses.dataclass(frozen=True)
class Lineup:
    """Who plays in which seat.

    **Arguments:**

    - `seats`: what a person calls the policy of every agent.
    - `policies`: the policy of every agent.
    """

    seats: tuple[str, ...]
    policies: tuple[TrainedPolicy, ...]


@final
@dataclasses.dataclass(frozen=True)
class Games:
    """What came of a number of episodes.

    **Arguments:**

    - `returns`: the sum of each agent's rewards.
    - `lengths`: in steps.
    - `totals`: what else was summed, by name, such as how often events happened to each agent.
    """

    returns: Float[np.ndarray, "episodes agents"]
    lengths: Int[np.ndarray, " episodes"]
    totals: dict[str, Shaped[np.ndarray, "episodes ..."]]


def lineups(policies: Sequence[SavedPolicy]) -> list[Lineup]:
    """The teams that are evaluated: every policy in every seat.

    One policy plays with itself; where its agents have parameters of their own, these change
    places, too. Several policies play together, each of them once in every seat.

    **Raises:** `UsageError` unless there is one policy, or one for each agent.
    """
    num_agents = policies[0].policy.num_agents
    turns = [[(i + shift) % num_agents for i in range(num_agents)] for shift in range(num_agents)]
    if len(policies) == 1:
        return _own_lineups(policies[0], turns)
    if len(policies) != num_agents:
        raise UsageError(
            f"A team has {num_agents} agents: give one policy, which then plays with itself, or "
            f"{num_agents} of them, but not {len(policies)}."
        )
    names = _different([saved.name for saved in policies])
    return [
        Lineup(tuple(names[i] for i in turn), tuple(policies[i].policy for i in turn))
        for turn in turns
    ]


def _own_lineups(saved: SavedPolicy, turns: list[list[int]]) -> list[Lineup]:
    policy, num_agents = saved.policy, saved.policy.num_agents
    if not isinstance(policy.actor_critic.actor, IndependentParameters):
        return [Lineup((saved.name,) * num_agents, (policy,) * num_agents)]
    return [
        Lineup(
            tuple(f"{saved.name} (agent {i})" for i in turn), (policy.reorder(turn),) * num_agents
        )
        for turn in turns
    ]


def _different(names: list[str]) -> list[str]:
    """The names, with a number behind each that is there more than once."""
    return [f"{name} ({i + 1})" if names.count(name) > 1 else name for i, name in enumerate(names)]


def play(team: ActorCritic, env: AbstractVectorEnv, key: PRNGKeyArray) -> Games:
    """Plays the first episode of every environment to its end.

    **Arguments:**

    - `team`: who acts, by drawing from its distribution.
    - `env`: as many environments as episodes are wanted, with `LogEpisodes` that sums what counts.
    - `key`: the source of randomness.
    """
    key, init_key = jax.random.split(key)
    runner = eqx.filter_jit(init_runner)(team, env, init_key)
    over = np.zeros(env.num_envs, bool)
    games: Games | None = None
    while not over.all():
        key, block_key = jax.random.split(key)
        info, runner = _steps(team, env, runner, block_key)
        block = {name: np.asarray(value) for name, value in info.items()}
        games = _empty(block) if games is None else games
        done = block["episode_done"]
        ended = done.any(axis=0) & ~over
        first = done.argmax(axis=0)[ended]
        kept = {"return": games.returns, "length": games.lengths, **games.totals}
        for name, array in kept.items():
            array[ended] = block[f"episode_{name}"][first, np.flatnonzero(ended)]
        over |= ended
    assert games is not None
    return games


@eqx.filter_jit
def _steps(
    team: ActorCritic, env: AbstractVectorEnv, runner: RunnerState, key: PRNGKeyArray
) -> tuple[dict[str, Shaped[Array, "time envs ..."]], RunnerState]:
    rollout, runner = collect_rollout(team, env, runner, key, _BLOCK)
    return rollout.info, runner


def _empty(block: dict[str, Any]) -> Games:
    parts = {name.removeprefix("episode_"): np.zeros_like(x[0]) for name, x in block.items()}
    totals = {name: x for name, x in parts.items() if name not in ("return", "length", "done")}
    return Games(parts["return"], parts["length"], totals)
