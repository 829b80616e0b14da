"""Reads tables of recorded games from files, also from the files of an installed Overcooked-AI.

Some tables are pickles of pandas. A pickle is a program that names functions and calls them. This
module reads it without pandas and without running any of its code: it accepts only the names that
tables of pandas use, records the arguments of each call in a `_Note` instead of making the call,
and then computes the columns from the notes. Source of the names: the pickles of overcooked-ai
1.1.0, of Overcooked-AI's repository, and of pandas 3.1.
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

Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = ("train", "test")

Column: TypeAlias = list[Any]
"""The texts, numbers or booleans in a column of a table."""

Table = Mapping[str, Column]
"""The columns of a table by name."""

_Pickled: TypeAlias = Any  # an object in a pickle, which may be of any kind
_SUFFIXES = (".csv", ".json", ".parquet", ".pickle", ".pkl")


def installed_file(split: Split) -> Path:
    """The path of the file with one half of the games of 2019 in the installed `overcooked-ai`. The
    package is not imported.

    **Raises:** `ImportError` when the package is not installed, and `ValueError` when it has no
    such file.
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


_ALLOWED_NAMES = {
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

# The exceptions that damaged pickles raise.
_DAMAGED = (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError)
_DAMAGED += (LookupError, OverflowError, MemoryError)


class NotATable(ValueError):
    """The error for a pickle that is not a table of pandas; a damaged file raises `ValueError`."""


def read_pickled_table(content: bytes) -> dict[str, Column]:
    """The columns of a `DataFrame` that was written with `to_pickle`, in protocol 4 or 5.

    **Arguments:**

    - `content`: the content of the file.

    **Returns:** a list of texts, numbers or booleans for each column; columns of dates and of other
    types are left out.

    **Raises:** `ValueError` when the content is damaged, and its subclass `NotATable` when the
    content is not a table, or names a function that tables do not use.
    """
    try:
        _check_memo(content)
        frame = _NoteUnpickler(io.BytesIO(content)).load()
        if not (isinstance(frame, _Note) and frame.name == "DataFrame"):
            raise NotATable("It has no table of pandas.")
        manager = frame.state.get("_mgr") or frame.state["_data"]  # the name of older versions
        return dict(_columns(manager))
    except NotATable:
        raise
    except _DAMAGED as error:
        raise ValueError("It is damaged, or of an unknown version of pandas.") from error


def _check_memo(content: bytes) -> None:
    """Checks the indices of the memo, in which a pickle stores objects for later use.

    The unpickler allocates memory for all indices up to the largest one, so a few damaged bytes
    could take all memory.

    **Raises:** `ValueError` for an index that no pickle of this size needs, and for other damage.
    """
    with warnings.catch_warnings():  # damaged escapes in texts cause a DeprecationWarning
        warnings.simplefilter("ignore", DeprecationWarning)
        for opcode, index, _ in pickletools.genops(content):
            is_store = opcode.name in ("PUT", "BINPUT", "LONG_BINPUT")
            if is_store and isinstance(index, int) and index > len(content):
                raise ValueError(f"There is no index {index} in {len(content)} bytes.")


class _Note:
    """A call in a pickle that was not made: the name of the function or class, the arguments, and
    the state that the pickle sets afterwards.
    """

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
class _NoteUnpickler(pickle.Unpickler):
    """An unpickler whose objects are notes. It calls no function that a pickle names."""

    def find_class(self, module: str, name: str, /) -> type[_Note]:
        if name not in _ALLOWED_NAMES.get(module, ()):
            raise NotATable(f"It asks for {module}.{name}, which no table of pandas needs.")
        return type(name, (_Note,), {"name": name})


def _columns(manager: _Note) -> Iterator[tuple[str, Column]]:
    """The columns of a table, from the note of its `BlockManager`, by name.

    Older versions of pandas pickle the blocks in the state, newer versions in the arguments.
    """
    if manager.state is not None:
        _, blocks, names_of_blocks, *_ = manager.state
        for block, names in zip(blocks, names_of_blocks, strict=True):
            yield from _named_columns(map(str, _elements(names)), block)
        return
    blocks, (axis, _) = manager.arguments
    names = [str(name) for name in _elements(axis)]
    for block in blocks:
        values, positions, _ = block.arguments
        if isinstance(positions, _Note) and positions.name == "slice":
            own_names = names[slice(*positions.arguments)]
        else:
            own_names = [names[position] for position in _elements(positions)]
        yield from _named_columns(own_names, values)


def _named_columns(names: Iterable[str], block: _Note) -> Iterator[tuple[str, Column]]:
    """The columns of a block, whose array has one row for each column. The array of a single
    column may have one axis.
    """
    array = _read_array(block)
    if array is not None:
        yield from zip(names, (row.tolist() for row in np.atleast_2d(array)), strict=True)


def _elements(note: _Note) -> Column:
    """The elements of an index or an array with one axis."""
    array = _read_array(note)
    if array is None or array.ndim != 1:
        raise ValueError("an index has no elements")
    return array.tolist()


def _read_array(note: _Note) -> Shaped[np.ndarray, "..."] | None:
    """The array of a note, or `None` if its elements are neither texts, numbers nor booleans."""
    match note.name:
        case "_new_Index":
            return _read_array(note.arguments[1]["data"])
        case "ArrowStringArray":
            return _read_texts(note.state["_pa_array"])
        case "__pyx_unpickle_NDArrayBacked":
            arrays = (x for x in note.state if x.name in ("_reconstruct", "_frombuffer"))
            return _read_array(next(arrays))
        case "_frombuffer":
            content, dtype, shape, order = note.arguments
            return _build_array(content, dtype, shape, order)
        case "_reconstruct":
            _, shape, dtype, is_fortran, content = note.state
            return _build_array(content, dtype, shape, "F" if is_fortran else "C")
    raise ValueError(f"{note.name} is no array")


def _build_array(
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
    """The bytes of a buffer, which may be inside a note; none for anything else."""
    if isinstance(content, _Note) and content.name in ("bytearray", "py_buffer"):
        return _bytes(content.arguments[0]) if content.arguments else b""
    return bytes(content) if isinstance(content, bytes | bytearray) else b""


def _read_texts(note: _Note) -> Shaped[np.ndarray, " rows"]:
    """The texts of an Arrow array, which may be divided into chunks.

    It has three buffers: a bitmap of the texts that are not null, the offsets at which texts begin
    and end, and the characters of all texts. Source: the Arrow columnar format.
    """
    if note.name == "chunked_array":
        return np.concatenate([_read_texts(chunk) for chunk in note.arguments[0]])
    kind, length, _, offset, buffers, *_ = note.arguments[0]
    if kind.arguments[0] not in ("string", "large_string"):
        raise ValueError("an array of Arrow has no texts")
    bitmap, offsets, characters = (None if x is None else _bytes(x) for x in buffers)
    bounds = np.frombuffer(offsets or b"", "<i8" if kind.arguments[0] == "large_string" else "<i4")
    bounds = bounds[offset : offset + length + 1].tolist()
    texts = np.empty(length, object)
    texts[:] = [
        (characters or b"")[start:end].decode() for start, end in itertools.pairwise(bounds)
    ]
    if bitmap is not None:
        is_valid = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
        texts[is_valid[offset : offset + length] == 0] = None
    return texts
