"""Reading the tables in the pickles of Overcooked-AI, without running code of a pickle."""

import io
import pickle
from typing import Any, final

import numpy as np

_BROKEN = (
    *(pickle.UnpicklingError, EOFError, AttributeError, LookupError, TypeError, ValueError),
    *(ArithmeticError, MemoryError, AssertionError, RecursionError),
)
"""The exceptions of `pickle` and NumPy for bytes that are no such pickle."""


def read_pickled_table(content: bytes) -> dict[str, list[Any]]:
    """Reads the `DataFrame` in a pickle of the human games of 2019.

    Of the names that a pickle may import and call, those of such a table alone are known, and
    stand for functions in this file, which only keep arrays. Everything else is refused.

    **Arguments:**

    - `content`: the bytes of the file.

    **Returns:** a list of values for each column.

    **Raises:** `ValueError` with a predicate, without a subject, when it is another pickle, or
    damaged.
    """
    try:
        table = _Unpickler(io.BytesIO(content)).load()
        assert isinstance(table, _Table)
        return table.columns()
    except _BROKEN as error:
        raise ValueError(
            "is damaged, or no table that Overcooked-AI has published as a pickle. Save other "
            "tables as CSV, JSON or Parquet."
        ) from error


@final
class _Table:
    """Stands for a `DataFrame` and for its `BlockManager`: it keeps what was pickled."""

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def columns(self) -> dict[str, list[Any]]:
        """The columns by name. A block manager keeps those of one type in one array."""
        blocks = self.state["_data"]
        assert isinstance(blocks, _Table)
        _, values, names, _ = blocks.state
        return {
            str(name): list(column)
            for block, own in zip(values, names, strict=True)
            for name, column in zip(_checked(own), _checked(block).tolist(), strict=True)
        }


def _checked(array: Any) -> np.ndarray:
    assert isinstance(array, np.ndarray)
    return array


class _Name:
    """Stands for a class that is only an argument of the functions below."""


def _index(_: Any, state: dict[str, Any]) -> np.ndarray:
    """Stands for `_new_Index`: the labels of an index."""
    return _checked(state["data"])


def _array(_: Any, __: Any, ___: Any) -> np.ndarray:
    """Stands for `_reconstruct`: an array whose content is set later."""
    return np.empty(0)


_KNOWN: dict[tuple[str, str], Any] = {
    ("pandas.core.frame", "DataFrame"): _Table,
    ("pandas.core.internals.managers", "BlockManager"): _Table,
    ("pandas.core.indexes.base", "_new_Index"): _index,
    ("pandas.core.indexes.base", "Index"): _Name,
    ("pandas.core.indexes.numeric", "Int64Index"): _Name,
    ("numpy.core.multiarray", "_reconstruct"): _array,
    ("numpy", "ndarray"): _Name,
    ("numpy", "dtype"): np.dtype,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in _KNOWN:
            raise pickle.UnpicklingError(f"{module_name}.{global_name} is not known")
        return _KNOWN[module_name, global_name]
