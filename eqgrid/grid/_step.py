"""One step of a world: what its phases pass on, and what rewards, events and endings read."""

import abc
import dataclasses
import functools
import operator
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from ._actions import Action, Use, chosen
from ._layout import Layout
from ._world import World


@final
class Step(eqx.Module):
    """One step, as far as it has come.

    - `layout`: what is built where, and the parameters of the game.
    - `action`: what everybody has chosen, as positions in `actions`.
    - `key`: for what is random in this step; phases draw with keys folded from it.
    - `before`: the world in which the step began.
    - `world`: the world now.
    - `turns`: the world as each agent found it when its turn came, in the order of the agents.
    - `rules`, `fired`: the types of the rules so far, and for whom each has fired.
    - `happened`: for whom each of the game's events has happened, once all phases are over.
    """

    layout: Layout
    action: Int[Array, " agents"]
    key: PRNGKeyArray
    before: World
    world: World
    actions: tuple[Action, ...] = eqx.field(static=True)
    turns: tuple[World, ...] = ()
    fired: tuple[tuple[Bool[Array, ""], ...], ...] = ()
    rules: tuple[type, ...] = eqx.field(static=True, default=())
    happened: tuple[Bool[Array, " agents"], ...] = ()

    def uses(self, *verbs: Use) -> Bool[Array, " agents"]:
        """Who has chosen one of these verbs, or any verb at all where none is named."""
        return chosen(self.actions, self.action, *(verbs or (Use,)))

    def by(self, *rules: type) -> Bool[Array, " agents"]:
        """For whom a rule of one of these types has fired."""
        columns = [
            fired
            for rule, fired in zip(self.rules, self.fired, strict=True)
            if issubclass(rule, rules)
        ]
        never = jnp.zeros((), bool)
        return jnp.stack(
            [
                functools.reduce(operator.or_, (column[agent] for column in columns), never)
                for agent in range(self.world.num_agents)
            ]
        )

    def then(
        self,
        world: World,
        rule: type | None = None,
        fired: Bool[Array, " agents"] | None = None,
    ) -> "Step":
        """The step after one more phase.

        **Arguments:**

        - `world`: what the phase leaves behind.
        - `rule`, `fired`: what `by` shall find: the type of the rule, and for whom it has fired.
            Both are given, or none.

        **Raises:** `ValueError` when one of them is missing.
        """
        if (rule is None) != (fired is None):
            raise ValueError(
                "step.then needs both a rule and for whom it has fired: step.then(world, Rule, "
                "fired), or neither."
            )
        if rule is None or fired is None:
            return dataclasses.replace(self, world=world)
        return dataclasses.replace(
            self, world=world, rules=(*self.rules, rule), fired=(*self.fired, tuple(fired))
        )


class AbstractPhase(eqx.Module):
    """A part of a step, such as what agents do one after the other, how they move, or what they do
    together. A game has a tuple of phases, in the order in which they happen.
    """

    @abc.abstractmethod
    def __call__(self, step: Step) -> Step:
        """The step with this phase done; see `Step.then`."""


def run_phases(phases: tuple[AbstractPhase, ...], step: Step) -> Step:
    """Goes through all phases, each with a key of its own."""
    key = step.key
    for number, phase in enumerate(phases):
        step = phase(dataclasses.replace(step, key=jax.random.fold_in(key, number)))
    return step
