"""Ctrl-C, at a moment when nothing is lost."""

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Holds a Ctrl-C back, and passes it on at the end to whoever handled it before.

    Only the main thread can, and need: no other thread is interrupted. A handler that was not
    installed from Python stays. When the body fails, its error is what counts, and the Ctrl-C is
    forgotten.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handler is None:
        yield
        return
    seen = False

    def hold(*_: object) -> None:
        nonlocal seen
        seen = True

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if seen:
        signal.raise_signal(signal.SIGINT)
