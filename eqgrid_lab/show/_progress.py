"""The progress of long computations."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def progress(console: Console, what: str, steps: int) -> Iterator[Callable[[int], None]]:
    """Context manager that shows progress: a bar in a terminal, and about ten lines elsewhere.

    **Arguments:**

    - `console`: where it is shown.
    - `what`: what is done.
    - `steps`: the number of steps.

    **Returns:** a function of the number of steps that are done, inside the context.
    """
    begin = time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    live = console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not live) as bar:
        task = bar.add_task(what, total=steps)

        def report(done: int) -> None:
            bar.update(task, completed=done)
            if not live and done % max(1, steps // 10) == 0:
                seconds = time.perf_counter() - begin
                console.print(f"{what}: {done} of {steps} steps, {seconds:.0f} s", highlight=False)

        yield report
