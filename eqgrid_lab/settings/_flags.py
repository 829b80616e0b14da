"""Flags: parsing them with tyro into a dataclass, and checking their ranges."""

import dataclasses
import inspect
import operator
import re
import sys
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

import tyro
import tyro.constructors
from msgspec import Meta

from agents import Hyperparameter
from agents.files import expand_home

from ..base import DIFFERENT, Hint, UsageError, values_of

T = TypeVar("T")
LARGEST_SEED = 2**32 - 1
"""The largest seed of a JAX key."""
Seed: TypeAlias = Annotated[int, Meta(ge=0, le=LARGEST_SEED)]
_FLAG = re.compile(r"-(?![\d.])")  # a negative number is a value
_WORDS = {"gt": "above", "ge": "at least", "le": "at most"}
"""The bounds of a range, by the names of functions in `operator`, in messages."""


def at_home(args: Sequence[str]) -> list[str]:
    """A command line with `expand_home` for every value, as in `--out=~/run`."""
    return ["=".join(map(expand_home, arg.split("=", 1))) for arg in args]


def given(args: Sequence[str]) -> dict[str, str]:
    """The first value of each flag on a command line, by the name of the flag; empty for a switch.
    The last occurrence of a flag counts. Flags may be written with underscores, as in tyro.
    """
    found: dict[str, str] = {}
    name = ""
    for arg in args:
        if _FLAG.match(arg):
            name, _, value = arg.partition("=")
            name = name.replace("_", "-")
            found[name] = value
        elif name and not found[name]:
            found[name] = arg
    return found


_FLAG_TYPES = tyro.constructors.ConstructorRegistry()


@_FLAG_TYPES.primitive_rule
def _hyperparameter(
    info: tyro.constructors.PrimitiveTypeInfo,
) -> tyro.constructors.PrimitiveConstructorSpec | None:
    """Parses a `Hyperparameter` of `PPO` as a number. In Python, it may also be an array."""
    if info.type != Hyperparameter:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="FLOAT",
        instance_from_str=lambda args: float(args[0]),
        is_instance=lambda value: isinstance(value, float),
        str_from_instance=lambda value: [str(value)],
    )


_COMPLETIONS = ("--tyro-print-completion", "--tyro-write-completion")


def cli(default: T, args: Sequence[str], prog: str, description: str) -> T:
    """Parses a command line with `tyro.cli`.

    The last occurrence of a flag counts. Every switch has two flags, such as `--env.shared` and
    `--env.no-shared`.

    **Arguments:**

    - `default`: a dataclass with the defaults of all flags.
    - `args`: the command line.
    - `prog`: the command, for `--help`.
    - `description`: the description of the command, for `--help`.

    **Returns:** a dataclass of the same type. Ranges are not checked: see `check_limits`.

    **Raises:** `SystemExit` with the exit code 2 when the command line is invalid, after tyro has
    printed the reason.
    """
    if args and args[0].startswith(_COMPLETIONS):
        prog = prog.removeprefix("python ")  # otherwise, the shell would complete every `python`
    return tyro.cli(
        type(default),
        prog=prog,
        description=description,
        args=args,
        default=default,
        config=(tyro.conf.SuppressFixed,),
        registry=_FLAG_TYPES,
    )


def read_flags(default: T, args: Sequence[str], command: str) -> T:
    """Parses a command line, and checks the ranges of its settings.

    **Arguments:**

    - `default`: a dataclass with the defaults; the docstring of its class describes the command.
    - `args`: the arguments.
    - `command`: the command, such as `eqgrid report`, or the path of its script.

    **Returns:** a dataclass of the same type.

    **Raises:** `SystemExit` as in `cli`, and `UsageError` when a setting is out of range.
    """
    args = at_home(args)
    name = program(command) if command.endswith(".py") else command
    config = cli(default, args, name, inspect.cleandoc(type(default).__doc__ or ""))
    check_limits(config)
    return config


def program(script: str) -> str:
    """The command that runs a script, as the user called it: `eqgrid ippo`, or `python
    experiments/ippo.py`.

    **Arguments:**

    - `script`: the path of the script.
    """
    called = {Path(word).stem for word in sys.orig_argv[:2]}
    name = Path(script).stem.replace("_", "-")
    return f"eqgrid {name}" if "eqgrid" in called else f"python {script}"


def check_limits(config: object, prefix: str = "--") -> None:
    """Checks that all settings are in their ranges, that lists with a minimum length are not empty,
    and that lists of `DIFFERENT` values contain no value twice.

    Ranges are annotations of fields, such as `Annotated[int, Meta(ge=1, le=1024)]`.

    **Arguments:**

    - `config`: a dataclass, which may have dataclasses as fields.
    - `prefix`: what precedes the names of fields in the names of flags.

    **Raises:** `UsageError` with a message that names the flag.
    """
    for flag, value, hint in _settings(config, prefix):
        ranges = list(_ranges(hint))
        values = value if isinstance(value, tuple) else (value,)
        if not values and any(x.min_length for x in ranges):
            raise UsageError(f"{flag} must not be empty.")
        if DIFFERENT in typing.get_args(hint) and len({*values}) < len(values):
            raise UsageError(f"{flag} has a value twice: give each value once.")
        limits = ranges[0] if ranges else Meta()
        bounds = {k: getattr(limits, k) for k in _WORDS if getattr(limits, k) is not None}
        for x in values:
            is_number = type(x) in (int, float)
            if is_number and not all(getattr(operator, k)(x, bound) for k, bound in bounds.items()):
                what = " and ".join(f"{_WORDS[k]} {bound}" for k, bound in bounds.items())
                raise UsageError(f"{flag} must be {what}, but is {x}.")


def flags(config: object) -> Iterator[tuple[str, object]]:
    """The flag and the value of every setting in a dataclass, including nested ones."""
    return ((flag, value) for flag, value, _ in _settings(config))


def as_given(flag: str, value: object) -> str:
    """A setting as it is written on a command line, such as `--seed 1`, `--log wandb` or
    `--env.no-shared`.
    """
    if isinstance(value, bool):
        before, dot, name = flag.removeprefix("--").rpartition(".")
        return flag if value else f"--{before}{dot}no-{name}"
    words = map(str, value) if isinstance(value, tuple) else [str(value)]
    return " ".join([flag, *words])


def _ranges(hint: Hint) -> Iterator[Meta]:
    """The ranges in an annotation, at any depth."""
    for part in typing.get_args(hint):
        if isinstance(part, Meta):
            yield part
        yield from _ranges(part)


def _settings(config: Any, prefix: str = "--") -> Iterator[tuple[str, object, Hint]]:
    """The flag, the value and the annotation of every setting."""
    hints = typing.get_type_hints(type(config), include_extras=True)
    for name, value in values_of(config).items():
        flag = prefix + name.replace("_", "-")
        if dataclasses.is_dataclass(value):
            yield from _settings(value, f"{flag}.")
        else:
            yield flag, value, hints[name]
