"""The actions of grid worlds. A game has a tuple of actions, and an agent's action is an index.

If agents make several choices in a step, such as a move and a word, the game has one tuple of
actions per choice, and an agent's action has one index per choice. An index out of range does
nothing, like `Stay`.
"""

import abc
import dataclasses
import functools
import operator
from collections.abc import Sequence
from typing import Literal, TypeAlias, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int8

from .._spaces import Discrete, MultiDiscrete
from ._layout import Layout
from ._world import Direction, World


@dataclasses.dataclass(frozen=True)
class Move:
    """Turns the agent to a direction, and moves it one cell that way if that cell is free."""

    direction: Direction


@dataclasses.dataclass(frozen=True)
class Rotate:
    r"""Turns the agent by 90 degrees, without moving it.

    ```python
    import jax
    import jax.numpy as jnp

    from eqgrid import grid

    kinds = grid.Kinds((grid.Kind("floor", " "), grid.Kind("wall", "#", solid=True)))
    layout = grid.Layout.parse("####\n#1 #\n####", kinds).with_start(directions=[2])  # east
    room = grid.GridWorld(
        layout,
        actions=(grid.Rotate("left"), grid.Rotate("right"), grid.Forward()),
        phases=(grid.Go(grid.LocalCollision()),),
        reward=grid.WeightedEventReward({}, ()),
    )
    _, state = room.reset(jax.random.key(0))
    _, state = room.step(jax.random.key(1), state, jnp.array([0]))  # to the left
    print(state.bodies.direction.tolist())  # [0], north
    ```
    """

    side: Literal["left", "right"]


@dataclasses.dataclass(frozen=True)
class Forward:
    r"""Moves the agent one cell in the direction that it faces, if that cell is free.

    ```python
    import jax
    import jax.numpy as jnp

    from eqgrid import grid

    kinds = grid.Kinds((grid.Kind("floor", " "), grid.Kind("wall", "#", solid=True)))
    layout = grid.Layout.parse("####\n#1 #\n####", kinds).with_start(directions=[2])  # east
    room = grid.GridWorld(
        layout,
        actions=(grid.Rotate("left"), grid.Rotate("right"), grid.Forward()),
        phases=(grid.Go(grid.LocalCollision()),),
        reward=grid.WeightedEventReward({}, ()),
    )
    _, state = room.reset(jax.random.key(0))
    _, state = room.step(jax.random.key(1), state, jnp.array([2]))  # forward
    print(state.bodies.position.tolist())  # [[1, 2]]
    ```
    """


@dataclasses.dataclass(frozen=True)
class Strafe:
    """Moves the agent one cell to its left, to its right or back, if that cell is free. The agent
    keeps its direction.
    """

    side: Literal["left", "right", "back"]


@dataclasses.dataclass(frozen=True)
class Stay:
    """Leaves the agent as it is.

    ```python
    from eqgrid.grid import MOVES, Stay

    actions = (*MOVES, Stay())
    print(len(actions), actions.index(Stay()))  # 5 4
    ```
    """


@dataclasses.dataclass(frozen=True)
class Use:
    """Interacts with the faced cell. A game may have several such actions with different names.

    ```python
    from eqgrid.grid import MOVES, Stay, Use

    actions = (*MOVES, Stay(), Use("take"), Use("repair"))
    print(actions.index(Use("repair")))  # 6
    ```
    """

    name: str = "interact"


@dataclasses.dataclass(frozen=True)
class Say:
    """Says a word, which other agents hear in the next observation; see `Speak` and `Heard`."""

    word: str


Action: TypeAlias = Move | Rotate | Forward | Strafe | Stay | Use | Say
"""Something that an agent can do in a step."""

Actions: TypeAlias = tuple[Action, ...] | tuple[tuple[Action, ...], ...]
"""The actions of a game: one tuple, or one for each choice that an agent makes in a step."""

MOVES: tuple[Action, ...] = tuple(Move(direction) for direction in Direction)
"""Moves to the north, south, east and west, in this order.

```python
from eqgrid.grid import MOVES, Direction

print(len(MOVES), MOVES[0].direction == Direction.NORTH)  # 4 True
```
"""

_SIDES = {
    "left": np.asarray([Direction.WEST, Direction.EAST, Direction.NORTH, Direction.SOUTH], np.int8),
    "right": np.asarray(
        [Direction.EAST, Direction.WEST, Direction.SOUTH, Direction.NORTH], np.int8
    ),
    "back": np.asarray([Direction.SOUTH, Direction.NORTH, Direction.WEST, Direction.EAST], np.int8),
}
"""For each side, the direction on that side of an agent, indexed by the direction it faces."""


def by_choice(actions: Actions) -> tuple[tuple[Action, ...], ...]:
    """The actions of each choice that an agent makes in a step."""
    return tuple(x for x in actions if isinstance(x, tuple)) or (_single(actions),)


def words_of(actions: Actions) -> tuple[str, ...]:
    """The words that agents can say, in the order of the actions."""
    all_actions = (action for choice in by_choice(actions) for action in choice)
    return tuple(action.word for action in all_actions if isinstance(action, Say))


def _single(actions: Actions) -> tuple[Action, ...]:
    """The actions of a game in which agents make one choice."""
    return tuple(x for x in actions if not isinstance(x, tuple))


def _choices(
    actions: Actions, action: Int[Array, "agents *choices"]
) -> list[tuple[tuple[Action, ...], Int[Array, " agents"]]]:
    """For each choice, its actions and the index that each agent has chosen."""
    if action.ndim == 1:
        return [(_single(actions), action)]
    return [(choice, action[:, i]) for i, choice in enumerate(by_choice(actions))]


def chosen(
    actions: Actions, action: Int[Array, "agents *choices"], *kinds: type[Action] | Action
) -> Bool[Array, " agents"]:
    """Which agents have chosen an action that is one of `kinds`, or an instance of one of them."""
    found = [_chosen_of(choice, index, *kinds) for choice, index in _choices(actions, action)]
    return functools.reduce(operator.or_, found)


def _chosen_of(
    actions: tuple[Action, ...], index: Int[Array, " agents"], *kinds: type[Action] | Action
) -> Bool[Array, " agents"]:
    types = tuple(kind for kind in kinds if isinstance(kind, type))
    wanted = [i for i, value in enumerate(actions) if isinstance(value, types) or value in kinds]
    # A range of indices, such as the four moves, needs two comparisons instead of one per index.
    if len(wanted) > 1 and wanted == list(range(wanted[0], wanted[-1] + 1)):
        return (index >= wanted[0]) & (index <= wanted[-1])
    found = jnp.zeros(index.shape, bool)
    for i in wanted:
        found |= index == i
    return found


def turned(
    actions: Actions, action: Int[Array, "agents *choices"], direction: Int8[Array, " agents"]
) -> Int8[Array, " agents"]:
    """The direction that each agent faces after its moves or rotations."""
    for choice, index in _choices(actions, action):
        direction = _turned_by(choice, index, direction)
    return direction


def _turned_by(
    actions: tuple[Action, ...], index: Int[Array, " agents"], direction: Int8[Array, " agents"]
) -> Int8[Array, " agents"]:
    turns = [(i, value) for i, value in enumerate(actions) if isinstance(value, Move | Rotate)]
    if turns == list(enumerate(MOVES)):  # the index of a move is its direction: one selection
        moves = _chosen_of(actions, index, Move)
        return jnp.where(moves, index.astype(jnp.int8), direction)
    faces = direction
    # An agent has chosen one of the actions, so at most one of these selections applies to it.
    for i, value in enumerate(actions):
        if isinstance(value, Move):
            faces = jnp.where(index == i, jnp.int8(value.direction), faces)
        elif isinstance(value, Rotate):
            faces = jnp.where(index == i, jnp.asarray(_SIDES[value.side])[direction], faces)
    return faces


def headed(
    actions: Actions, action: Int[Array, "agents *choices"], direction: Int8[Array, " agents"]
) -> Int8[Array, " agents"]:
    """The direction in which each agent moves, if it moves, while it faces `direction`."""
    heading = direction
    for choice, index in _choices(actions, action):
        for i, value in enumerate(choice):
            if isinstance(value, Strafe):
                side = jnp.asarray(_SIDES[value.side])[direction]
                heading = jnp.where(index == i, side, heading)
    return heading


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

        **Returns:** one boolean for each action. If agents make several choices, the booleans of
        all choices are concatenated. An active agent needs at least one allowed action in every
        choice.
        """


@final
class OwnActions(AbstractActionMask):
    """Agents with different actions: each agent can take only some actions of the game.

    If agents make several choices, each agent needs an action in every choice: add `Stay()` to a
    choice of words for agents that cannot speak.

    **Arguments:**

    - `actions`: for each agent, in the order of the agents, the actions that it may take.

    **Raises:** `ValueError`, when the world is first used, if the number of entries is not the
    number of agents, if an entry has an action that the game does not have, or if an agent has no
    action in a choice.
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
                f"the actions of {len(self.actions)}."
            )
        choices = by_choice(actions)
        known = [action for choice in choices for action in choice]
        for own in self.actions:
            if unknown := [action for action in own if action not in known]:
                raise ValueError(
                    f"OwnActions has {unknown[0]}, which is not an action of the game."
                )
        has = [[[action in own for action in choice] for choice in choices] for own in self.actions]
        if not all(any(choice) for own in has for choice in own):
            raise ValueError(
                "OwnActions leaves an agent without any action in a choice: give it one, such as "
                "Stay()."
            )
        return jnp.asarray([[x for choice in own for x in choice] for own in has])


def allowed_only(
    mask: Bool[Array, "agents options"],
    space: Discrete | MultiDiscrete,
    action: Int[Array, "agents *choices"],
) -> Int[Array, "agents *choices"]:
    """The actions of all agents, with -1 in place of forbidden actions."""
    # One column per choice, so that the loop handles both kinds of action spaces.
    columns = (action[:, None] if action.ndim == 1 else action).T.astype(jnp.int32)
    kept = []
    for own, column in zip(space.split(mask), columns, strict=True):
        # An index out of range is legal and does nothing: it counts as forbidden.
        allowed = own.at[jnp.arange(len(own)), column].get(
            mode="fill", fill_value=False, wrap_negative_indices=False
        )
        kept.append(jnp.where(allowed, column, -1))
    return jnp.stack(kept, axis=1).reshape(action.shape)
