"""What the benchmarks share: where their results go, and how they end."""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from _errors import RunError, UsageError, complain
from rich.console import Console


def open_results(name: str, out: Path | None) -> tuple[Path, Console]:
    """The folder for the results, `out` or a new one in `runs/`, and what to print on."""
    folder = out or Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder.mkdir(parents=True, exist_ok=True)
    # Where nobody looks at a terminal, no table is squeezed.
    return folder, Console(width=None if sys.stdout.isatty() else 160)


def run_command(run: Callable[[Sequence[str]], None]) -> None:
    """Runs a command line, and says in one line why it cannot be done."""
    try:
        run(sys.argv[1:])
    except (UsageError, RunError, OSError) as error:
        sys.exit(complain(str(error), 2 if isinstance(error, UsageError) else 1))
    except KeyboardInterrupt:
        sys.exit(130)
