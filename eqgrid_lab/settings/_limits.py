"""Ranges of settings, from annotations of fields such as `Annotated[int, Meta(ge=1, le=1024)]`."""

import dataclasses
import operator
import reprlib
import typing
from collections.abc import Iterator
from typing import Annotated, Any, TypeAlias

import tyro
from msgspec import Meta

from ..base import DIFFERENT, UsageError

LARGEST_SEED = 2**32 - 1
"""The largest seed of a JAX key."""
Seed: TypeAlias = Annotated[int, Meta(ge=0, le=LARGEST_SEED)]
_SMALLEST_FLOAT, _LARGEST_FLOAT = 1.2e-38, 3.4028234e38  # of normal 32-bit floats
_DEFAULTS = {int: Meta(ge=-(2**31), le=2**31 - 1), float: Meta()}
"""The ranges of fields that have no annotated range."""
_WORDS = {"gt": "above", "ge": "at least", "le": "at most"}


def check_limits(config: Any, prefix: str = "--") -> None:
    """Checks the ranges of all settings, that lists with a minimum length are not empty, and that
    lists of `DIFFERENT` values have no value twice.

    **Arguments:**

    - `config`: a dataclass, which may have dataclasses as fields.
    - `prefix`: what precedes the names of fields in the names of flags.

    **Raises:** `UsageError` with a message that names the flag.
    """
    for flag, value, hint in _settings(config, prefix):
        ranges = list(_ranges(hint))
        if value == () and any(x.min_length for x in ranges):
            raise UsageError(f"{flag} must not be empty.")
        if DIFFERENT in typing.get_args(hint):
            _check_different(flag, value)
        for number in value if isinstance(value, tuple) else (value,):
            if type(number) is float:
                _check_float(flag, number)
            if type(number) in _DEFAULTS:
                _check_range(flag, number, ranges[0] if ranges else _DEFAULTS[type(number)])


def _check_different(flag: str, values: tuple[Any, ...]) -> None:
    for i, value in enumerate(values):
        if value in values[:i]:
            raise UsageError(f"{flag} has {reprlib.repr(value)} twice: give each value once.")


def _check_float(flag: str, value: float) -> None:
    if not abs(value) <= _LARGEST_FLOAT:
        raise UsageError(f"{flag} must be a finite number, but is {value:g}.")
    if 0 < abs(value) < _SMALLEST_FLOAT:
        raise UsageError(f"{flag} is too small for a number of 32 bits: {value:g}.")


def _check_range(flag: str, value: float, limits: Meta) -> None:
    bounds = {x: getattr(limits, x) for x in _WORDS if getattr(limits, x) is not None}
    if not all(getattr(operator, x)(value, bound) for x, bound in bounds.items()):
        what = " and ".join(f"{_WORDS[x]} {bound}" for x, bound in bounds.items())
        raise UsageError(f"{flag} must be {what}, but is {reprlib.repr(value)}.")


def flags(config: Any) -> Iterator[tuple[str, Any]]:
    """The flag and the value of every setting in a dataclass, including nested ones."""
    return ((flag, value) for flag, value, _ in _settings(config))


def flags_of_lists(config: Any) -> set[str]:
    """The flags that take several values at once; tyro itself collects those of the others."""
    return {
        flag
        for flag, _, hint in _settings(config)
        if _is_list(hint) and tyro.conf.UseAppendAction not in typing.get_args(hint)
    }


def as_given(flag: str, value: Any) -> str:
    """A setting as a command line gives it, such as `--seed 1`, `--log jsonl wandb` or
    `--env.no-shared`.
    """
    if isinstance(value, bool):
        before, dot, name = flag.removeprefix("--").rpartition(".")
        return flag if value else f"--{before}{dot}no-{name}"
    words = map(str, value) if isinstance(value, tuple) else [str(value)]
    return " ".join([flag, *words])


def _is_list(hint: Any) -> bool:
    """Whether an annotation is a tuple of any length, or may be one."""
    if typing.get_origin(hint) is tuple:
        return Ellipsis in typing.get_args(hint)
    return any(map(_is_list, typing.get_args(hint)))


def _ranges(hint: Any) -> Iterator[Meta]:
    """The ranges in an annotation, at any depth."""
    for part in typing.get_args(hint):
        if isinstance(part, Meta):
            yield part
        yield from _ranges(part)


def _settings(config: Any, prefix: str = "--") -> Iterator[tuple[str, Any, Any]]:
    """The flag, the value and the annotation of every setting."""
    hints = typing.get_type_hints(type(config), include_extras=True)
    for field in dataclasses.fields(config):
        name, value = field.name.replace("_", "-"), getattr(config, field.name)
        name = {"network-settings": "network"}.get(name, name)
        if dataclasses.is_dataclass(value):
            yield from _settings(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value, hints[field.name]
