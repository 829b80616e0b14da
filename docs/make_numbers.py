"""Writes measured numbers into the pages: python docs/make_numbers.py

Each number is in one file, `docs/numbers/TOPIC.toml`, with the command that measured it. A page
includes a value as `<!-- number topic.name -->162<!-- end -->`. It includes a table as
`<!-- table topic.name -->` and `<!-- end -->`, on lines of their own. This program writes what is
between the two comments. With `--check`, it names the pages that are out of date.

```toml
command = "python experiments/ippo.py --env.layout LAYOUT --total-steps 5_000_000"
commit = "a1b2c3d"
protocol = "256 sampled episodes of 400 steps after training, one seed, two cores"

[values]
e3t_with_people = "162"

[tables.plain]
header = ["", "`cramped`", "`ring`"]
rows = [["`ippo.py`, one seed", "260", "340"], ["best known return", "280", "360"]]
align = "lrr"  # the default: only the first column is aligned to the left
```
"""

import dataclasses
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import tyro

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
MARKER = re.compile(r"<!-- (number|table) ([\w.-]+) -->(.*?)<!-- end -->", re.S)
START = re.compile(r"<!-- (?:number|table)\b[^>]*>")
AT_THE_START = re.compile(r"^ *(?:[-*>] +|\d+\. +)?(<!-- number [\w.-]+ -->)", re.M)
"""A number that begins a line, which Markdown would take as a block of HTML."""
RULES = {"l": "---", "c": ":---:", "r": "---:"}
"""The second line of a table, for each letter of `align`."""


class Mistake(Exception):
    """A mistake in a page or a file of numbers, in one sentence."""


@dataclasses.dataclass(frozen=True)
class Fill:
    """Writes the numbers of docs/numbers into the pages."""

    check: bool = False
    """Write nothing, and fail if a page is out of date."""


def pages(root: Path = ROOT) -> list[Path]:
    """The pages that may include numbers."""
    docs = root / "docs"
    found = (root / "README.md", *sorted(docs.glob("*.md")), *sorted(docs.glob("tutorials/*.md")))
    return [page for page in found if page.exists()]


def markdown(name: str, table: dict[str, Any]) -> str:
    """A table of a file of numbers, as Markdown."""
    header, rows = table.get("header"), table.get("rows")
    if not isinstance(header, list) or not isinstance(rows, list):
        raise Mistake(f"table {name} needs a `header` and `rows`, which are lists.")
    lines = [header, *rows]
    if any(not isinstance(row, list) for row in rows):
        raise Mistake(f"table {name} has a row that is not a list.")
    if any(not isinstance(cell, str) for line in lines for cell in line):
        raise Mistake(f"table {name} has a cell that is not a string.")
    if any(len(line) != len(header) for line in rows):
        raise Mistake(f"table {name} has a row with more or fewer cells than its header.")
    align = str(table.get("align", "l" + "r" * (len(header) - 1)))
    if len(align) != len(header) or {*align} - {*RULES}:
        raise Mistake(f"`align` of table {name} needs one of l, c and r for each column.")
    lines.insert(1, [RULES[letter] for letter in align])
    return "\n".join("|" + "|".join(f" {x} " if x else " " for x in line) + "|" for line in lines)


def read(folder: Path) -> dict[str, str]:
    """The texts of all values and tables, by `topic.name`."""
    found: dict[str, str] = {}
    for file in sorted(folder.glob("*.toml")):
        try:
            topic = tomllib.loads(file.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:  # includes keys that are there twice
            raise Mistake(f"{file.name} is not valid TOML: {error}.") from None
        values, tables = topic.pop("values", {}), topic.pop("tables", {})
        if others := [key for key, value in topic.items() if not isinstance(value, str)]:
            raise Mistake(f"{file.name} has `{others[0]}`, which is neither a text nor a section.")
        if not isinstance(values, dict) or not isinstance(tables, dict):
            raise Mistake(f"{file.name} has `values` or `tables` that is not a section.")
        if plain := [name for name, table in tables.items() if not isinstance(table, dict)]:
            raise Mistake(f"{file.name} has `{plain[0]}` in `tables`, which is not a table.")
        if both := sorted({*values} & {*tables}):
            raise Mistake(f"{file.name} has both a value and a table that is named {both[0]}.")
        for name, value in values.items():
            if not isinstance(value, str):
                raise Mistake(f"value {file.stem}.{name} is not a string.")
            found[f"number {file.stem}.{name}"] = value
        for name, table in tables.items():
            text = markdown(f"{file.stem}.{name}", table)
            found[f"table {file.stem}.{name}"] = f"\n\n{text}\n\n"
    return found


def prose(text: str) -> str:
    """A page in which spaces replace the blocks of code, so that places are the same."""
    return FENCE.sub(lambda x: re.sub(r"[^\n]", " ", x[0]), text)


def filled(page: str, text: str, known: dict[str, str]) -> tuple[str, set[str]]:
    """A page with today's numbers, and which numbers it includes.

    **Arguments:**

    - `page`: its name, for errors.
    - `text`: its Markdown.
    - `known`: what `read` returned.
    """
    places = [*MARKER.finditer(prose(text))]
    starts = START.findall(prose(text))
    if len(starts) > len(places) or any(START.search(place[3]) for place in places):
        ended = {f"<!-- {x[1]} {x[2]} -->" for x in places if not START.search(x[3])}
        lost = next((x for x in starts if x not in ended), starts[-1])
        raise Mistake(f"{page} has {lost} without <!-- end -->.")
    if first := AT_THE_START.search(prose(text)):
        raise Mistake(f"{page} begins a line with {first[1]}, which Markdown takes as HTML.")
    used: set[str] = set()
    for place in reversed(places):
        name = f"{place[1]} {place[2]}"
        if name not in known:
            raise Mistake(f"{page} includes {name}, which no file of docs/numbers has.")
        used.add(name)
        text = text[: place.start(3)] + known[name] + text[place.end(3) :]
    return text, used


def fill(root: Path = ROOT, *, write: bool = True) -> list[str]:
    """Writes the numbers into all pages, and returns the names of the pages that were out of date.

    Raises `Mistake` if a page or a file of numbers has one.
    """
    known = read(root / "docs/numbers")
    unused, changed = {*known}, {}
    for page in pages(root):
        name, text = page.relative_to(root).as_posix(), page.read_text(encoding="utf-8")
        new, used = filled(name, text, known)
        unused -= used
        if new != text:
            changed[page] = new
    if write:
        for page, text in changed.items():
            page.write_text(text, encoding="utf-8")
    if unused:
        raise Mistake(f"no page includes {', '.join(sorted(unused))}.")
    return [page.relative_to(root).as_posix() for page in changed]


def run(settings: Fill) -> None:
    """Writes or checks all pages."""
    try:
        changed = fill(write=not settings.check)
    except Mistake as mistake:
        sys.exit(f"error: {mistake}")
    if settings.check and changed:
        sys.exit(f"error: python docs/make_numbers.py would change {', '.join(changed)}.")
    print(f"Wrote {', '.join(changed)}." if changed else "All pages are up to date.")


if __name__ == "__main__":
    run(tyro.cli(Fill))
