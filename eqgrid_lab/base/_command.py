"""Shared parts of commands: compiled programs on disk, devices, signals, and errors in one line."""

import contextlib
import errno
import gc
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Self, final

import jax
from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from agents import CheckpointError, NonFiniteLoss, OutOfMemory

from ._errors import RunError, Stopped, UsageError, print_error, reason

_MAX_CACHE_BYTES = 2**30


def keep_compiled_programs() -> None:
    """Turns on JAX's persistent compilation cache, in a user cache folder of at most 1 GiB, unless
    JAX's own settings name a folder, or the user has no home folder. When the folder is full, the
    least recently used programs are removed first.
    """
    # The attributes of `jax.config` have no type annotations.
    settings: Any = jax.config
    if settings.jax_compilation_cache_dir is not None:
        return
    with contextlib.suppress(OSError, RuntimeError):  # the last one without a home folder
        folder = user_cache_path("eqgrid") / "compiled"
        folder.mkdir(parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_compilation_cache_max_size", _MAX_CACHE_BYTES)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


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


def is_shared() -> bool:
    """Whether other code shares the process: a notebook, an interactive interpreter, or the main
    thread of a program whose other threads call eqgrid.
    """
    is_interactive = hasattr(sys, "ps1") or bool(sys.flags.interactive)  # also in notebooks
    return is_interactive or threading.current_thread() is not threading.main_thread()


def quiet_libraries() -> None:
    """Silences the log messages of matplotlib and XLA, prints any path in any encoding, and makes
    the garbage collector rare.
    """
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") in (None, "1"):  # jax itself sets "1"
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    if is_shared():
        return
    os.environ["MPLBACKEND"] = "agg"  # figures are only written to files
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # jax makes many objects while it traces, and few garbage cycles: with the default of 700
    # objects, the collector takes a fifth of the time before training.
    gc.set_threshold(100_000)
    gc.freeze()  # imported modules are never freed, so the collector need not scan them


_NAMES = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}


@final
class StopSignals:
    """Context manager that records SIGINT, SIGTERM and SIGHUP, so that a program can end where it
    is safe: the handler raises no exception. In a thread, it receives no signals.

    **Attributes:**

    - `first`: the number of the first signal; `None` if there was none.
    - `last_words`: a line. If it is set, the next signal prints it and ends the process at once; in
        a notebook, it raises `KeyboardInterrupt`.
    """

    def __init__(self) -> None:
        self.first: int | None = None
        self.last_words: str | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (getattr(signal, x) for x in _NAMES if hasattr(signal, x)):
                # A signal that is ignored stays ignored, as SIGHUP under `nohup`.
                if (before := signal.getsignal(number)) is not signal.SIG_IGN:
                    self._before[number] = before or signal.SIG_DFL
                    signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def check(self) -> None:
        """**Raises:** `Stopped` when a signal has arrived."""
        if self.first is not None:
            raise Stopped(signal.Signals(self.first).name)

    @property
    def reason(self) -> str | None:
        """The reason to stop, such as `interrupted`; `None` if no signal has arrived."""
        return None if self.first is None else _NAMES[signal.Signals(self.first).name]

    @property
    def exit_code(self) -> int:
        """128 plus the number of the first signal, as shells report it; 0 if there was none."""
        return 0 if self.first is None else 128 + self.first

    def _receive(self, number: int, _: FrameType | None) -> None:
        self.first = self.first or number
        if self.last_words is None:
            return
        if is_shared():
            raise KeyboardInterrupt
        os.write(1, f"{self.last_words}\n".encode(errors="backslashreplace"))
        exit_at_once(self.exit_code)


def exit_at_once(code: int) -> None:
    """Ends the process without waiting for XLA's compile threads, which cannot be interrupted."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # the last one in a signal
            stream.flush()
    settings: Any = jax.config
    if settings.jax_compilation_cache_dir is not None:
        # While this thread holds the lock of the cache, no other thread is writing to it.
        lock = FileLock(Path(settings.jax_compilation_cache_dir, ".lockfile"))
        with contextlib.suppress(OSError, Timeout):
            lock.acquire(timeout=2)
    os._exit(code)


def explain(error: Exception, memory: str) -> tuple[str, int] | None:
    """Describes an expected error: wrong arguments, a damaged file, a full disk, too little memory.

    **Arguments:**

    - `error`: the error.
    - `memory`: the flags to lower when memory runs out.

    **Returns:** one sentence and the exit code; `None` for an unexpected error.
    """
    if isinstance(error, UsageError):
        return str(error), 2
    if isinstance(error, OutOfMemory):
        return f"{error}: lower {memory}.", 1
    if isinstance(error, RunError | NonFiniteLoss | CheckpointError):
        return str(error), 1
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f"{str(error.filename)!r}: " if error.filename else ""
        return f"{where}{reason(error)}.", 1
    exhausted = isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
    if exhausted or isinstance(error, MemoryError):
        return f"There is not enough memory: lower {memory}.", 1
    return None


@contextlib.contextmanager
def expected_errors(message: str, memory: str = "--num-envs") -> Iterator[None]:
    """Context manager for a program: it exits with one printed sentence after an expected error or
    a Ctrl-C. Any other error is raised.

    **Arguments:**

    - `message`: printed after a Ctrl-C.
    - `memory`: as in `explain`.
    """
    quiet_libraries()
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(print_error(f"interrupted; {message}.", 130))
    except Exception as error:
        if (found := explain(error, memory)) is None:
            raise
        sys.exit(print_error(*found))


def run_command(
    run: Callable[[Sequence[str]], object],
    message: str = "earlier measurements are kept",
    memory: str = "--episodes",
) -> None:
    """Runs the program of a command line, and exits after `expected_errors`.

    **Arguments:**

    - `run`: the program, called with the arguments of the command line.
    - `message`, `memory`: as in `expected_errors`.
    """
    with expected_errors(message, memory):
        run(sys.argv[1:])
