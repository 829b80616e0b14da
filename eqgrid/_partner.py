"""Partners: policies and scripts that act for one agent of an environment."""

import abc
import functools
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray, Real, Shaped

from ._checks import as_number, as_probability, check_whole
from ._spaces import AbstractSpace, sample_allowed
from .typing import PyTree


@final
class PartnerInput(eqx.Module):
    """The input of a partner in one step.

    A policy uses the observation; a script may use the state.

    **Arguments:**

    - `observation`: the observations of all agents of one environment.
    - `state`: the state of the innermost environment, as `unwrap_state` returns it.
    - `seat`: the index of the agent for which the partner acts. It is an array, so that one
        compiled program covers all seats.
    """

    observation: PyTree[Shaped[Array, "agents ..."]]
    state: PyTree
    seat: Int[Array, ""]


class AbstractPartner(eqx.Module):
    """Acts for one agent, in any seat, in one step of one environment.

    Partners of one class should differ only in the values of array leaves. Many partners can then
    be stacked in one Module with a leading axis, and `eqx.filter_vmap` maps over all of them.
    """

    @abc.abstractmethod
    def initial_carry(self) -> PyTree[Shaped[Array, "..."]]:
        """The partner's memory at the start of an episode; `None` if the partner has no memory."""

    @abc.abstractmethod
    def __call__(
        self, seen: PartnerInput, carry: PyTree[Shaped[Array, "..."]], key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], PyTree[Shaped[Array, "..."]]]:
        """Chooses an action.

        **Arguments:**

        - `seen`: the observations, the state and the partner's seat before this step.
        - `carry`: the partner's memory: `initial_carry()` in the first step of an episode, then
            the carry that the previous call returned.
        - `key`: the source of randomness.

        **Returns:** the action of the agent in `seen.seat`, and the next carry.
        """


def act_as_team(
    team: Sequence[AbstractPartner],
    observation: PyTree[Shaped[Array, "agents ..."]],
    state: PyTree,
    carries: Sequence[PyTree[Shaped[Array, "..."]]],
    keys: Sequence[PRNGKeyArray],
) -> tuple[Shaped[Array, "agents ..."], tuple[PyTree[Shaped[Array, "..."]], ...]]:
    """Computes the actions of all agents, each with its own partner.

    **Arguments:**

    - `team`: the partner of every agent, in the order of the agents.
    - `observation`, `state`: as in `PartnerInput`.
    - `carries`: the memory of each partner before this step.
    - `keys`: the source of randomness of each partner.

    **Returns:** the actions of all agents, and the next memory of each partner.
    """
    results = [
        partner(PartnerInput(observation, state, jnp.asarray(seat)), carry, key)
        for seat, (partner, carry, key) in enumerate(zip(team, carries, keys, strict=True))
    ]
    shapes = [jnp.shape(action) for action, _ in results]
    if len(set(shapes)) > 1:
        names = (f"{type(x).__name__} {shape}" for x, shape in zip(team, shapes, strict=True))
        raise ValueError(f"Partners return actions of different shapes: {', '.join(names)}.")
    return jnp.stack([action for action, _ in results]), tuple(carry for _, carry in results)


def check_partners(partners: Sequence[AbstractPartner]) -> None:
    """**Raises:** `TypeError` unless the argument is a sequence of partners."""
    if not isinstance(partners, Sequence):
        kind = type(partners).__name__
        raise TypeError(
            f"The partners must be a sequence, such as a tuple, but are a single {kind}."
        )
    for number, partner in enumerate(partners):
        if not isinstance(partner, AbstractPartner):
            raise TypeError(
                f"Partner {number} must be an AbstractPartner, such as PolicyPartner(policy), but "
                f"is of the type {type(partner).__name__}."
            )


@final
class RandomPartner(AbstractPartner):
    """Samples every action uniformly from the actions that a `Masked` observation allows.

    ```python
    import jax

    from eqgrid import RandomPartner, make, play

    env = make("overcooked", layout="cramped")
    team = (RandomPartner(env.action_space), RandomPartner(env.action_space))
    result = play(env, team, jax.random.key(0), max_steps=100)
    ```

    **Arguments:**

    - `action_space`: the action space of one agent.
    """

    action_space: AbstractSpace

    def __check_init__(self):
        if not isinstance(self.action_space, AbstractSpace):
            raise TypeError(
                f"RandomPartner needs an action space, such as env.action_space, but got "
                f"{type(self.action_space).__name__}."
            )

    def initial_carry(self) -> None:
        return None

    def __call__(
        self, seen: PartnerInput, carry: None, key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], None]:
        return sample_allowed(self.action_space, seen.observation, seen.seat, key), None


@final
class ConstantPartner(AbstractPartner):
    """Takes the same action in every step.

    **Arguments:**

    - `action`: the action. In Overcooked, 4 means to stay.
    """

    action: Shaped[Array, "..."]

    def __init__(self, action: int | Shaped[Array, "..."]):
        self.action = jnp.asarray(action)

    def initial_carry(self) -> None:
        return None

    def __call__(
        self, seen: PartnerInput, carry: None, key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], None]:
        return self.action, None


@final
class NoisyPartner(AbstractPartner):
    """Wraps a partner, and replaces some of its actions by random actions.

    The memory of the inner partner is updated as if its own actions had been taken.

    ```python
    from eqgrid import NoisyPartner, make
    from eqgrid.envs.overcooked import ScriptedCook

    noisy = NoisyPartner(ScriptedCook("cramped"), 0.2, make("overcooked").action_space)
    ```

    **Arguments:**

    - `partner`: the inner partner.
    - `level`: the probability that an action is replaced by an action of a `RandomPartner`.
    - `action_space`: the action space of one agent.

    **Raises:** `ValueError` when the level is not between 0 and 1. A traced level is not checked.
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
        self, seen: PartnerInput, carry: PyTree[Shaped[Array, "..."]], key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], PyTree[Shaped[Array, "..."]]]:
        own_key, noise_key, level_key = jax.random.split(key, 3)
        action, carry = self.partner(seen, carry, own_key)
        noise = sample_allowed(self.action_space, seen.observation, seen.seat, noise_key)
        noise = noise.astype(action.dtype)
        return jnp.where(jax.random.bernoulli(level_key, self.level), noise, action), carry


@final
class DelayedPartner(AbstractPartner):
    """Wraps a partner, and takes each of its actions some steps later, since people react late.

    **Arguments:**

    - `partner`: the inner partner.
    - `steps`: the number of steps from choosing an action to taking it.
    - `idle`: the action in the first `steps` steps, such as to stay.

    **Raises:** `ValueError` when `steps` is not a whole number of at least 0.
    """

    partner: AbstractPartner
    steps: int = eqx.field(static=True)
    idle: Shaped[Array, "..."]

    def __init__(self, partner: AbstractPartner, steps: int, idle: int | Shaped[Array, "..."]):
        check_whole(steps=steps)
        if steps < 0:
            raise ValueError(f"DelayedPartner needs at least 0 steps, not {steps}.")
        self.partner, self.steps, self.idle = partner, steps, jnp.asarray(idle)

    def initial_carry(self) -> PyTree[Shaped[Array, "..."]]:
        queue = jnp.broadcast_to(self.idle, (self.steps, *self.idle.shape))
        return self.partner.initial_carry(), queue

    def __call__(
        self, seen: PartnerInput, carry: PyTree[Shaped[Array, "..."]], key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], PyTree[Shaped[Array, "..."]]]:
        own_carry, queue = carry
        action, own_carry = self.partner(seen, own_carry, key)
        queue = jnp.concatenate([queue, action.astype(self.idle.dtype)[None]])
        return queue[0].astype(action.dtype), (own_carry, queue[1:])


@final
class RecordedPartner(AbstractPartner):
    """Replays recorded actions, such as the actions of a human game or of a planner.

    The action depends only on the number of the step and on the seat.

    **Arguments:**

    - `actions`: the actions of all agents; the partner takes the actions of its seat.
    - `then`: the action after the last recorded one.

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
        self, seen: PartnerInput, carry: Int[Array, ""], key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], Int[Array, ""]]:
        length = len(self.actions)
        action = self.actions[jnp.minimum(carry, length - 1), seen.seat]
        return jnp.where(carry < length, action, self.then), carry + 1


@final
class OneOf(AbstractPartner):
    """One of several partners, picked by an index that is an array.

    Games with different partners can thus share one compiled program: map over the index, or sample
    the index in the reset of an environment.

    Partners of equal structure are stacked, and `OneOf` takes the row of the acting partner from
    its stack. `jax.lax.switch` selects the stack. If the index differs within a batch, it computes
    an action for every stack, and then selects one action.

    ```python
    from eqgrid import OneOf, ConstantPartner
    from eqgrid.envs.overcooked import ScriptedCook

    partners = OneOf([ScriptedCook("cramped"), ConstantPartner(4)])
    print(partners.num_partners)  # 2
    ```

    **Arguments:**

    - `partners`: the partners to pick from.
    - `number`: the index of the partner that acts.

    **Raises:** `ValueError` when there are no partners, or `number` is out of range. A traced
    number is not checked.
    """

    stacks: tuple[AbstractPartner, ...]
    group: Int[Array, " partners"]
    row: Int[Array, " partners"]
    number: Int[Array, ""]

    def __init__(self, partners: Sequence[AbstractPartner], number: Int[ArrayLike, ""] = 0):
        check_partners(partners)
        if len(partners) == 0:
            raise ValueError("OneOf needs at least 1 partner, but got none.")
        stacks = stack_partners(partners)
        # For each partner, the index of its stack and its row in the stack.
        group, row = np.zeros(len(partners), int), np.zeros(len(partners), int)
        for i, (_, members) in enumerate(stacks):
            group[list(members)], row[list(members)] = i, np.arange(len(members))
        self.stacks = tuple(stack for stack, _ in stacks)
        self.group, self.row = jnp.asarray(group), jnp.asarray(row)
        needs = f"OneOf needs the number of a partner, from 0 to {len(partners) - 1}"
        self.number = as_number(number, int, lambda x: 0 <= x < len(partners), needs)

    @property
    def num_partners(self) -> int:
        """The number of partners to pick from."""
        return len(self.group)

    def pick(self, number: Int[Array, ""]) -> "OneOf":
        """The same partners, of which the partner at index `number` acts."""
        return eqx.tree_at(lambda one_of: one_of.number, self, number)

    def alone(self, number: Int[Array, ""]) -> "OneOf":
        """As `pick`, but every stack keeps only one row: in the stack of the acting partner, the
        row of this partner. If the same partner acts in a whole batch of games, the actions of the
        other partners in its stack are not computed.
        """

        def only_row(x: PyTree) -> PyTree:
            return _entry(x, self.row[number])[None] if eqx.is_array(x) else x

        stacks = jax.tree.map(only_row, self.stacks)
        return eqx.tree_at(
            lambda one_of: (one_of.stacks, one_of.row, one_of.number),
            self,
            (stacks, jnp.zeros_like(self.row), number),
        )

    def initial_carry(self) -> PyTree[Shaped[Array, "..."]]:
        """The initial memory for each stack; only the memory of the acting partner is used."""
        return tuple(_row(stack, self.row[self.number]).initial_carry() for stack in self.stacks)

    def __call__(
        self, seen: PartnerInput, carry: PyTree[Shaped[Array, "..."]], key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], PyTree[Shaped[Array, "..."]]]:
        branches = [functools.partial(_act_in_stack, *pair) for pair in enumerate(self.stacks)]
        row = self.row[self.number]
        return jax.lax.switch(self.group[self.number], branches, row, seen, carry, key)


def stack_partners(
    partners: Sequence[AbstractPartner],
) -> list[tuple[AbstractPartner, tuple[int, ...]]]:
    """Stacks partners that differ only in the values of their arrays.

    **Arguments:**

    - `partners`: any partners, of equal or different structures.

    **Returns:** one pair per distinct structure: a Module whose array leaves have a leading axis of
    partners, and the indices of these partners in `partners`.
    """
    groups: list[list[int]] = []
    for number, partner in enumerate(partners):
        for group in groups:
            if _alike(partners[group[0]], partner):
                group.append(number)
                break
        else:
            groups.append([number])
    stacks = []
    for group in groups:
        arrays, rest = zip(*(eqx.partition(partners[i], eqx.is_array) for i in group), strict=True)
        stack = eqx.combine(jax.tree.map(lambda *x: jnp.stack(x), *arrays), rest[0])
        stacks.append((stack, tuple(group)))
    return stacks


_FEW = 16
"""In a stack of at most this many partners, all partners act, and one action is selected. In a
batch of games, this is faster than copying the parameters of the acting partner for every game.
"""


def _act_in_stack(
    index: int,
    stack: AbstractPartner,
    row: Int[Array, ""],
    seen: PartnerInput,
    carry: tuple[PyTree, ...],
    key: PRNGKeyArray,
) -> tuple[Shaped[Array, "..."], tuple[PyTree, ...]]:
    """The action of `OneOf` when the acting partner is in the stack at `index`."""
    arrays = jax.tree.leaves(eqx.filter(stack, eqx.is_array))
    if arrays and 1 < len(arrays[0]) <= _FEW:
        results = eqx.filter_vmap(lambda partner: partner(seen, carry[index], key))(stack)
        action, own_carry = _row(results, row)
    else:
        action, own_carry = _row(stack, row)(seen, carry[index], key)
    # All branches of `jax.lax.switch` must return the same dtype.
    dtype = int if jnp.issubdtype(action.dtype, jnp.integer) else float
    return action.astype(dtype), (*carry[:index], own_carry, *carry[index + 1 :])


def _alike(one: AbstractPartner, other: AbstractPartner) -> bool:
    """Whether two partners have equal structures, and arrays of equal shapes and dtypes."""
    arrays, rest = zip(*(eqx.partition(x, eqx.is_array) for x in (one, other)), strict=True)
    shapes = [jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), x) for x in arrays]
    return bool(eqx.tree_equal(*shapes)) and bool(eqx.tree_equal(*rest))


def _row(stack: PyTree, row: Int[Array, ""]) -> PyTree:
    """One row of every array of a stack of partners or of their results.

    If the acting partner is in another, larger stack, its row may not exist in this stack. The row
    is then clipped, since the result is not used.
    """
    return jax.tree.map(lambda x: _entry(x, row) if eqx.is_array(x) else x, stack)


def _entry(x: Shaped[Array, "partners ..."], row: Int[Array, ""]) -> Shaped[Array, "..."]:
    # Gathering from a stack of one partner would copy its arrays for every game.
    return x[0] if len(x) == 1 else x.at[row].get(mode="clip")
