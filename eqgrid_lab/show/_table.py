"""Progress bars, tables and paths in the terminal, and tables as CSV."""

import csv
import io
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

Row: TypeAlias = Mapping[str, Any]


def open_console() -> Console:
    """A console, with a width of 200 characters if standard output is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else 200, emoji=False)


@contextmanager
def progress(console: Console, what: str, steps: int) -> Iterator[Callable[[int], None]]:
    """Context manager that shows progress: as a bar in a terminal, and as ten lines elsewhere.

    **Arguments:**

    - `console`: the console.
    - `what`: the name of the task.
    - `steps`: the number of steps of the task.

    **Returns:** a function to call with the number of completed steps.
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
                console.print(f"{what}: {done} of {steps}, {seconds:.0f} s", highlight=False)

        yield report


def print_table(
    console: Console,
    header: Sequence[str | Text],
    rows: Iterable[Sequence[str | Text]],
    *,
    title: str | None = None,
    words: int = 1,
) -> None:
    """Prints a table.

    **Arguments:**

    - `console`: the console.
    - `header`: the names of the columns.
    - `rows`: the cells of each row.
    - `title`: the title above the table.
    - `words`: the number of columns of words, from the left. Their cells are aligned left, and all
        other cells are aligned right.
    """
    table = Table(title=title, box=None, pad_edge=False, header_style="dim")
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i < words else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def print_facts(console: Console, facts: Mapping[str, str]) -> None:
    """Prints the values of a result, one per line.

    **Arguments:**

    - `console`: the console.
    - `facts`: the values by name; empty values are left out.
    """
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value:
            table.add_row(name, value)
    console.print(table)


def print_paths(console: Console, paths: Iterable[Path]) -> None:
    """Prints the paths of the files that exist, one per line, without wrapping them."""
    for path in paths:
        if path.exists():
            console.print(path_text(path), soft_wrap=True)


def path_text(path: Path) -> Text:
    """A path that a table wraps instead of cutting it off."""
    return Text(str(path), overflow="fold")


def csv_text(rows: Sequence[Row], *, header: bool, columns: Sequence[str] = ()) -> str:
    """Formats rows as CSV, with a header if wanted. The first columns are `columns`, and all other
    keys of the rows follow. Missing values are empty.
    """
    text = io.StringIO(newline="")
    names = dict.fromkeys([*columns, *(key for row in rows for key in row)])
    writer = csv.DictWriter(text, list(names))
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
