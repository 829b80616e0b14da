"""The clock of live games."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import final


@final
class Clock:
    """Ticks at a fixed rate.

    A tick that comes a little late does not move the ticks after it. One that comes later than the
    next one was due postpones all that follow: people then see a pause, and never two steps at
    once.
    """

    def __init__(
        self,
        ticks_per_second: float,
        now: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ):
        """**Arguments:**

        - `ticks_per_second`: the rate.
        - `now`: the time in seconds since any moment.
        - `sleep`: waits for some seconds.
        """
        self.period = 1 / ticks_per_second
        self._now, self._sleep = now, sleep

    async def ticks(self) -> AsyncIterator[float]:
        """The ticks, of which the first comes after one period.

        **Returns:** for each tick, how late it is, in seconds.
        """
        due = self._now() + self.period
        while True:
            await self._sleep(max(0.0, due - self._now()))
            late = max(0.0, self._now() - due)
            yield late
            due = max(due + self.period, self._now())
