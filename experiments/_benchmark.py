"""What the benchmarks share: how they end."""

import sys
from collections.abc import Callable, Sequence

from experiments._errors import RunError, UsageError, print_error, print_system_error
from experiments._process import Process


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
