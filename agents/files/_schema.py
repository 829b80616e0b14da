"""What others have written into a file is checked against a type before it is used."""

from typing import Any

import msgspec


def check_schema(value: Any, kind: Any) -> Any:
    """Reads a value that JSON can hold as a type, such as a `msgspec.Struct` or a `TypedDict`.

    **Raises:** `ValueError` with half a sentence that names the entry that does not fit.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        says = str(error).partition("\n")[0]
        raise ValueError(f"its metadata do not fit: {says:.200}") from error
