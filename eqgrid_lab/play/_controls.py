"""Controls: which keys take which actions of a grid world."""

import itertools
from collections.abc import Sequence
from typing import final

import msgspec

from eqgrid.grid import (
    Action,
    Actions,
    Direction,
    Forward,
    Move,
    Rotate,
    Say,
    Stay,
    Strafe,
    Use,
    by_choice,
)

_ARROWS = {
    Direction.NORTH: ("ArrowUp", "KeyW"),
    Direction.SOUTH: ("ArrowDown", "KeyS"),
    Direction.EAST: ("ArrowRight", "KeyD"),
    Direction.WEST: ("ArrowLeft", "KeyA"),
}
_TURNS = {"left": ("ArrowLeft", "KeyA"), "right": ("ArrowRight", "KeyD")}
_STEPS = {"back": ("ArrowDown", "KeyS"), "left": ("KeyZ",), "right": ("KeyX",)}
_USES = (("Space", "Enter"), ("KeyE",), ("KeyR",), ("KeyF",), ("KeyC",), ("KeyV",))
_WORDS = {"pickup": "pick up or put down", "toggle_load": "load or unload", "toggle": "use or open"}
"""Names of uses for people, where those of the world are not clear."""


@final
class Control(msgspec.Struct, frozen=True):
    """An action that a person can take.

    - `choice`: the index of the choice, for worlds in which an agent makes several in a step.
    - `action`: the index of the action among those of the choice.
    - `name`: a name for people, such as `"up"` or `"interact"`.
    - `keys`: the keys that take it, as `KeyboardEvent.code` of browsers names them.
    - `repeats`: whether it is taken again in every step while the key is held down.
    """

    choice: int
    action: int
    name: str
    keys: tuple[str, ...]
    repeats: bool


def controls_of(actions: Actions) -> tuple[Control, ...]:
    """The controls of a world, with keys for all actions but to stay.

    Moves have the arrow keys and W, A, S, D, steps to the side Z and X, other uses of the faced
    cell the space bar and then letters, and words the digits.

    **Arguments:**

    - `actions`: the actions of the world.
    """
    return tuple(
        control
        for number, choice in enumerate(by_choice(actions))
        for control in _of_choice(number, choice)
    )


def idle_action(actions: Actions) -> list[int]:
    """For each choice, the action of somebody who presses nothing: to stay, if there is such an
    action, and otherwise -1, which does nothing in a grid world.
    """
    return [
        next((i for i, action in enumerate(choice) if isinstance(action, Stay)), -1)
        for choice in by_choice(actions)
    ]


def _of_choice(number: int, choice: Sequence[Action]) -> list[Control]:
    found: list[Control] = []
    uses, words = iter(_USES), iter(range(1, 10))
    for index, action in enumerate(choice):
        match action:
            case Move(direction):
                name, keys = (
                    {"n": "up", "s": "down", "e": "right", "w": "left"}[direction.name[0].lower()],
                    _ARROWS[direction],
                )
            case Rotate(side):
                name, keys = f"turn {side}", _TURNS[side]
            case Forward():
                name, keys = "forward", _ARROWS[Direction.NORTH]
            case Strafe(side):
                name, keys = f"step {side}", _STEPS[side]
            case Use(name):
                name, keys = _WORDS.get(name, name.replace("_", " ")), next(uses, ())
            case Say(word):
                name, keys = f"say {word}", tuple(f"Digit{i}" for i in itertools.islice(words, 1))
            case Stay():
                continue
        found.append(
            Control(number, index, name, keys, isinstance(action, Move | Forward | Strafe))
        )
    return found
