"""Dataclasses as tables, the form in which TOML and JSON files store them."""

import dataclasses
import reprlib
import tomllib
import typing
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from agents import Hyperparameter
from agents.files import expand_home
from eqgrid import MAX_TEXT_BYTES, read_regular_text

from ._errors import UsageError, reason
from ._named import Table

T = TypeVar("T")


def values_of(config: Any) -> dict[str, object]:
    """The settings in a dataclass, by name.

    Functions and Modules that are parts of a learner, such as `PPO.loss`, are left out: they have
    no flags, and no file stores them.
    """
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return {name: value for name, value in values.items() if not callable(value)}


def table_of(value: Any) -> Any:
    """A value with tables in place of dataclasses, lists in place of tuples, and without `None`,
    which TOML cannot represent.
    """
    if dataclasses.is_dataclass(value):
        return {name: table_of(x) for name, x in values_of(value).items() if x is not None}
    return [table_of(x) for x in value] if isinstance(value, tuple | list) else value


def fill(default: T, table: Table, prefix: str = "", *, without: Collection[str] = ()) -> T:
    """Replaces fields of a dataclass by the entries of a table.

    **Arguments:**

    - `default`: the dataclass.
    - `table`: values by the names of fields; a table for a field that is a dataclass.
    - `prefix`: the name of the table in the file, followed by a dot; empty for the whole file.
    - `without`: fields that the table must not have.

    **Raises:** `UsageError` with a predicate, to which the caller prepends the name of the file,
    for an unknown key or a value of a wrong type or out of its range.
    """
    config: Any = default
    hints = typing.get_type_hints(type(config), include_extras=True)
    names = [name for name in values_of(config) if name not in without]
    changes: Table = {}
    for key, value in table.items():
        if key not in names:
            raise UsageError(
                f"has an unknown key {reprlib.repr(prefix + key)}; known: {', '.join(names)}."
            )
        old = getattr(config, key)
        nested = dataclasses.is_dataclass(old)
        hint = dict if nested else float if hints[key] == Hyperparameter else hints[key]
        try:
            changes[key] = msgspec.convert(value, hint)
        except (msgspec.ValidationError, TypeError, UnicodeEncodeError) as error:
            raise UsageError(f"has a wrong value for {prefix + key!r}: {error}.") from error
        if nested:
            changes[key] = fill(old, changes[key], f"{prefix}{key}.")
    try:
        return dataclasses.replace(config, **changes)
    except ValueError as error:
        raise UsageError(f"cannot be used: {error}") from error


def read_toml(path: Path, max_bytes: int = MAX_TEXT_BYTES) -> Table:
    """Reads a TOML file of limited size. A `~` at the start of a text becomes the home folder.

    **Arguments:**

    - `path`, `max_bytes`: the file, and its maximum size.

    **Raises:** `UsageError` with a predicate, to which the caller prepends the name of the file.
    """
    try:
        return _at_home(tomllib.loads(read_regular_text(path, max_bytes)))
    except OSError as error:
        raise UsageError(f"cannot be read: {reason(error)}.") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"is not valid TOML: {error!s:.200}.") from error


def _at_home(value: object) -> Any:
    """Applies `expand_home` to every text in a value of TOML."""
    if isinstance(value, dict):
        return {key: _at_home(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_at_home(inner) for inner in value]
    return expand_home(value) if isinstance(value, str) else value
