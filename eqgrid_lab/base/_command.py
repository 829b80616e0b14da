"""Shared parts of commands: the clock, the compilation cache, output streams, signals, errors and
exit codes.
"""

import contextlib
import errno
import gc
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO, final

import jax
import psutil
from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from agents import CheckpointError, NonFiniteLoss, OutOfMemory

from ._errors import RunError, Stopped, UsageError, print_error, reason, system_error

_MAX_CACHE_BYTES = 2**30


def keep_compiled_programs() -> str:
    """Turns on JAX's persistent compilation cache, in a user cache folder of at most 1 GiB.

    JAX's own settings take precedence: eqgrid uses the folder that they name, and leaves a cache
    that they disable disabled. When the folder is full, the least recently used programs are
    removed first.

    **Returns:** a message with the folder of the cache, or the reason why there is no cache.
    """
    # The attributes of `jax.config` have no type annotations.
    settings: Any = jax.config
    if not settings.jax_enable_compilation_cache:
        return "compiled programs are not cached: JAX's compilation cache is off"
    if settings.jax_compilation_cache_dir is None:
        try:
            folder = user_cache_path("eqgrid") / "compiled"
        except RuntimeError:  # the user has no home folder, as in some containers
            return (
                "compiled programs are not cached: there is no home folder, so set XDG_CACHE_HOME"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            return f"compiled programs are not cached: {folder} cannot be used ({reason(error)})"
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_compilation_cache_max_size", _MAX_CACHE_BYTES)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
        _remove_unfinished(folder)
        # JAX compiles again what it cannot read, so nobody needs these long warnings.
        text = "Error (reading|writing) persistent compilation cache entry"
        warnings.filterwarnings("ignore", text, UserWarning)
    return f"compiled programs are cached in {settings.jax_compilation_cache_dir}"


def use_cores_as_devices() -> None:
    """Makes each core of the processor a device of JAX, before JAX is used for the first time.

    It does nothing if JAX is in use already, or if the user has chosen the number of devices. A
    limit of processor time, as of a container, counts as fewer cores.
    """
    is_set = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    settings: Any = jax.config
    if is_set or settings.jax_num_cpu_devices > 0:
        return
    allowed = getattr(os, "sched_getaffinity", None)  # only Linux limits a process to some cores
    cores = len(allowed(0)) if allowed else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # there is no limit
        quota, period = map(int, Path("/sys/fs/cgroup/cpu.max").read_text().split())
        cores = max(1, min(cores, quota // period))
    with contextlib.suppress(RuntimeError):  # JAX is in use
        jax.config.update("jax_num_cpu_devices", cores)


def _remove_unfinished(folder: Path) -> None:
    """Removes compiled programs that were being written when a process was killed, since JAX can
    neither read nor replace them. JAX writes `KEY-cache` before `KEY-atime`, under this lock.
    """
    no_lock = (OSError, Timeout, NotImplementedError)  # the last one on disks without locks
    with contextlib.suppress(*no_lock), FileLock(folder / ".lockfile", timeout=1):
        names = {*os.listdir(folder)}  # listed once, since there may be thousands of programs
        for name in names:
            if name.endswith("-cache") and f"{name.removesuffix('cache')}atime" not in names:
                (folder / name).unlink()


NOTHING_LEARNED = "interrupted before training started, so no files were written."
_REASONS = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}
_STOP_SIGNALS = tuple(getattr(signal, name) for name in _REASONS if hasattr(signal, name))


@final
class Process:
    """The running process: its clock, and the stop signals that it has received.

    Until `begin` is called, the first signal ends the process at once. Afterwards, signals are
    recorded, and the program checks for them where it can safely end. The signal handler then
    raises no exception, except in `stopping_at_once`, because an exception between two arbitrary
    instructions could be swallowed by a callback of the garbage collector, print a traceback, or
    leave a library in an inconsistent state.

    In a notebook, an interactive interpreter or a thread, the process is shared with other code.
    `close` then restores signal handlers and output streams, a signal before `begin` raises
    `KeyboardInterrupt`, and a thread receives no signals.
    """

    def __init__(self, message: str = "nothing was started") -> None:
        """**Arguments:**

        - `message`: printed when a signal ends the process before `begin`.
        """
        self.message = message
        # Interactive interpreters, also in notebooks, have the prompt `sys.ps1`.
        is_interactive = hasattr(sys, "ps1") or bool(sys.flags.interactive)
        self.is_shared = is_interactive or not _in_main_thread()
        self.started = time.perf_counter()
        self.first: int | None = None
        self.count, self._count_at_end = 0, 0
        self._before: dict[int, Callable[..., object] | int | None] = {}
        self._streams: tuple[TextIO, TextIO] | None = None
        self._begun = self._stops_at_once = False

    @classmethod
    def listen(cls, message: str = "nothing was started") -> "Process":
        """Prepares the output streams, and handles the stop signals that are not ignored.

        **Arguments:**

        - `message`: printed when a signal ends the process before `begin`.
        """
        process = cls(message)
        if not process.is_shared:  # the clock includes the imports before this line
            process.started -= max(0.0, time.time() - psutil.Process().create_time())
        # Silences the log messages of matplotlib and XLA.
        logging.getLogger("matplotlib").setLevel(logging.ERROR)
        if os.environ.get("TF_CPP_MIN_LOG_LEVEL") in (None, "1"):  # jax itself sets "1"
            os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        if not process.is_shared:
            os.environ["MPLBACKEND"] = "agg"  # figures are only written to files
            # jax makes many objects while it traces, and few garbage cycles: with the default of
            # 700 objects, the collector takes a fifth of the time before training.
            gc.set_threshold(100_000)
            gc.freeze()  # imported modules are never freed, so the collector need not scan them
        # If a standard stream is closed, the next opened file would get its number, and would
        # receive the output.
        for number in range(3):
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
        sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
        process._streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = _Output(sys.stdout), _Output(sys.stderr)
        for number in _STOP_SIGNALS if _in_main_thread() else ():
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:
                signal.signal(number, process._receive)
                process._before[number] = before
        return process

    def close(self) -> None:
        """Restores signal handlers and output streams if the process is shared."""
        if not self.is_shared:
            return
        for number, before in self._before.items():
            # A handler that C code has installed is `None`, and cannot be restored.
            signal.signal(number, before or signal.SIG_DFL)
        if self._streams is not None:
            sys.stdout, sys.stderr = self._streams

    def seconds(self) -> float:
        """Seconds since the operating system started the process, including imports. In a shared
        process, seconds since the program started.
        """
        return time.perf_counter() - self.started

    def begin(self) -> None:
        """Records signals from now on, instead of ending the process at once."""
        self._begun = True

    def check(self) -> None:
        """**Raises:** `Stopped` when a signal has arrived."""
        if self.first is not None:
            raise Stopped(signal.Signals(self.first).name)

    @contextlib.contextmanager
    def stopping_at_once(self) -> Iterator[None]:
        """Context manager in which a signal raises `Stopped`. It is for code that cannot check for
        signals, such as tracing, while nothing can be lost.

        **Raises:** `Stopped`, also when a signal has arrived before.
        """
        self.check()
        self._stops_at_once = True
        # A callback of the garbage collector cannot raise: Python prints the exception and
        # continues. The next `check` raises it again, so nothing is printed.
        report = sys.unraisablehook
        sys.unraisablehook = lambda x: None if x.exc_type is Stopped else report(x)
        try:
            yield
        finally:
            self._stops_at_once = False
            sys.unraisablehook = report

    def stop_reason(self) -> str | None:
        """The reason to stop, such as `interrupted`; `None` if no signal has arrived."""
        first = self.first  # a handler can change it at any time, so it is read only once
        return None if first is None else _REASONS[signal.Signals(first).name]

    def training_ended(self) -> None:
        """Marks the end of training: later signals set `interrupted_again`."""
        self._count_at_end = self.count

    @property
    def interrupted_again(self) -> bool:
        """Whether a signal arrived after `training_ended`. The remaining work is then skipped."""
        return self.count > self._count_at_end

    @property
    def exit_code(self) -> int:
        """The exit code for a program that a signal ended: 128 plus the signal's number."""
        return 128 + (self.first or signal.SIGINT)

    def finish(self, code: int) -> None:
        """Ends the process with an exit code, and ignores further signals.

        In a shared process, it calls `close` instead, and returns if the code is 0.
        """
        self.close()
        if self.is_shared and code == 0:
            return
        for number in () if self.is_shared else self._before:
            signal.signal(number, signal.SIG_IGN)
        if self.first is not None and not self.is_shared:
            _exit_at_once(code)
        sys.exit(code)

    def _receive(self, number: int, _: object) -> None:
        self.first = self.first or number
        self.count += 1
        if not self._begun and self.is_shared:
            raise KeyboardInterrupt
        if not self._begun:
            os.write(2, f"error: interrupted; {self.message}.\n".encode())
            os._exit(self.exit_code)
        if self._stops_at_once:
            self._stops_at_once = False  # a second signal does not disturb the end of the run
            self.check()


_FORESEEN = (UsageError, RunError, Stopped, OutOfMemory, NonFiniteLoss, CheckpointError)
"""Expected errors, each of which is printed as one line instead of a traceback."""
_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)


def _is_foreseen(error: BaseException) -> bool:
    """Whether an error is expected: one of `_FORESEEN`, a full disk, or too little memory."""
    if isinstance(error, OSError):
        return error.errno in _FULL_DISK
    if isinstance(error, jax.errors.JaxRuntimeError):
        return "RESOURCE_EXHAUSTED" in str(error)
    return isinstance(error, (*_FORESEEN, MemoryError))


def run_command(
    run: Callable[[Sequence[str]], None],
    message: str = "earlier measurements are kept",
    memory: str = "--episodes",
) -> None:
    """Runs the program of a command line, prints an expected error as one line, and exits.

    A signal ends the process at once. Python prints the traceback of any other error.

    **Arguments:**

    - `run`: the program, called with the arguments of the command line.
    - `message`: printed when a signal ends it.
    - `memory`: as in `exit_code_of`.
    """
    run_process(lambda _: run(sys.argv[1:]), memory, message)


def run_process(
    work: Callable[[Process], int | None], memory: str, message: str = "nothing was started"
) -> None:
    """Runs a program, prints an expected error as one line, and ends the process.

    In a notebook or a thread, the function returns if the program succeeds, and otherwise raises
    `SystemExit` with the exit code.

    **Arguments:**

    - `work`: the program, a function of the process with its clock and signals.
    - `memory`: as in `exit_code_of`.
    - `message`: printed when a signal ends the process before `Process.begin`.
    """
    process = Process.listen(message)
    try:
        process.finish(exit_code_of(lambda: work(process), process, memory))
    finally:
        process.close()


def exit_code_of(run: Callable[[], int | None], process: Process, memory: str) -> int:
    """Runs a program, and prints an expected error as one line.

    **Arguments:**

    - `run`: the program.
    - `process`: the process, with the signals it has received.
    - `memory`: the flags to lower when memory runs out, for the error message.

    **Returns:** the exit code: what the program returns, or 0 if it returns `None`; 1 if it failed,
    2 for wrong arguments, 130 after a Ctrl-C, and 128 plus its number after another signal.

    **Raises:** any other error that the program raises.
    """
    try:
        return run() or 0
    except Exception as error:
        if not _is_foreseen(error):
            raise
        return print_error(*_explain(error, process, memory))


def _explain(error: Exception, process: Process, memory: str) -> tuple[str, int]:
    """Describes an expected error.

    **Arguments:**

    - `error`: the error, for which `_is_foreseen` returns true.
    - `process`, `memory`: as in `exit_code_of`.

    **Returns:** the message and the exit code.
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
    return f"There is not enough memory: lower {memory}.", 1


def _exit_at_once(code: int) -> None:
    """Ends the process without waiting for XLA's compile threads, which cannot be interrupted."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    settings: Any = jax.config
    if settings.jax_compilation_cache_dir is not None:
        # While this thread holds the lock of the cache, no other thread is writing to it.
        lock = FileLock(Path(settings.jax_compilation_cache_dir, ".lockfile"))
        with contextlib.suppress(OSError, Timeout):
            lock.acquire(timeout=2)
    os._exit(code)


def _in_main_thread() -> bool:
    """Whether this is the main thread, the only one in which Python allows signal handlers."""
    return threading.current_thread() is threading.main_thread()


@final
class _Output:
    """A stream that discards output which cannot be written, so that a run continues when its
    terminal is closed or the disk of its log is full.
    """

    def __init__(self, stream: TextIO):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # a notebook's streams have no encoding to change
            reconfigure(errors="backslashreplace")  # so that any path can be printed
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            self._silence()
            return len(text)

    def flush(self) -> None:
        try:
            getattr(self._stream, "flush", int)()
        except OSError:
            self._silence()

    def isatty(self) -> bool:
        return bool(getattr(self._stream, "isatty", bool)())

    def __getattr__(self, name: str):
        return getattr(self._stream, name)

    def _silence(self) -> None:
        """Redirects the stream to the null device, if it has a file descriptor. For other streams,
        every later `write` fails again, and its output is discarded.
        """
        with contextlib.suppress(OSError, AttributeError):
            number = self._stream.fileno()
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
