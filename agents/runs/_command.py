"""How every command line begins and ends: signals, one sentence about an error, an exit code."""

import gc
import sys
from collections.abc import Callable, Sequence

import jax

from agents import CheckpointError, NonFiniteLoss, OutOfMemory
from agents.runs.display._errors import RunError, UsageError, print_error, system_error

from ._process import NOTHING_LEARNED, Process, Stopped

FORESEEN = (UsageError, RunError, Stopped, OutOfMemory, NonFiniteLoss, CheckpointError, OSError)
"""What ends a program in an orderly way, between two computations."""


def run_command(
    run: Callable[[Sequence[str]], None], message: str = "what was measured before is kept"
) -> None:
    """Runs a command line, says in one line why it cannot be done, and ends the process. A signal
    ends it at once.

    **Arguments:**

    - `run`: the program, called with what a person has typed.
    - `message`: what is said when a signal ends it.
    """
    process = Process.listen(message)
    gc.freeze()  # what was imported stays until the end, so the collector need not look at it
    process.finish(exit_code_of(lambda: run(sys.argv[1:]), process, "--episodes"))


def exit_code_of(run: Callable[[], int | None], process: Process, memory: str) -> int:
    """Runs a program, and says in one line why it cannot be done.

    **Arguments:**

    - `run`: the program.
    - `process`: its signals.
    - `memory`: the flags that decide how much memory it needs.

    **Returns:** the exit code: what the program gives, or 0; 1 when something went wrong and 2 when
    something wrong was asked; 130 after a Ctrl-C, and 128 and its number after another signal.
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
