"""Teams of saved policies."""

import dataclasses
from collections.abc import Sequence
from typing import final

from agents import IndependentParameters, TrainedPolicy
from agents.runs.display._errors import UsageError
from agents.runs.single._policies import SavedPolicy


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
    names = different_names([saved.name for saved in policies])
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


def different_names(names: list[str]) -> list[str]:
    """The names, with a number behind each that is there more than once."""
    return [f"{name} ({i + 1})" if names.count(name) > 1 else name for i, name in enumerate(names)]
