"""Tables and facts in the terminal."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text


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

    - `header`: the names of the columns.
    - `rows`: the cells.
    - `title`: what stands above it.
    - `words`: how many columns, from the left, have words; the others have numbers.
    """
    table = Table(title=title, box=None, pad_edge=False, header_style="dim")
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i < words else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def print_facts(
    console: Console, facts: Mapping[str, str | None], files: Iterable[tuple[str, Text]]
) -> None:
    """Prints what is known of a result, and where its files are, a line each.

    **Arguments:**

    - `facts`: by their names; what is empty is left out.
    - `files`: what each file is, and its path.
    """
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    for name, value in (*facts.items(), *files):
        if value:
            table.add_row(name, value)
    console.print(table)


def files_in(folder: Path, names: dict[str, str]) -> list[tuple[str, Text]]:
    """The files of a folder that are there: what each is, and its path.

    **Arguments:**

    - `folder`: the folder.
    - `names`: what each file is, by its name in the folder.
    """
    return [(what, path_text(folder / x)) for x, what in names.items() if (folder / x).exists()]


def print_paths(console: Console, paths: Iterable[Path]) -> None:
    """Prints where files are, a line each, never broken in two."""
    for path in paths:
        console.print(path_text(path), soft_wrap=True)


def path_text(path: Path) -> Text:
    return Text(str(path), overflow="fold")
