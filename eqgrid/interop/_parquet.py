"""Tables as Parquet files, for pandas, polars, DuckDB and other tools."""

import io
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet


def to_parquet(
    table: Mapping[str, Iterable[object]], types: Mapping[str, str] | None = None
) -> bytes:
    """The bytes of a Parquet file, with checksums.

    **Arguments:**

    - `table`: the columns in order, each a sequence of strings, numbers or booleans.
    - `types`: the types of columns by PyArrow's names, such as `"int64"`; the types of other
        columns follow from their values.
    """
    own = {} if types is None else types
    columns = {
        name: pa.array(column, pa.type_for_alias(own[name])) if name in own else column
        for name, column in table.items()
    }
    buffer = io.BytesIO()
    parquet.write_table(pa.table(columns), buffer, compression="zstd", write_page_checksum=True)
    return buffer.getvalue()


def from_parquet(content: bytes) -> dict[str, list[Any]]:
    """The columns of a Parquet file that is given as bytes.

    **Raises:** `ValueError` when it is damaged, or not a Parquet file.
    """
    try:
        file = parquet.ParquetFile(io.BytesIO(content), page_checksum_verification=True)
        return file.read().to_pydict()
    except (pa.ArrowException, OSError) as error:
        raise ValueError("It is damaged, or not a Parquet file.") from error
