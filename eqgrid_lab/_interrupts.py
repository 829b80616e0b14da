"""Ends a program quietly when Ctrl-C arrives while Python still imports libraries, and says that
`eqgrid play` starts, since these imports take some seconds.

`eqgrid_lab` imports this module first, and calls `restore` last. A `KeyboardInterrupt` during an
import may be lost in a callback, or end in a crash of a library.
"""

import os
import signal
import sys
import threading


def _end(*_: object) -> None:
    os.write(2, b"error: interrupted; nothing was started.\n")
    os._exit(130)


def restore() -> None:
    """Restores Python's own handler of Ctrl-C."""
    if _is_handled:
        signal.signal(signal.SIGINT, signal.default_int_handler)


_is_handled = (
    threading.current_thread() is threading.main_thread()
    and not (hasattr(sys, "ps1") or sys.flags.interactive)  # as in a notebook
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
)
if _is_handled:
    signal.signal(signal.SIGINT, _end)
_is_play = os.path.basename(sys.argv[0]).startswith("eqgrid") and sys.argv[1:2] == ["play"]
if _is_play and not {"-h", "--help"} & {*sys.argv}:
    print("starting: the address follows in some seconds", file=sys.stderr, flush=True)
