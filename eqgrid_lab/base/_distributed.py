"""Training one run with several processes, on one host or on several hosts.

All processes run the same program. Process 0 also evaluates, writes all files and prints. The other
processes only train, and end with the exit code of process 0.
"""

import contextlib
import os
import socket
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import NoReturn

import jax

from agents import ProcessFailed, gather, is_first
from agents.training import fail

from ._command import FORESEEN, Process, explain, is_foreseen
from ._errors import RunError, UsageError, print_error, reason
from ._named import Table

BY_HAND = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
"""The environment variables that identify the processes if no job scheduler does."""

_WAIT = 300
"""How long processes wait for the others to start, in seconds."""

_HEARTBEAT = 60
"""The time without a heartbeat after which a process counts as lost, in seconds."""


def run_distributed(process: Process, settings: str, work: Callable[[], int], memory: str) -> int:
    """Connects to the other processes of a run, and runs a program together with them.

    If another process is lost, this process exits at once.

    **Arguments:**

    - `process`: this process, with the signals it has received.
    - `settings`: a text that must be the same in all processes.
    - `work`: the program. If it raises one of the `FORESEEN` errors, it ends in all processes.
    - `memory`: the flags to lower when memory runs out, for the error message.

    **Returns:** the exit code of process 0, or of the first process that failed.

    **Raises:** `UsageError` when the processes cannot be identified, `RunError` when they cannot
    connect.
    """
    _join(process)
    if not is_first():
        # Only process 0 prints. The file descriptor is redirected, since libraries in C print, too.
        sys.stdout.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        code = _run_and_agree(process, settings, work, memory)
    except BaseException as error:  # the other processes may be waiting for this one
        _abort(error, memory)
    jax.distributed.shutdown()
    return code


def _run_and_agree(process: Process, settings: str, work: Callable[[], int], memory: str) -> int:
    """Runs the program. All processes return the same exit code, also if one of them fails."""
    try:
        try:
            all_processes = gather([library_versions(), settings])
            for number, (versions, theirs) in enumerate(all_processes):
                who = f"Process {number} of {len(all_processes)}"
                if versions != all_processes[0][0]:
                    raise UsageError(
                        f"{who} has {versions}, and process 0 has {all_processes[0][0]}: install "
                        "the same versions on all hosts."
                    )
                if theirs != all_processes[0][1]:
                    raise UsageError(
                        f"{who} and process 0 have different settings: start all processes with "
                        "the same command line."
                    )
            return gather(work())[0]
        except (*FORESEEN, OSError) as error:
            if not is_foreseen(error):
                raise
            fail(explain(error, process, memory))
    except ProcessFailed as failed:
        sentence, code = failed.about
        if is_first():
            name = f"process {failed.number} of {jax.process_count()}: " if failed.number else ""
            print_error(name + sentence, code)
        return code


def library_versions() -> str:
    """The versions that all processes and jobs of a study must have in common."""
    return f"eqgrid {version('eqgrid')} and jax {jax.__version__}"


def _abort(error: BaseException, memory: str) -> NoReturn:
    """Prints an error, and ends this process at once. The other processes detect its end by the
    missing heartbeat.
    """
    who = f"process {jax.process_index()} of {jax.process_count()}"
    line = next(iter(str(error).splitlines()), "")
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in line:
        print_error(f"{who}: There is not enough memory: lower {memory}.", 1)
    elif isinstance(error, jax.errors.JaxRuntimeError):
        print_error(
            f"{who}: another process was lost or cannot be reached: --resume continues from the "
            f"last checkpoint ({line:.200}).",
            1,
        )
    else:
        traceback.print_exception(error)
        print_error(f"{who} failed.", 1)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)  # a normal exit would wait for the other processes


def _join(process: Process) -> None:
    """Connects to the other processes.

    **Raises:** `UsageError` when the processes cannot be identified, `RunError` when this process
    cannot connect.
    """
    # jax's own SIGTERM handler would replace ours.
    jax.config.update("jax_enable_preemption_service", False)
    known = _known_by_hand()
    try:
        with process.with_default_signals(), _time_limit(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # jax warns if the library for Kubernetes is missing
            jax.distributed.initialize(
                **known,
                # Longer than `_time_limit`, since jax's own timeout prints many lines.
                initialization_timeout=2 * _WAIT,
                heartbeat_timeout_seconds=_HEARTBEAT,
            )
    except ValueError as error:
        raise UsageError(
            "--distributed found no Slurm, Open MPI or Kubernetes job (which needs pip install "
            f"'jax[k8s]'): set {BY_HAND[0]} (host and port of process 0), {BY_HAND[1]} and "
            f"{BY_HAND[2]}."
        ) from error
    except (RuntimeError, OSError) as error:
        line = " ".join(str(error).split())
        raise RunError(f"--distributed cannot join the other processes: {line:.300}.") from error


def _known_by_hand() -> Table:
    """The arguments of `jax.distributed.initialize` from environment variables; empty without
    numbers. jax itself reads an address without numbers.

    **Raises:** `UsageError` when the variables are incomplete or invalid, or the port is taken.
    """
    address, *numbers = (os.environ.get(name) for name in BY_HAND)
    host, _, port = (address or "").rpartition(":")
    if address is not None and not (host and port.isdecimal() and 0 < int(port) < 2**16):
        raise UsageError(f"{BY_HAND[0]} must be a host and a port, such as node1:12345.")
    if all(number is None for number in numbers):
        return {}
    if address is None or None in numbers:
        raise UsageError(
            f"--distributed needs all of {', '.join(BY_HAND)} if one of the numbers is set."
        )
    if not all(number and number.isdecimal() for number in numbers):
        raise UsageError(f"{BY_HAND[1]} and {BY_HAND[2]} must be whole numbers.")
    count, number = (int(number or 0) for number in numbers)
    if number >= count:
        raise UsageError(f"{BY_HAND[2]} must be below {BY_HAND[1]}, but is {number}.")
    if number == 0:  # jax would end the process without a readable error
        try:
            socket.create_server(("", int(port))).close()
        except OSError as error:
            raise UsageError(
                f"Process 0 cannot use port {port} ({reason(error)}): choose another one for "
                f"{BY_HAND[0]}."
            ) from error
    return {
        "coordinator_address": address,
        "num_processes": count,
        "process_id": number,
        "cluster_detection_method": "deactivate",
    }


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    """Context manager that ends the process after `_WAIT` seconds: jax cannot be interrupted while
    it waits for the other processes.
    """

    def give_up() -> None:
        print_error(
            f"The processes of --distributed have not found each other within {_WAIT} seconds: "
            "start all of them at the same time, and let them reach the port of process 0.",
            1,
        )
        os._exit(1)

    timer = threading.Timer(_WAIT, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
