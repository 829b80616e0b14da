"""The messages between a page and the server, and the keys and actions of people.

Each message has a `type`; unknown fields are refused.
"""

import itertools
from collections.abc import AsyncIterable, Sequence
from typing import Annotated, Any, TypeAlias, final

import msgspec
from msgspec import Meta

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


LARGEST_MESSAGE = 1024
"""The largest message of a page, in bytes."""
_Token = Annotated[str, Meta(max_length=64)]
_Index = Annotated[int, Meta(ge=0, le=255)]


class _FromPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """A message of a page."""


@final
class Join(_FromPage, frozen=True, tag="join"):
    """The first message: which seat the page may play in, by its token."""

    token: _Token


@final
class Press(_FromPage, frozen=True, tag="press"):
    """A key or button was pressed."""

    choice: _Index
    action: _Index


@final
class Hold(_FromPage, frozen=True, tag="hold"):
    """A key is still down, or, without an action, no key is."""

    choice: _Index
    action: _Index | None


@final
class Pause(_FromPage, frozen=True, tag="pause"):
    """Stops the clock, or starts it again."""

    on: bool


@final
class Leave(_FromPage, frozen=True, tag="leave"):
    """Ends the game for everybody."""


@final
class Ping(_FromPage, frozen=True, tag="ping"):
    """Asks for a `Pong`.

    - `sent`: comes back.
    - `latency`: how many milliseconds the last one took.
    """

    sent: float
    latency: Annotated[float, Meta(ge=0, le=1e6)] | None = None


FromPage: TypeAlias = Join | Press | Hold | Pause | Leave | Ping


class ToPage(msgspec.Struct, frozen=True, tag_field="type"):
    """A message to a page."""


@final
class Opening(ToPage, frozen=True, tag="opening"):
    """What stays the same in a game.

    - `title`: the name of the layout.
    - `height`, `width`: the number of rows and columns.
    - `seat`: the seat of the page.
    - `seats`: who has each seat.
    - `colours`: the colour of each seat.
    - `controls`: what a person can do.
    - `horizon`: the largest number of steps; `None` if the world alone decides.
    - `ticks_per_second`: the rate of the clock.
    - `notes`: what pays, in words.
    - `holds`: whether agents can hold something.
    """

    title: str
    height: int
    width: int
    seat: int
    seats: list[str]
    colours: list[str]
    controls: tuple[Control, ...]
    horizon: int | None
    ticks_per_second: float
    notes: list[str]
    holds: bool


@final
class Frame(ToPage, frozen=True, tag="frame"):
    """What a page shows.

    - `step`: the number of steps that were played.
    - `cells`: pairs of a cell, in row-major order, and the number of its new picture.
    - `pictures`: PNGs in base64 by their number, of pictures that the page does not have yet.
    - `scores`: the return of each agent so far.
    - `places`: the cell of each agent.
    - `held`: what each agent holds.
    """

    step: int
    cells: list[tuple[int, int]]
    pictures: dict[int, str]
    scores: list[float]
    places: list[int]
    held: list[str]


@final
class Status(ToPage, frozen=True, tag="status"):
    """How a game stands: `preparing`, `waiting` for somebody, `playing`, `paused` or `over`.

    - `text`: a sentence for people.
    """

    status: str
    text: str


@final
class Pong(ToPage, frozen=True, tag="pong"):
    """The answer to a `Ping`."""

    sent: float


@final
class Refusal(ToPage, frozen=True, tag="refusal"):
    """Why a message has no effect, in a sentence."""

    text: str


async def read_body(parts: AsyncIterable[bytes], most: int) -> bytes | None:
    """The body of a request; `None` if it has more than `most` bytes; the rest stays unread."""
    content = b""
    async for part in parts:
        content += part
        if len(content) > most:
            return None
    return content


_ENCODER = msgspec.json.Encoder()


def read_json(content: str | bytes, type: Any) -> Any:
    """Reads JSON of a page.

    **Arguments:**

    - `content`: the JSON.
    - `type`: what it should be.

    **Raises:** `msgspec.MsgspecError` when it is something else, or no UTF-8.
    """
    try:
        return msgspec.json.decode(content, type=type)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError("The message is not UTF-8") from error


def read_message(content: str | bytes) -> FromPage:
    """Reads a message of a page. **Raises:** `msgspec.MsgspecError` when it is none."""
    size = len(content.encode(errors="replace") if isinstance(content, str) else content)
    if size > LARGEST_MESSAGE:
        raise msgspec.ValidationError(f"a message may have {LARGEST_MESSAGE} bytes at most")
    return read_json(content, FromPage)


def to_text(message: ToPage) -> str:
    """A message to a page as text."""
    return _ENCODER.encode(message).decode()
