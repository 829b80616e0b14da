"""Partners: whoever acts for one agent of an environment, whatever they act by."""

import abc
import functools
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray, PyTree, Real, Shaped

from ._checks import as_number, as_probability
from ._observed import sample_allowed
from ._spaces import AbstractSpace


@final
class Seen(eqx.Module):
    """What a partner may read before it acts.

    A policy reads the observation, and a script the state.

    **Arguments:**

    - `observation`: what all agents of one environment observe.
    - `state`: the state of the environment in all wrappers, as `unwrap_state` gives it.
    - `seat`: the number of the agent for which the partner acts. It is an array, so that one
        compiled program serves all seats.
    """

    observation: PyTree[Shaped[Array, "agents ..."]]
    state: PyTree
    seat: Int[Array, ""]


class AbstractPartner(eqx.Module):
    """Acts for one agent, in any seat, in one step of one environment.

    What differs between partners of one kind should be array leaves: many partners are then one
    Module, whose leaves lead with one more axis, and `eqx.filter_vmap` plays with all of them.
    """

    @abc.abstractmethod
    def initial_carry(self) -> PyTree[Shaped[Array, "..."]]:
        """What the partner remembers when an episode starts; `None` when it remembers nothing."""

    @abc.abstractmethod
    def __call__(
        self, seen: Seen, carry: PyTree[Shaped[Array, "..."]], key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], PyTree[Shaped[Array, "..."]]]:
        """Chooses an action.

        **Arguments:**

        - `seen`: what can be read before this step.
        - `carry`: what the partner remembers: `initial_carry()` in the first step of an episode,
            and what the last call returned in all other steps.
        - `key`: the source of randomness.

        **Returns:** the action of the agent in `seen.seat`, and the next carry.
        """


@final
class RandomPartner(AbstractPartner):
    """Draws every action uniformly, among those that a `Masked` observation allows.

    **Arguments:**

    - `action_space`: where the actions are drawn from.
    """

    action_space: AbstractSpace

    def initial_carry(self) -> None:
        return None

    def __call__(
        self, seen: Seen, carry: None, key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], None]:
        return sample_allowed(self.action_space, seen.observation, seen.seat, key), None


@final
class StayPartner(AbstractPartner):
    """Takes one and the same action in every step.

    **Arguments:**

    - `action`: that action. In a kitchen, 4 means to stay.
    """

    action: Shaped[Array, "..."]

    def __init__(self, action: int | Shaped[Array, "..."]):
        self.action = jnp.asarray(action)

    def initial_carry(self) -> None:
        return None

    def __call__(
        self, seen: Seen, carry: None, key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], None]:
        return self.action, None


@final
class NoisyPartner(AbstractPartner):
    """Another partner, some of whose actions are replaced by random ones.

    What the other partner remembers is the same as without noise, so it does not know which of its
    actions were replaced.

    **Arguments:**

    - `partner`: whose actions they are.
    - `level`: the probability with which an action is replaced by a uniformly drawn one, as
        `RandomPartner` draws it.
    - `action_space`: where that one is drawn from.

    **Raises:** `ValueError` when the level is not between 0 and 1. A level that is being traced is
    not looked at.
    """

    partner: AbstractPartner
    level: Float[Array, ""]
    action_space: AbstractSpace

    def __init__(
        self,
        partner: AbstractPartner,
        level: Real[ArrayLike, ""],
        action_space: AbstractSpace,
    ):
        self.partner, self.action_space = partner, action_space
        self.level = as_probability(level, "NoisyPartner needs a level between 0 and 1")

    def initial_carry(self) -> PyTree[Shaped[Array, "..."]]:
        return self.partner.initial_carry()

    def __call__(
        self, seen: Seen, carry: PyTree[Shaped[Array, "..."]], key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], PyTree[Shaped[Array, "..."]]]:
        own_key, noise_key, level_key = jax.random.split(key, 3)
        action, carry = self.partner(seen, carry, own_key)
        drawn = sample_allowed(self.action_space, seen.observation, seen.seat, noise_key)
        drawn = drawn.astype(action.dtype)
        return jnp.where(jax.random.bernoulli(level_key, self.level), drawn, action), carry


@final
class RecordedPartner(AbstractPartner):
    """Plays actions that were written down before, such as a recording or the plan of a planner.

    It takes them by time, whatever happens in the environment.

    **Arguments:**

    - `actions`: the actions of all agents, of which the partner plays those of its seat.
    - `then`: the action after the last one.

    **Raises:** `ValueError` when there are no actions.
    """

    actions: Shaped[Array, "time agents ..."]
    then: Shaped[Array, "..."]

    def __init__(self, actions: Shaped[Array, "time agents ..."], then: int | Shaped[Array, "..."]):
        if actions.shape[0] == 0:
            raise ValueError("A recording needs at least one step, but has none.")
        self.actions, self.then = actions, jnp.asarray(then, actions.dtype)

    def initial_carry(self) -> Int[Array, ""]:
        return jnp.zeros((), int)

    def __call__(
        self, seen: Seen, carry: Int[Array, ""], key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], Int[Array, ""]]:
        length = len(self.actions)
        action = self.actions[jnp.minimum(carry, length - 1), seen.seat]
        return jnp.where(carry < length, action, self.then), carry + 1


@final
class OneOf(AbstractPartner):
    """One of several partners, whose number is an array.

    Games with different partners are thereby one program: map over the number, or draw it in the
    reset of an environment. Partners of equal structure are stacked, and one of them is picked by
    its row. For partners of different structures, `jax.lax.switch` decides; where it is mapped, it
    computes the actions of all structures, and selects one.

    **Arguments:**

    - `partners`: from which one is picked.
    - `number`: which one acts.

    **Raises:** `ValueError` when there is no partner, or none of this number. A number that is
    being traced is not looked at.
    """

    stacks: tuple[AbstractPartner, ...]
    group: Int[Array, " partners"]
    row: Int[Array, " partners"]
    number: Int[Array, ""]

    def __init__(self, partners: Sequence[AbstractPartner], number: Int[ArrayLike, ""] = 0):
        if len(partners) == 0:
            raise ValueError("OneOf needs at least 1 partner, but got none.")
        stacks = stack_partners(partners)
        group, row = np.zeros(len(partners), int), np.zeros(len(partners), int)
        for i, (_, numbers) in enumerate(stacks):
            group[list(numbers)], row[list(numbers)] = i, np.arange(len(numbers))
        self.stacks = tuple(stack for stack, _ in stacks)
        self.group, self.row = jnp.asarray(group), jnp.asarray(row)
        needs = f"OneOf needs a number from 0 to {len(partners) - 1}, which of its partners acts"
        self.number = as_number(number, int, lambda x: 0 <= x < len(partners), needs)

    @property
    def num_partners(self) -> int:
        """From how many partners one is picked."""
        return len(self.group)

    def pick(self, number: Int[Array, ""]) -> "OneOf":
        """The same partners, of whom another one acts."""
        return eqx.tree_at(lambda one_of: one_of.number, self, number)

    def initial_carry(self) -> PyTree[Shaped[Array, "..."]]:
        """What would be remembered by a partner of each structure."""
        return tuple(_row(stack, self.row[self.number]).initial_carry() for stack in self.stacks)

    def __call__(
        self, seen: Seen, carry: PyTree[Shaped[Array, "..."]], key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], PyTree[Shaped[Array, "..."]]]:
        branches = [functools.partial(_act_in_stack, i, x) for i, x in enumerate(self.stacks)]
        row = self.row[self.number]
        return jax.lax.switch(self.group[self.number], branches, row, seen, carry, key)


def _act_in_stack(
    index: int,
    stack: AbstractPartner,
    row: Int[Array, ""],
    seen: Seen,
    carry: tuple[PyTree, ...],
    key: PRNGKeyArray,
) -> tuple[Shaped[Array, "..."], tuple[PyTree, ...]]:
    """What `OneOf` does if a partner of one structure acts."""
    action, own = _row(stack, row)(seen, carry[index], key)
    kind = int if jnp.issubdtype(action.dtype, jnp.integer) else float
    return action.astype(kind), (*carry[:index], own, *carry[index + 1 :])


def stack_partners(
    partners: Sequence[AbstractPartner],
) -> list[tuple[AbstractPartner, tuple[int, ...]]]:
    """Puts together the partners that differ in nothing but the numbers in their arrays.

    **Arguments:**

    - `partners`: any partners.

    **Returns:** one pair for each structure that there is: a Module whose array leaves lead with an
    axis of the partners of this structure, and the positions of these in `partners`.
    """
    groups: list[list[int]] = []
    for number, partner in enumerate(partners):
        alike = next((group for group in groups if _alike(partners[group[0]], partner)), None)
        if alike is None:
            groups.append([number])
        else:
            alike.append(number)
    return [(_stacked([partners[i] for i in group]), tuple(group)) for group in groups]


def _alike(one: AbstractPartner, other: AbstractPartner) -> bool:
    """Whether two partners have equal structures, and arrays of equal shapes."""
    arrays, rest = zip(*(eqx.partition(x, eqx.is_array) for x in (one, other)), strict=True)
    shapes = [jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), x) for x in arrays]
    return bool(eqx.tree_equal(*shapes)) and bool(eqx.tree_equal(*rest))


def _stacked(partners: Sequence[AbstractPartner]) -> AbstractPartner:
    arrays, rest = zip(*(eqx.partition(x, eqx.is_array) for x in partners), strict=True)
    return eqx.combine(jax.tree.map(lambda *x: jnp.stack(x), *arrays), rest[0])


def _row(stack: AbstractPartner, row: Int[Array, ""]) -> AbstractPartner:
    """One of the partners of a stack. A row that another stack has would be too large for this one:
    any partner will do then, as its action is not taken.
    """
    return jax.tree.map(lambda x: _entry(x, row) if eqx.is_array(x) else x, stack)


def _entry(x: Shaped[Array, "partners ..."], row: Int[Array, ""]) -> Shaped[Array, "..."]:
    # The only partner of its structure is not gathered, which would copy it for every game.
    return x[0] if len(x) == 1 else x.at[row].get(mode="clip")
