"""The waiting room of a study: people who wait for another person."""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Callable, Collection
from typing import final

_SILENT = 10.0
"""After how many seconds without a word nobody is paired with a person who waits."""


@final
@dataclasses.dataclass
class _Waiting:
    stage: int
    since: float
    seen: float
    called: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)


@final
class WaitingRoom:
    """People who wait for another person at the same stage."""

    def __init__(self, now: Callable[[], float] = time.monotonic):
        """**Arguments:**

        - `now`: the time in seconds since any moment.
        """
        self._now = now
        self._waiting: dict[int, _Waiting] = {}

    def enter(self, person: int, stage: int) -> bool:
        """Notes that a person waits at a stage.

        **Returns:** whether the person has just come, or comes back after having been silent.
        """
        own, now = self._waiting.get(person), self._now()
        new = own is None or own.stage != stage or self._is_silent(own)
        if new or own is None:
            own = self._waiting[person] = _Waiting(stage, now, now)
        own.seen = now
        return new

    def leave(self, person: int) -> None:
        """Calls a person out of the room."""
        own = self._waiting.pop(person, None)
        if own is not None:
            own.called.set()

    def waited(self, person: int) -> float:
        """For how many seconds a person has waited."""
        return self._now() - self._waiting[person].since

    def others(self, stage: int, busy: Collection[int]) -> list[int]:
        """The people with whom a person could play, of whom the first one waited longest.

        **Arguments:**

        - `stage`: the stage of the person.
        - `busy`: the person, and people who are about to play.
        """
        found = [
            (own.since, other)
            for other, own in self._waiting.items()
            if other not in busy
            if own.stage == stage and not self._is_silent(own)
        ]
        return [other for _, other in sorted(found)]

    async def wait(self, person: int, seconds: float) -> None:
        """Returns when a person is called, or after some seconds; at once if nobody waits."""
        own = self._waiting.get(person)
        if own is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(own.called.wait(), seconds)

    def _is_silent(self, own: _Waiting) -> bool:
        return self._now() - own.seen >= _SILENT
