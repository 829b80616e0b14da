"""Ctrl-C, SIGTERM and a closed terminal, at a moment when nothing is lost."""

import contextlib
import dataclasses
import signal
import threading
from collections.abc import Iterator
from typing import final

STOP_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""What asks a program to end: Ctrl-C, a job scheduler, a closed terminal (not on Windows)."""


@final
@dataclasses.dataclass
class HeldSignals:
    """What arrived while signals were held.

    **Arguments:**

    - `first`: the first signal, or `None`.
    - `handled`: whether the holder acted on it, so that nobody else has to.
    """

    first: signal.Signals | None = None
    handled: bool = False

    def hold(self, number: int, _: object) -> None:
        """The handler: it only remembers, so that it can run between any two instructions."""
        self.first = self.first or signal.Signals(number)


@contextlib.contextmanager
def hold_signals() -> Iterator[HeldSignals]:
    """Holds back what asks a program to end, and passes it on at the end to whoever handled it
    before, unless the body says that it was handled.

    Nothing is raised inside the body: an exception between two arbitrary instructions can be
    swallowed by a callback of the garbage collector, or leave a library half-way. Only the main
    thread can hold signals, and needs to: no other thread is interrupted. A signal that is ignored
    stays ignored, and a handler that was not installed from Python stays. When the body fails, its
    error is what counts, and the signal is forgotten.
    """
    held = HeldSignals()
    if threading.current_thread() is not threading.main_thread():
        yield held
        return
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    before = {n: handler for n, handler in before.items() if handler not in (None, signal.SIG_IGN)}
    for number in before:
        signal.signal(number, held.hold)
    try:
        yield held
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if held.first is not None and not held.handled:
        signal.raise_signal(held.first)
