"""What a person did in a live game, apart from the recorded actions."""

import dataclasses
from typing import final

_MOST_KEYS = 20_000
"""How many key presses of a game are kept."""


@final
@dataclasses.dataclass
class KeyPress:
    """A key press of a person.

    - `key`: the key, as `KeyboardEvent.code` of browsers names it, or the button of the page.
    - `page_ms`: when it was pressed by the clock of the page, in milliseconds since 1970 (UTC).
    - `server_s`: when the server heard of it, in seconds since the game began.
    - `step`: the number of the step, from 1, in which it counted; `None` if it did not count.
    """

    key: str
    page_ms: float
    server_s: float | None
    step: int | None = None


@final
@dataclasses.dataclass
class Conduct:
    """What a person did in a game.

    - `actions`: the number of steps in which the person did something.
    - `longest_idle`: the largest number of steps in a row in which the person did nothing.
    - `disconnections`: how often the connection was lost.
    - `reloads`: how often the page was closed or reloaded, and came back.
    - `hidden`: how often the page was hidden, as by another tab.
    - `hidden_s`: for how many seconds it was hidden.
    - `keys`: the key presses, if they are recorded.
    - `absent`: why the page is not connected: `absent` if it never was, `closed` by the person, or
        `lost`, as by a network.
    - `left`: how the person left the game, and when, in seconds since it began.
    """

    actions: int = 0
    longest_idle: int = 0
    disconnections: int = 0
    reloads: int = 0
    hidden: int = 0
    hidden_s: float = 0.0
    keys: list[KeyPress] = dataclasses.field(default_factory=list)
    absent: str = "absent"
    left: tuple[str, float | None] | None = None
    _idle: int = 0
    _hidden_since: float | None = None

    def step(self, acted: bool) -> None:
        """Notes whether the person did something in a step."""
        self.actions += acted
        self._idle = 0 if acted else self._idle + 1
        self.longest_idle = max(self.longest_idle, self._idle)

    def connect(self) -> None:
        """Notes that the page is there."""
        self.reloads += self.absent == "closed"
        self.absent = ""

    def disconnect(self, why: str, now: float) -> None:
        """Notes that the page is no longer there, and why, as in `absent`."""
        self.absent = why
        self.disconnections += why == "lost"
        self.hide(False, now)

    def hide(self, on: bool, now: float) -> None:
        """Notes that the page is hidden, or no longer."""
        if self._hidden_since is not None:
            self.hidden_s += now - self._hidden_since
        elif on:
            self.hidden += 1
        self._hidden_since = now if on else None

    def press(self, key: KeyPress) -> KeyPress:
        """Keeps a key press, and returns it."""
        if len(self.keys) < _MOST_KEYS:
            self.keys.append(key)
        return key
