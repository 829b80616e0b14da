"""Reads tables of recorded games from files, also from the files of an installed Overcooked-AI."""

import csv
import importlib.util
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from .... import interop, read_regular_file
from ....errors import import_optional, missing_library

Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = ("train", "test")

Column: TypeAlias = list[Any]
"""The texts, numbers or booleans in a column of a table."""

Table = Mapping[str, Column]
"""The columns of a table by name."""

_SUFFIXES = (".csv", ".json", ".parquet")


def read_installed(split: Split) -> Table:
    """Reads one half of the games of 2019 in the installed `overcooked-ai`, without importing it.

    **Raises:** `ImportError` when the package or pandas is not installed, and `ValueError` when the
    package has no such file.
    """
    if split not in SPLITS:
        raise ValueError(f"There is no split {split!r:.60}: choose {' or '.join(SPLITS)}.")
    package = importlib.util.find_spec("overcooked_ai_py")
    if package is None or package.origin is None:
        raise missing_library("The human games are in the package overcooked-ai", "human")
    path = Path(package.origin).parent / "data" / "human_data" / f"clean_{split}_trials.pickle"
    if not path.is_file():
        raise ValueError(
            "The installed overcooked-ai has no human games: install overcooked-ai==1.1.0, which "
            "has them."
        )
    pandas = import_optional("pandas", "The human games need pandas", "human")
    return pandas.read_pickle(path).to_dict("list")


def read_file(path: str | Path) -> Table:
    """Reads the columns of the table in a file. The suffix of the file determines the format.

    A folder is read as one table, with the rows of all its Parquet files and the columns that all
    of them have.

    **Raises:** `ValueError` for an unknown suffix, or when the file cannot be read; `ImportError`
    for a Parquet file without pyarrow.
    """
    path = Path(path)
    if path.is_dir():
        tables = [read_file(file) for file in sorted(path.glob("*.parquet"))]
        if not tables:
            raise ValueError(f"The folder {str(path)!r:.200} has no .parquet file: name another.")
        shared = set(tables[0]).intersection(*tables)
        return {name: [x for table in tables for x in table[name]] for name in shared}
    if path.suffix not in _SUFFIXES:
        raise ValueError(
            f"The file {str(path)!r:.200} must end in {', '.join(_SUFFIXES)}: convert it, such as "
            "with pandas."
        )
    try:
        content = read_regular_file(path)
    except OSError as error:
        raise ValueError(
            f"The file {str(path)!r:.200} cannot be read: {error.strerror}."
        ) from error
    try:
        if path.suffix == ".parquet":
            return interop.from_parquet(content)
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError("It is not UTF-8.") from error
        return _from_csv(text) if path.suffix == ".csv" else _from_json(text)
    except ValueError as error:
        raise ValueError(f"The file {str(path)!r:.200} cannot be read: {error}") from error


def _from_csv(text: str) -> Table:
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise ValueError("It is damaged, or no CSV file.") from error
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError("Its rows must have as many cells as the first, which names the columns.")
    return {name: [row[i] for row in rows[1:]] for i, name in enumerate(rows[0])}


def _from_json(text: str) -> Table:
    """Reads a list of rows, or a dictionary of columns, each of which is a list or a dictionary by
    row.
    """
    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("It is damaged, or no JSON file.") from error
    if isinstance(table, list) and table and all(isinstance(row, dict) for row in table):
        names = table[0].keys()
        if all(row.keys() == names for row in table):
            return {name: [row[name] for row in table] for name in names}
    if isinstance(table, dict):
        columns = {x: list(y.values()) if isinstance(y, dict) else y for x, y in table.items()}
        if all(isinstance(column, list) for column in columns.values()):
            return columns
    raise ValueError("It must have a list of rows, or a list for each column.")
