"""The messages between a page and the server: the keys and actions of people, and the frames that
pages show.

Each message has a `type`. A message of a page with an unknown field raises an error.
"""

import base64
import threading
from collections.abc import AsyncIterable, Sequence
from itertools import islice
from typing import Annotated, TypeAlias, TypeVar, final

import msgspec
import numpy as np
from msgspec import Meta

from eqgrid.grid import (
    IDLE,
    NOTHING,
    Actions,
    Direction,
    Forward,
    Kinds,
    Layout,
    Look,
    Move,
    PlacedWorld,
    Rotate,
    Say,
    Stay,
    Strafe,
    Use,
    World,
    by_choice,
    look_png,
    looks,
)
from eqgrid.typing import PyTree

T = TypeVar("T")

# The names of actions for people, and their keys as `KeyboardEvent.code` of browsers names them.
_MOVES = {
    Direction.NORTH: ("up", ("ArrowUp", "KeyW")),
    Direction.SOUTH: ("down", ("ArrowDown", "KeyS")),
    Direction.EAST: ("right", ("ArrowRight", "KeyD")),
    Direction.WEST: ("left", ("ArrowLeft", "KeyA")),
}
_TURNS = {"left": ("ArrowLeft", "KeyA"), "right": ("ArrowRight", "KeyD")}
_STEPS = {"back": ("ArrowDown", "KeyS"), "left": ("KeyZ",), "right": ("KeyX",)}
# The keys of the first use, the second use, and so on.
_USES = (("Space", "Enter"), ("KeyE",), ("KeyR",), ("KeyF",), ("KeyC",), ("KeyV",))
_WORDS = {"pickup": "pick up or put down", "toggle_load": "load or unload", "toggle": "use or open"}
"""Clearer names for people, for uses whose name in the world is not clear."""


@final
class Control(msgspec.Struct, frozen=True):
    """An action that a person can take.

    - `choice`: the index of the choice, for worlds in which an agent makes several choices in a
        step.
    - `action`: the index of the action among the actions of the choice.
    - `name`: a name for people, such as `"up"` or `"interact"`.
    - `keys`: the keys that take the action, as `KeyboardEvent.code` of browsers names them.
    - `repeats`: whether a key that is held down repeats the action in every step.
    """

    choice: int
    action: int
    name: str
    keys: tuple[str, ...]
    repeats: bool


def controls_of(actions: Actions) -> tuple[Control, ...]:
    """The controls of a world: every action except staying, with its keys.

    Moves get the arrow keys and W, A, S, D. Steps to the side get Z and X. The first use of the
    faced cell gets the space bar, and further uses get letters. Words get the digits.

    **Arguments:**

    - `actions`: the actions of the world.
    """
    found: list[Control] = []
    for number, choice in enumerate(by_choice(actions)):
        uses, words = iter(_USES), iter(range(1, 10))
        for index, action in enumerate(choice):
            match action:
                case Move(direction):
                    name, keys = _MOVES[direction]
                case Rotate(side):
                    name, keys = f"turn {side}", _TURNS[side]
                case Forward():
                    name, keys = "forward", _MOVES[Direction.NORTH][1]
                case Strafe(side):
                    name, keys = f"step {side}", _STEPS[side]
                case Use(name):
                    name, keys = _WORDS.get(name, name.replace("_", " ")), next(uses, ())
                case Say(word):
                    name, keys = f"say {word}", tuple(f"Digit{i}" for i in islice(words, 1))
                case Stay():
                    continue
            repeats = isinstance(action, Move | Forward | Strafe)
            found.append(Control(number, index, name, keys, repeats))
    return tuple(found)


WATCHER = -1
"""The seat of a page that only watches."""
LARGEST_MESSAGE = 1024
"""The largest message of a page, in bytes."""
_Token = Annotated[str, Meta(max_length=64)]
_Index = Annotated[int, Meta(ge=0, le=255)]
_Key = Annotated[str, Meta(max_length=40)]
_Time = Annotated[float, Meta(ge=0, le=1e14)]


class _FromPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """A message of a page."""


@final
class Join(_FromPage, frozen=True, tag="join"):
    """The first message: the token of a seat, or of watching."""

    token: _Token


@final
class Press(_FromPage, frozen=True, tag="press"):
    """A key or button was pressed.

    - `choice`, `action`: as in `Control`.
    - `number`: the number of the press among the presses of the page and the repetitions of held
        keys that it has shown; returned in `Frame.taken`.
    - `key`: as in `KeyLine`; empty if keys are not recorded.
    - `time`: the time by the clock of the page, in milliseconds since 1970 (UTC).
    """

    choice: _Index
    action: _Index
    number: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    key: _Key = ""
    time: _Time = 0.0


@final
class Hold(_FromPage, frozen=True, tag="hold"):
    """The action whose key is held down; `None` if no key of the choice is down.

    - `number`: the number of the last press or repetition that the page has shown, as in `Press`.
    """

    choice: _Index
    action: _Index | None
    number: Annotated[int, Meta(ge=0, lt=2**31)] = 0


@final
class Key(_FromPage, frozen=True, tag="key"):
    """A key without an action was pressed (`down`), or any key was released; see `Press`."""

    key: _Key
    time: _Time
    down: bool = True


@final
class Shown(_FromPage, frozen=True, tag="shown"):
    """The page has shown a frame, or has received it while it is hidden.

    - `frame`: the number of the frame, `Frame.number`.
    - `after`: the milliseconds from the arrival of the frame to its display; `None` for a hidden
        page.
    - `focus`: whether the page is visible and has the focus of the keyboard.
    """

    frame: Annotated[int, Meta(ge=0, lt=2**31)]
    after: _Time | None
    focus: bool


@final
class Hidden(_FromPage, frozen=True, tag="hidden"):
    """The page was hidden, as by another tab (`on`), or is visible again."""

    on: bool


@final
class Pause(_FromPage, frozen=True, tag="pause"):
    """Pauses the game (`on`), or continues it."""

    on: bool


@final
class Leave(_FromPage, frozen=True, tag="leave"):
    """Ends the game for all people."""


@final
class Ping(_FromPage, frozen=True, tag="ping"):
    """Asks for a `Pong`, which returns the time `sent`."""

    sent: float


FromPage: TypeAlias = Join | Press | Hold | Key | Shown | Hidden | Pause | Leave | Ping


class ToPage(msgspec.Struct, frozen=True, tag_field="type"):
    """A message to a page."""


@final
class Opening(ToPage, frozen=True, tag="opening"):
    """The facts that do not change during a game, sent when a page connects.

    - `title`: the name of the layout.
    - `height`, `width`: the number of rows and columns.
    - `seat`: the seat of the page.
    - `seats`: the name of the player in each seat.
    - `colours`: the colour of each seat. One's own agent has the colour of the first seat.
    - `controls`: the actions of a person.
    - `ticks_per_second`: the rate of the clock.
    - `pictures`: the rules for people in pictures: the cells of each from left to right, as PNGs in
        base64, its caption, and the picture in words.
    - `notes`: the other rules, in sentences.
    - `quiet`: the labels of `Frame.display` whose changes are not read aloud.
    - `keys`: whether the page sends all key presses and releases to the server, with their times.
    - `optimum`: the best known mean return of the agents; `None` if it is unknown.
    """

    title: str
    height: int
    width: int
    seat: int
    seats: list[str]
    colours: list[str]
    controls: tuple[Control, ...]
    ticks_per_second: float
    pictures: list[tuple[list[str], str, str]]
    notes: list[str]
    quiet: tuple[str, ...]
    keys: bool = False
    optimum: float | None = None


@final
class Effect(msgspec.Struct, frozen=True):
    """The effect of an action on the agent that takes it.

    - `pose`: the cell and the direction of the agent.
    - `turned`: as in `Frame`.
    - `faced`: the cell that the agent faces, and the number of its picture.

    The action changes only the pose if the last two are empty.
    """

    pose: list[int]
    turned: list[int] = []
    faced: tuple[int, int] | None = None


@final
class Ahead(msgspec.Struct, frozen=True):
    """A step that has not been played yet, as it will be if the person does what the page has told
    the server.

    - `poses`: the cell and the direction of each agent after the step.
    - `effects`: the effect of other actions in this step, by their index in `Opening.controls`, if
        they do more than staying.
    """

    poses: list[list[int]]
    effects: dict[int, Effect]


@final
class Frame(ToPage, frozen=True, tag="frame"):
    """The state of a game after a step. Cells and agents refer to pictures by number.

    - `step`: the number of steps that were played.
    - `cells`: pairs of a cell, in row-major order, and the number of its picture, without the agent
        in the cell. A whole frame has all cells, other frames only the cells that changed.
    - `pictures`: the pictures that the page does not have yet, by number, as PNGs in base64.
    - `scores`: the return of each agent so far.
    - `agents`: the cell, the direction and the picture of each agent; -1 for agents that are not
        drawn.
    - `held`: the name of the object that each agent holds; empty for none.
    - `acted`: whether each agent did anything but stay in the last step; empty before the first
        step.
    - `turned`: four pictures of an agent, one for each direction, by seat. The page uses these
        pictures to show a turn before the server confirms it. A whole frame has the pictures of
        all people's agents, the frame of a page only the pictures of its own agent.
    - `floors`: the new pictures that show free floor.
    - `views`: `cells` and `agents` by seat, for people to whom other agents have the first seat's
        colour, since their own agent has it. A whole frame has the views of all these people, the
        frame of a page none.
    - `display`: the state in words, as label and text; empty if the page has the same display.
    - `taken`: the number of the last press or repetition of the page that a step has used.
    - `ahead`: the next steps; empty if the latency of the page is low, or several people play.
    - `number`: a random number, which the page returns in `Shown`; 0 for a page that only watches.
    """

    step: int
    cells: list[tuple[int, int]]
    pictures: dict[int, str]
    scores: list[float]
    agents: list[tuple[int, int, int]]
    held: list[str]
    acted: list[bool] = []
    turned: dict[int, list[int]] = {}
    floors: list[int] = []
    views: dict[int, tuple[list[tuple[int, int]], list[tuple[int, int, int]]]] = {}
    display: dict[str, str] = {}
    taken: int = 0
    number: int = 0
    ahead: list[Ahead] = []


@final
class Status(ToPage, frozen=True, tag="status"):
    """The phase of a game: `preparing`, `waiting` for a person, `playing`, `paused` or `over`. A
    page whose seat was opened in another window gets `replaced`.

    - `text`: a sentence for people.
    - `missing`: whether a person is not connected before the first step.
    - `ends_in`: the number of seconds after which the game ends if a person who lost the connection
        does not return.
    - `finished`: whether a game that is over is complete.
    - `best`: the best mean return in the same world on this server before; `None` in a study.
    """

    status: str
    text: str
    missing: bool = False
    ends_in: float | None = None
    finished: bool = False
    best: float | None = None


@final
class Pong(ToPage, frozen=True, tag="pong"):
    """The answer to a `Ping`."""

    sent: float


@final
class Refusal(ToPage, frozen=True, tag="refusal"):
    """A sentence that explains why a message has no effect."""

    text: str


async def read_body(parts: AsyncIterable[bytes], most: int) -> bytes | None:
    """The body of a request; `None` if the body has more than `most` bytes, of which the rest stays
    unread.
    """
    content = b""
    async for part in parts:
        content += part
        if len(content) > most:
            return None
    return content


_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[FromPage] = msgspec.json.Decoder(FromPage)


def read_json(content: str | bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Reads JSON that a page sent.

    **Arguments:**

    - `content`: the JSON.
    - `decoder`: the decoder of the expected type.

    **Raises:** `msgspec.MsgspecError` when the content does not have this type, or is not UTF-8.
    """
    try:
        return decoder.decode(content)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError("The message is not UTF-8") from error


def read_message(content: str | bytes) -> FromPage:
    """Reads a message of a page. **Raises:** `msgspec.MsgspecError` when it is not valid."""
    size = len(content.encode(errors="replace") if isinstance(content, str) else content)
    if size > LARGEST_MESSAGE:
        raise msgspec.ValidationError(f"a message may have {LARGEST_MESSAGE} bytes at most")
    return read_json(content, _DECODER)


def to_text(message: ToPage) -> str:
    """A message to a page as text."""
    return _ENCODER.encode(message).decode()


CELL_PIXELS = 128
"""The side of a cell in pixels; pages show cells smaller."""
_FLOOR = Look(0, NOTHING, IDLE, 0, 0, (True, True, True, True), 0.5, None)
"""Free floor. Pictures of agents are drawn with this cell, of which they show nothing."""


@final
class TileSheet:
    """The numbered pictures of all cells and agents that were shown so far.

    The picture of a cell depends only on its `Look`. Each picture is therefore drawn and sent once,
    and a world is a list of numbers. Agents have pictures of their own, so that a page can move
    them.
    """

    def __init__(self) -> None:
        self._of_kinds: dict[int, tuple[Kinds, dict[Look, int]]] = {}
        self._files: list[str] = []
        self.floors: set[int] = set()
        self._drawing = threading.Lock()  # recorded games are drawn next to live ones

    def numbers(
        self, kinds: Kinds, found: Sequence[Look], num_agents: int, own: int
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int, int]], list[int]]:
        """The pictures of a world with these looks of cells, for the seat `own` or a `WATCHER`:
        `cells` and `agents` as in `Frame`, and the seat's entry of `turned`.
        """
        cells: list[tuple[int, int]] = []
        agents, turned = [(-1, -1, -1)] * num_agents, []
        # Keyed by identity, since hashing `Kinds` visits all kinds. The value keeps the kinds
        # alive, so that no other kinds get the same identity.
        _, known = self._of_kinds.setdefault(id(kinds), (kinds, {}))

        def number(look: Look) -> int:
            return known[look] if look in known else self._draw(kinds, look, known)

        for place, look in enumerate(found):
            look = look.seen_by(own, kinds) if own > 0 else look
            if (agent := look.agent) is None:
                cells.append((place, number(look)))
                continue
            seat, over = agent.number - 1, _FLOOR._replace(agent=agent, mark=look.mark)
            agents[seat] = (place, agent.direction, number(over))
            cells.append((place, number(look._replace(agent=None, mark=0))))
            if seat == own:
                sides = [agent._replace(direction=int(side)) for side in Direction]
                turned = [number(over._replace(agent=side)) for side in sides]
        return cells, agents, turned

    def picture(self, number: int) -> str:
        """The picture with this number, as a PNG in base64."""
        return self._files[number]

    def _draw(self, kinds: Kinds, look: Look, known: dict[Look, int]) -> int:
        with self._drawing:
            if look not in known:
                picture = look_png(kinds, look, CELL_PIXELS, over=look.agent is not None)
                self._files.append(base64.b64encode(picture).decode())
                known[look] = len(self._files) - 1
                if look == _FLOOR._replace(shade=look.shade, open_sides=look.open_sides):
                    self.floors.add(known[look])
            return known[look]


@final
class Screen:
    """The cells, pictures and display that one page already has."""

    def __init__(self) -> None:
        self._display: dict[str, str] = {}
        self._cells: list[int] = []
        self._pictures: set[int] = set()

    def update(
        self,
        frame: Frame,
        tiles: TileSheet,
        display: dict[str, str],
        seat: int = WATCHER,
        taken: int = 0,
        number: int = 0,
    ) -> Frame:
        """The difference between a whole frame and the last frame of the page.

        **Arguments:**

        - `frame`: the whole frame.
        - `tiles`: the pictures.
        - `display`: the whole display; it is sent if any text has changed.
        - `seat`: the seat of the page.
        - `taken`, `number`: as in `Frame`.
        """
        whole, agents = frame.views.get(seat, (frame.cells, frame.agents))
        before = self._cells or [-1] * len(whole)
        cells = [(i, new) for i, new in whole if new != before[i]]
        turned = {x: own for x, own in frame.turned.items() if x == seat}
        shown = {new for _, new in cells} | {picture for *_, picture in agents}
        effects = [effect for step in frame.ahead for effect in step.effects.values()]
        shown |= {effect.faced[1] for effect in effects if effect.faced}
        shown = shown.union(*turned.values(), *(effect.turned for effect in effects))
        unknown = shown - {-1} - self._pictures
        self._pictures |= unknown
        self._cells = [number for _, number in whole]
        pictures = {number: tiles.picture(number) for number in sorted(unknown)}
        floors = sorted(unknown & tiles.floors)
        changed, self._display = {} if display == self._display else display, display
        own = {"cells": cells, "agents": agents, "pictures": pictures, "turned": turned}
        own |= {"floors": floors, "views": {}, "display": changed}
        own |= {"ahead": frame.ahead if turned else []}
        return msgspec.structs.replace(frame, **own, taken=taken, number=number)


def layout_and_world(layout: Layout, state: PyTree) -> tuple[Layout, World]:
    """The layout and the world of a state of a grid world: a `PlacedWorld` has its own layout."""
    return (state.layout, state.world) if isinstance(state, PlacedWorld) else (layout, state)


def whole_frame(
    layout: Layout,
    state: PyTree,
    step: int,
    scores: Sequence[float],
    tiles: TileSheet,
    acted: Sequence[bool] = (),
    people: Sequence[int] = (),
) -> Frame:
    """The whole frame of a state, without `pictures`.

    **Arguments:**

    - `layout`: the layout of the world; unused for a `PlacedWorld`, which has its own layout.
    - `state`: the state of the grid world, without wrappers.
    - `step`: the number of steps before the state.
    - `scores`: the return of each agent before the state.
    - `tiles`: the pictures of cells.
    - `acted`: whether each agent did anything but stay in the last step.
    - `people`: the seats of the people who play.
    """
    layout, world = layout_and_world(layout, state)
    args = (layout.kinds, looks(layout, world), len(world.bodies.position))
    cells, agents, first = tiles.numbers(*args, 0 if 0 in people else WATCHER)
    views = {seat: tiles.numbers(*args, seat) for seat in people if seat > 0}
    turned = {0: first} | {seat: own for seat, (*_, own) in views.items()}
    found = [layout.kinds.read(code) for code in np.asarray(world.bodies.held).tolist()]
    held = ["" if x is None else x[0].name.replace("_", " ") for x in found]
    rounded = [round(x, 4) for x in scores]
    seen = {seat: (own_cells, own_agents) for seat, (own_cells, own_agents, _) in views.items()}
    return Frame(step, cells, {}, rounded, agents, held, list(acted), turned, views=seen)
