"""What the benchmarks share: where their results go, and how they end."""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from experiments._errors import RunError, UsageError, print_error, print_system_error
from experiments._process import Process


def open_results(name: str, out: Path | None) -> tuple[Path, Console]:
    """The folder for the results, `out` or a new one in `runs/`, and what to print on."""
    folder = out or Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder.mkdir(parents=True, exist_ok=True)
    # Where nobody looks at a terminal, no table is squeezed.
    return folder, Console(width=None if sys.stdout.isatty() else 160)


def run_command(run: Callable[[Sequence[str]], None]) -> None:
    """Runs a command line, says in one line why it cannot be done, and ends the process. A signal
    ends it at once: what was measured is written after every measurement.
    """
    process = Process.listen("what was measured before is kept")
    process.finish(_run(run))


def _run(run: Callable[[Sequence[str]], None]) -> int:
    try:
        run(sys.argv[1:])
    except UsageError as error:
        return print_error(str(error), 2)
    except RunError as error:
        return print_error(str(error), 1)
    except OSError as error:
        return print_system_error(error)
    return 0
