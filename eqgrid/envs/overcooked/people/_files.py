"""Tables of recorded games in files, and the files of an installed Overcooked-AI."""

import csv
import importlib.util
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from .... import interop, read_regular_file
from ...._checks import missing_library
from ._pickle import NotATable, read_pickled_table

Split = Literal["train", "test"]
Table = Mapping[str, list[Any]]
SPLITS: tuple[Split, ...] = ("train", "test")
_SUFFIXES = (".csv", ".json", ".parquet", ".pickle", ".pkl")


def installed_file(split: Split) -> Path:
    """The file with one half of the games of 2019, in the installed `overcooked-ai`, which is not
    imported.

    **Raises:** `ImportError` when it is not installed, and `ValueError` when it has no such file.
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
    return path


def read_file(path: str | Path) -> Table:
    """The columns of a table in a file, in the format that its suffix names.

    **Raises:** `ValueError` for another suffix, or when the file cannot be read; and `ImportError`
    for a Parquet file without pyarrow.
    """
    path = Path(path)
    if path.suffix not in _SUFFIXES:
        raise ValueError(
            f"The file {str(path)!r:.200} must end in {', '.join(_SUFFIXES)}: rename it."
        )
    try:
        content = read_regular_file(path)
    except OSError as error:
        raise ValueError(
            f"The file {str(path)!r:.200} cannot be read: {error.strerror}."
        ) from error
    try:
        return _read(path.suffix, content)
    except NotATable as error:
        raise ValueError(f"The file {str(path)!r:.200} is refused: {error}") from error
    except ValueError as error:
        raise ValueError(f"The file {str(path)!r:.200} cannot be read: {error}") from error


def _read(suffix: str, content: bytes) -> Table:
    if suffix == ".parquet":
        return interop.from_parquet(content)
    if suffix in (".pickle", ".pkl"):
        return read_pickled_table(content)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError("It is no UTF-8.") from error
    return _from_csv(text) if suffix == ".csv" else _from_json(text)


def _from_csv(text: str) -> Table:
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise ValueError("It is damaged, or no CSV file.") from error
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError("Its rows must have as many cells as the first, which names the columns.")
    return {name: [row[i] for row in rows[1:]] for i, name in enumerate(rows[0])}


def _from_json(text: str) -> Table:
    """Reads a dictionary of columns, each a list or a dictionary by row, or a list of rows."""
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
