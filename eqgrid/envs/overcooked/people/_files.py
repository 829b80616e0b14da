"""Reading the columns of a table from a file, by its suffix."""

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .... import interop, read_regular_file
from ._pickles import read_pickled_table

_WHOLE, _NUMBERS = ("cur_gameloop",), ("reward", "time_elapsed", "time_left", "score")
_LONGEST_CELL = 2**24


def read_columns(path: Path, max_bytes: int) -> dict[str, list[Any]]:
    """Reads a table.

    **Arguments:**

    - `path`: a file that ends in `.csv`, `.json`, `.parquet`, `.pickle` or `.pkl`. JSON is a list
        of rows, or an object with a list, or an object of rows, for each column.
    - `max_bytes`: the largest size that is read.

    **Returns:** a list of values for each column.

    **Raises:** `ValueError` with a sentence when the file is none of these or damaged, `OSError`
    when it cannot be read, and `ImportError` for a Parquet file without pyarrow.
    """
    readers = {
        ".csv": _from_csv,
        ".json": _from_json,
        ".parquet": interop.from_parquet if path.suffix == ".parquet" else None,
        ".pickle": _from_pickle,
        ".pkl": _from_pickle,
    }
    reader = readers.get(path.suffix)
    if reader is None:
        raise ValueError(f"its name must end in {', '.join(readers)}.")
    return reader(read_regular_file(path, max_bytes))


def _from_pickle(content: bytes) -> dict[str, list[Any]]:
    try:
        return read_pickled_table(content)
    except ValueError as error:
        raise ValueError(f"it {error}") from error


def _from_csv(content: bytes) -> dict[str, list[Any]]:
    csv.field_size_limit(_LONGEST_CELL)
    try:
        rows = list(csv.DictReader(io.StringIO(content.decode(), newline=""), strict=True))
        return _typed({name: [row[name] for row in rows] for name in (rows[0] if rows else {})})
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"it is no CSV: {error}.") from error


def _from_json(content: bytes) -> dict[str, list[Any]]:
    try:
        table = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON: {error}.") from error
    if isinstance(table, list) and table and all(isinstance(row, dict) for row in table):
        if any(row.keys() != table[0].keys() for row in table):
            raise ValueError("its rows must have the same columns.")
        return _typed({name: [row[name] for row in table] for name in table[0]})
    if isinstance(table, dict) and table:
        lists = [list(x.values()) if isinstance(x, dict) else x for x in table.values()]
        if all(isinstance(x, list) and len(x) == len(lists[0]) for x in lists):
            return _typed(dict(zip(table, lists, strict=True)))
    raise ValueError("its JSON must be a list of rows, or have a list for each column.")


def _typed(table: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """The table with numbers where they are expected, and JSON again in cells that were parsed."""
    typed = {}
    for name, column in table.items():
        try:
            if name in _WHOLE:
                column = [int(float(x)) for x in column]
            elif name in _NUMBERS:
                column = [float(x) for x in column]
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"its column {name!r} must have numbers: {error}.") from error
        typed[name] = [json.dumps(x) if isinstance(x, list | dict) else x for x in column]
    return typed
