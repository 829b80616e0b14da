"""Conversion of tables to and from Parquet files, which pandas, polars and DuckDB can read."""

import io
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet


def to_parquet(
    table: Mapping[str, Iterable[object]], types: Mapping[str, str] | None = None
) -> bytes:
    """Converts a table to the bytes of a Parquet file with checksums.

    **Arguments:**

    - `table`: the columns in order. Each is a sequence of strings, numbers or booleans.
    - `types`: the types of some columns, by PyArrow's names such as `"int64"`. PyArrow infers the
        types of all other columns from their values.
    """
    types = {} if types is None else types
    columns = {
        name: pa.array(column, pa.type_for_alias(types[name])) if name in types else column
        for name, column in table.items()
    }
    buffer = io.BytesIO()
    parquet.write_table(pa.table(columns), buffer, compression="zstd", write_page_checksum=True)
    return buffer.getvalue()


def from_parquet(content: bytes) -> dict[str, list[Any]]:
    """Converts the bytes of a Parquet file to a table.

    **Raises:** `ValueError` when the file is damaged, or not a Parquet file.
    """
    try:
        file = parquet.ParquetFile(io.BytesIO(content), page_checksum_verification=True)
        return file.read().to_pydict()
    except (pa.ArrowException, OSError) as error:
        raise ValueError("It is damaged, or not a Parquet file.") from error
