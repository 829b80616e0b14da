"""Behaviour of a person in a live game, apart from the recorded actions: keys and connections."""

import dataclasses
from typing import final

_MOST_KEYS = 20_000
"""The maximum number of key presses that are kept for a game."""


@final
@dataclasses.dataclass
class KeyPress:
    """A key press of a person.

    - `key`: the key, as `KeyboardEvent.code` of browsers names it, or the button of the page.
    - `page_ms`: the time of the press by the clock of the page, in milliseconds since 1970 (UTC).
    - `server_s`: the time at which the server received it, in seconds since the game began; `None`
        before the game.
    - `step`: the number of the step, from 1, that used the press; `None` if no step did.
    """

    key: str
    page_ms: float
    server_s: float | None
    step: int | None = None


@final
@dataclasses.dataclass
class Conduct:
    """The behaviour of a person in a game.

    - `actions`: the number of steps in which the person acted.
    - `longest_idle`: the largest number of consecutive steps in which the person did not act.
    - `disconnections`: the number of lost connections.
    - `reloads`: how often the person closed or reloaded the page and came back.
    - `hidden`: how often the page was hidden, as by another tab.
    - `hidden_s`: the number of seconds for which the page was hidden.
    - `keys`: the key presses, if they are recorded.
    - `absent`: why the page is not connected: `absent` if it never was, `closed` by the person,
        `lost`, as by a network failure, or `replaced` by another window; empty while it is
        connected.
    - `left`: how the person left the game, and when, in seconds since the game began.
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
        """Records whether the person acted in a step."""
        self.actions += acted
        self._idle = 0 if acted else self._idle + 1
        self.longest_idle = max(self.longest_idle, self._idle)

    def connect(self) -> None:
        """Records that the page is connected."""
        self.reloads += self.absent == "closed"
        self.absent = ""

    def disconnect(self, why: str, now: float) -> None:
        """Records that the page is no longer connected; `why` as in `absent`."""
        self.absent = why
        self.disconnections += why == "lost"
        self.hide(False, now)

    def hide(self, on: bool, now: float) -> None:
        """Records that the page was hidden (`on`), or is visible again."""
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
