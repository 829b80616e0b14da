"""Tables of recorded games in files, and the files of an installed Overcooked-AI.

A table of pandas may be pickled. A pickle is a program that names functions and calls them. This
module reads it without pandas, and without running any of its code: it replaces every function that
a table of pandas may use by a note of its arguments, accepts no other names, and then computes the
columns from these notes. Source of the names: the pickles of overcooked-ai 1.1.0, of
Overcooked-AI's repository, and of pandas 3.1.
"""

import csv
import importlib.util
import io
import itertools
import json
import pickle
import pickletools
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

import numpy as np
from jaxtyping import Shaped

from .... import interop, read_regular_file
from ....errors import missing_library

_NAMES = {
    "builtins": ("bytearray", "slice"),
    "numpy": ("dtype", "ndarray"),
    "numpy.core.multiarray": ("_reconstruct",),
    "numpy._core.multiarray": ("_reconstruct",),
    "numpy._core.numeric": ("_frombuffer",),
    "pandas": ("DataFrame", "Index", "RangeIndex", "StringDtype"),
    "pandas.arrays": ("ArrowStringArray", "StringArray"),
    "pandas.core.frame": ("DataFrame",),
    "pandas.core.indexes.base": ("Index", "_new_Index"),
    "pandas.core.indexes.numeric": ("Int64Index",),
    "pandas.core.indexes.range": ("RangeIndex",),
    "pandas.core.internals.managers": ("BlockManager",),
    "pandas._libs.arrays": ("__pyx_unpickle_NDArrayBacked",),
    "pandas._libs.internals": ("_unpickle_block",),
    "pyarrow.lib": ("_restore_array", "chunked_array", "py_buffer", "type_for_alias"),
}
_DAMAGED = (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError)
_DAMAGED += (LookupError, OverflowError, MemoryError)

_Pickled: TypeAlias = Any  # an object in a pickle, which may be of any kind
Column: TypeAlias = list[Any]
"""The texts, numbers or booleans in a column of a table."""


class NotATable(ValueError):
    """Raised for a file that is not a pickled table of pandas, rather than a damaged one."""


def read_pickled_table(content: bytes) -> dict[str, Column]:
    """The columns of a `DataFrame` that was written with `to_pickle`, in protocol 4 or 5.

    **Arguments:**

    - `content`: the content of the file.

    **Returns:** a list of texts, numbers or booleans for each column; columns of dates and of other
    types are left out.

    **Raises:** `ValueError` when it is damaged, and its subclass `NotATable` when it names anything
    that no such table needs.
    """
    try:
        _check_places(content)
        frame = _Notes(io.BytesIO(content)).load()
        if not (isinstance(frame, _Note) and frame.name == "DataFrame"):
            raise NotATable("It has no table of pandas.")
        manager = frame.state.get("_mgr") or frame.state["_data"]  # the name of older versions
        return dict(_columns(manager))
    except NotATable:
        raise
    except _DAMAGED as error:
        raise ValueError("It is damaged, or of an unknown version of pandas.") from error


def _check_places(content: bytes) -> None:
    """Checks the numbers of the places in which a pickle stores objects for later use. The
    unpickler allocates all places below the largest one, so a few damaged bytes could take all
    memory.

    **Raises:** `ValueError` for a number that no pickle of this size needs, and for other damage.
    """
    with warnings.catch_warnings():  # of texts with damaged escapes
        warnings.simplefilter("ignore", DeprecationWarning)
        for opcode, place, _ in pickletools.genops(content):
            is_place = opcode.name in ("PUT", "BINPUT", "LONG_BINPUT")
            if is_place and isinstance(place, int) and place > len(content):
                raise ValueError(f"There is no place {place} in {len(content)} bytes.")


class _Note:
    """A name in a pickle, with its arguments and its state. It does nothing."""

    name = ""
    arguments: tuple[_Pickled, ...] = ()
    state: _Pickled = None

    def __new__(cls, *arguments: _Pickled) -> "_Note":
        note = object.__new__(cls)
        note.arguments = arguments
        return note

    def __setstate__(self, state: _Pickled) -> None:
        self.state = state


@final
class _Notes(pickle.Unpickler):
    """An unpickler that takes notes, and calls nothing."""

    def find_class(self, module: str, name: str, /) -> type[_Note]:
        if name not in _NAMES.get(module, ()):
            raise NotATable(f"It asks for {module}.{name}, which no table of pandas needs.")
        return type(name, (_Note,), {"name": name})


def _columns(manager: _Note) -> Iterator[tuple[str, Column]]:
    """The columns of the blocks of a table. The older form has a state, the newer one arguments."""
    if manager.state is not None:
        _, blocks, names, *_ = manager.state
        for block, own in zip(blocks, names, strict=True):
            yield from _named(map(str, _values(own)), block)
        return
    blocks, (axis, _) = manager.arguments
    names = [str(name) for name in _values(axis)]
    for block in blocks:
        values, place, _ = block.arguments
        if isinstance(place, _Note) and place.name == "slice":
            chosen = names[slice(*place.arguments)]
        else:
            chosen = [names[number] for number in _values(place)]
        yield from _named(chosen, values)


def _named(names: Iterable[str], block: _Note) -> Iterator[tuple[str, Column]]:
    """The columns of a block: a table that has them as rows, or an array of texts."""
    table = _read(block)
    if table is not None:
        yield from zip(names, (row.tolist() for row in np.atleast_2d(table)), strict=True)


def _values(note: _Note) -> Column:
    """The elements of an index or an array with one axis."""
    values = _read(note)
    if values is None or values.ndim != 1:
        raise ValueError("an index has no elements")
    return values.tolist()


def _read(note: _Note) -> Shaped[np.ndarray, "..."] | None:
    """The array of a note, or `None` if its elements are neither texts, numbers nor booleans."""
    match note.name:
        case "_new_Index":
            return _read(note.arguments[1]["data"])
        case "ArrowStringArray":
            return _read_texts(note.state["_pa_array"])
        case "__pyx_unpickle_NDArrayBacked":
            return next(_read(x) for x in note.state if x.name in ("_reconstruct", "_frombuffer"))
        case "_frombuffer":
            content, dtype, shape, order = note.arguments
            return _array(content, dtype, shape, order)
        case "_reconstruct":
            _, shape, dtype, is_fortran, content = note.state
            return _array(content, dtype, shape, "F" if is_fortran else "C")
    raise ValueError(f"{note.name} is no array")


def _array(
    content: _Pickled, dtype: _Note, shape: tuple[int, ...], order: Literal["C", "F"]
) -> Shaped[np.ndarray, "..."] | None:
    code = str(dtype.arguments[0])
    if code in ("O", "O8"):
        array = np.empty(len(content), object)
        array[:] = content
        return array.reshape(shape, order=order)
    if not re.fullmatch("[biuf][1248]", code):
        return None
    sign = ">" if dtype.state[1] == ">" else "<"
    return np.frombuffer(_bytes(content), sign + code).reshape(shape, order=order)


def _bytes(content: _Pickled) -> bytes:
    if isinstance(content, _Note) and content.name in ("bytearray", "py_buffer"):
        return _bytes(content.arguments[0]) if content.arguments else b""
    return bytes(content) if isinstance(content, bytes | bytearray) else b""


def _read_texts(note: _Note) -> Shaped[np.ndarray, " rows"]:
    """The texts of an array of Arrow, in chunks or whole: a buffer that marks the existing texts,
    one with the end of each text, and one with all texts. Source: the Arrow columnar format.
    """
    if note.name == "chunked_array":
        return np.concatenate([_read_texts(chunk) for chunk in note.arguments[0]])
    kind, length, _, offset, buffers, *_ = note.arguments[0]
    if kind.arguments[0] not in ("string", "large_string"):
        raise ValueError("an array of Arrow has no texts")
    there, ends, letters = (None if x is None else _bytes(x) for x in buffers)
    bounds = np.frombuffer(ends or b"", "<i8" if kind.arguments[0] == "large_string" else "<i4")
    bounds = bounds[offset : offset + length + 1].tolist()
    texts = np.empty(length, object)
    texts[:] = [(letters or b"")[start:end].decode() for start, end in itertools.pairwise(bounds)]
    if there is not None:
        marks = np.unpackbits(np.frombuffer(there, np.uint8), bitorder="little")
        texts[marks[offset : offset + length] == 0] = None
    return texts


Split = Literal["train", "test"]
Table = Mapping[str, Column]
SPLITS: tuple[Split, ...] = ("train", "test")
_SUFFIXES = (".csv", ".json", ".parquet", ".pickle", ".pkl")


def installed_file(split: Split) -> Path:
    """The file with one half of the games of 2019, in the installed `overcooked-ai`, without
    importing it.

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
    """The columns of a table in a file, in the format that its suffix names. The table of a folder
    has the rows of all its Parquet files.

    **Raises:** `ValueError` for another suffix, or when the file cannot be read; and `ImportError`
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
            f"The file {str(path)!r:.200} must end in {', '.join(_SUFFIXES)}: rename it."
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
        if path.suffix in (".pickle", ".pkl"):
            return read_pickled_table(content)
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError("It is not UTF-8.") from error
        return _from_csv(text) if path.suffix == ".csv" else _from_json(text)
    except NotATable as error:
        raise ValueError(f"The file {str(path)!r:.200} is rejected: {error}") from error
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
