"""The start and the end of every command line: clock, output, signals, errors and exit codes."""

import contextlib
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import jax
import psutil

from agents import CheckpointError, NonFiniteLoss, OutOfMemory
from agents.runs.display._errors import RunError, UsageError, print_error, system_error

NOTHING_LEARNED = "interrupted before anything was learned, so nothing was written."
_REASONS = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}
_STOP_SIGNALS = tuple(getattr(signal, name) for name in _REASONS if hasattr(signal, name))


class Stopped(Exception):
    """Raised where a program can end because a signal asked for it; the message says which."""


@final
class Process:
    """A clock, and the signals that asked the program to end.

    A signal never raises anything: an exception between two arbitrary instructions can be swallowed
    by a callback of the garbage collector, print a traceback, or leave a library half-way. While
    nothing has been begun, the first signal ends the process at once; afterwards it is remembered,
    and the program checks for it where it can end.
    """

    def __init__(self, message: str = "nothing was begun") -> None:
        """**Arguments:**

        - `message`: printed when a signal ends the process at once.
        """
        self.message = message
        self.started = time.perf_counter()
        self.first: int | None = None
        self.count, self._count_at_end = 0, 0
        self._listening: list[int] = []
        self._begun = False

    @classmethod
    def listen(cls, message: str = "nothing was begun") -> "Process":
        """Makes output safe, and installs handlers for the signals that are not ignored."""
        process = cls(message)
        # The clock counts the imports, too, which came before this line.
        process.started -= max(0.0, time.time() - psutil.Process().create_time())
        # Silences the log messages of matplotlib and XLA.
        logging.getLogger("matplotlib").setLevel(logging.ERROR)
        if os.environ.get("TF_CPP_MIN_LOG_LEVEL") in (None, "1"):  # which jax sets itself
            os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        os.environ["MPLBACKEND"] = "agg"  # pictures go into files
        if not os.environ.get("EQGRID_TRACEBACK"):
            sys.excepthook = _say_in_one_sentence
        _open_missing_streams()
        sys.stdout, sys.stderr = _Output(sys.stdout), _Output(sys.stderr)
        for number in _STOP_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                process._listening.append(number)
                signal.signal(number, process._receive)
        gc.freeze()  # what was imported stays until the end, so the collector need not look at it
        return process

    def seconds(self) -> float:
        """Seconds since the operating system started the process, imports included."""
        return time.perf_counter() - self.started

    def begin(self) -> None:
        """From now on there is something to lose, so signals are remembered."""
        self._begun = True

    @contextlib.contextmanager
    def with_default_signals(self) -> Iterator[None]:
        """Around a call that waits and cannot be interrupted: a signal ends the process at once, as
        if there were no handlers.
        """
        for number in self._listening:
            signal.signal(number, signal.SIG_DFL)
        try:
            yield
        finally:
            for number in self._listening:
                signal.signal(number, self._receive)

    def check(self) -> None:
        """**Raises:** `Stopped` when a signal has arrived."""
        if self.first is not None:
            raise Stopped(signal.Signals(self.first).name)

    def stop_reason(self) -> str | None:
        """How a signal ended the run, in a word or two, or `None` while none has arrived."""
        first = self.first  # it can change at any moment, so it is looked at once
        return None if first is None else _REASONS[signal.Signals(first).name]

    def training_ended(self) -> None:
        """From now on, a signal that reaches this object finds the program about to end."""
        self._count_at_end = self.count

    @property
    def interrupted_again(self) -> bool:
        """Whether a signal arrived since then: what is left to do should be left out."""
        return self.count > self._count_at_end

    @property
    def exit_code(self) -> int:
        """What a shell expects of a program that a signal ended: 128 and its number."""
        return 128 + (self.first or signal.SIGINT)

    def finish(self, code: int) -> None:
        """Ends the process; what arrives now is too late to change anything."""
        for number in self._listening:
            signal.signal(number, signal.SIG_IGN)
        sys.exit(code)

    def _receive(self, number: int, _: object) -> None:
        self.first = self.first or number
        self.count += 1
        if not self._begun:
            os.write(2, f"error: interrupted; {self.message}.\n".encode())
            os._exit(self.exit_code)


FORESEEN = (UsageError, RunError, Stopped, OutOfMemory, NonFiniteLoss, CheckpointError, OSError)
"""The errors that end a program between two computations, with a sentence for each."""


def run_command(
    run: Callable[[Sequence[str]], None], message: str = "what was measured before is kept"
) -> None:
    """Runs a command line, prints a foreseen error as one line, and ends the process. A signal ends
    it at once.

    **Arguments:**

    - `run`: the program, called with the arguments of the command line.
    - `message`: printed when a signal ends it.
    """
    process = Process.listen(message)
    process.finish(exit_code_of(lambda: run(sys.argv[1:]), process, "--episodes"))


def exit_code_of(run: Callable[[], int | None], process: Process, memory: str) -> int:
    """Runs a program, and prints a foreseen error as one line.

    **Arguments:**

    - `run`: the program.
    - `process`: its signals.
    - `memory`: the flags that decide how much memory it needs.

    **Returns:** the exit code: what the program returns, or 0; 1 when a run failed and 2 for wrong
    arguments; 130 after a Ctrl-C, and 128 plus its number after another signal.
    """
    try:
        return run() or 0
    except (*FORESEEN, MemoryError, jax.errors.JaxRuntimeError) as error:
        return print_error(*explain(error, process, memory))


def explain(error: Exception, process: Process, memory: str) -> tuple[str, int]:
    """The sentence and the exit code for an error that can be foreseen; another one is raised.

    **Arguments:** as in `exit_code_of`.
    """
    if isinstance(error, UsageError):
        return str(error), 2
    if isinstance(error, Stopped):
        return NOTHING_LEARNED, process.exit_code
    if isinstance(error, OutOfMemory):
        return f"{error}: lower {memory}.", 1
    if isinstance(error, OSError):
        return system_error(error), 1
    if isinstance(error, (RunError, NonFiniteLoss, CheckpointError)):
        return str(error), 1
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return f"There is not enough memory: lower {memory}.", 1
    raise error


def unforeseen(error: BaseException) -> str:
    """One line about an unexpected error, such as an environment variable that is refused."""
    line = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {line:.300} (EQGRID_TRACEBACK=1 shows where it comes from)"


def _say_in_one_sentence(_: type[BaseException], error: BaseException, __: object) -> None:
    print(f"error: {unforeseen(error)}", file=sys.stderr)


def _open_missing_streams() -> None:
    """Opens the standard streams that were closed when the program started: otherwise the next
    file that is opened would take their place, and be printed into.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


@final
class _Output:
    """A stream that drops its output when its reader is gone or its disk is full, so that a run
    does not end with its terminal.
    """

    def __init__(self, stream: Any):
        stream.reconfigure(errors="backslashreplace")  # so that any path can be printed anywhere
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            self._silence()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            self._silence()

    def __getattr__(self, name: str):
        return getattr(self._stream, name)

    def _silence(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
