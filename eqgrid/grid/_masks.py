"""Action masks: which actions agents may take."""

import abc
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from .._spaces import Discrete, MultiDiscrete
from ._actions import Action, Actions, by_choice
from ._layout import Layout
from ._world import World


class AbstractActionMask(eqx.Module):
    """Which actions each agent may take in a state."""

    @abc.abstractmethod
    def __call__(
        self, layout: Layout, world: World, actions: Actions
    ) -> Bool[Array, "agents options"]:
        """Whether each agent may take each action.

        **Arguments:**

        - `layout`: the tiles and parameters.
        - `world`: the state.
        - `actions`: the actions of the game.

        **Returns:** one truth value for each action; with several choices, those of the first
        choice come first. At least one action of every choice must be allowed to an active agent.
        """


@final
class OwnActions(AbstractActionMask):
    """Agents with different actions: each may only take some of those of the game.

    With several choices, each choice needs an action of every agent: put `Stay()` into a choice of
    words for agents that cannot speak.

    **Arguments:**

    - `actions`: for each agent, in the order of the agents, the actions that it may take.

    **Raises:** `ValueError`, when the world is used first, if there is not one entry for each
    agent, if one has an action that is not of the game, or if an agent has no action of a choice.
    """

    actions: tuple[tuple[Action, ...], ...] = eqx.field(static=True)

    def __init__(self, actions: Sequence[Sequence[Action]]):
        self.actions = tuple(tuple(own) for own in actions)

    def __call__(
        self, layout: Layout, world: World, actions: Actions
    ) -> Bool[Array, "agents options"]:
        if len(self.actions) != world.num_agents:
            raise ValueError(
                f"OwnActions needs the actions of each of the {world.num_agents} agents, but has "
                f"those of {len(self.actions)}."
            )
        choices = by_choice(actions)
        known = [action for choice in choices for action in choice]
        for own in self.actions:
            if unknown := [action for action in own if action not in known]:
                raise ValueError(f"OwnActions has {unknown[0]}, which is no action of the game.")
        has = [[[action in own for action in choice] for choice in choices] for own in self.actions]
        if not all(any(choice) for own in has for choice in own):
            raise ValueError(
                "OwnActions leaves an agent without any action of a choice: give it one, such as "
                "Stay()."
            )
        return jnp.asarray([[x for choice in own for x in choice] for own in has])


def allowed_only(
    mask: Bool[Array, "agents options"],
    space: Discrete | MultiDiscrete,
    action: Int[Array, "agents *choices"],
) -> Int[Array, "agents *choices"]:
    """The actions of all agents, with -1 in place of those that a mask forbids."""
    columns = (action[:, None] if action.ndim == 1 else action).T.astype(jnp.int32)
    kept = []
    for own, column in zip(space.split(mask), columns, strict=True):
        allowed = own.at[jnp.arange(len(own)), column].get(
            mode="fill", fill_value=False, wrap_negative_indices=False
        )
        kept.append(jnp.where(allowed, column, -1))
    return jnp.stack(kept, axis=1).reshape(action.shape)
