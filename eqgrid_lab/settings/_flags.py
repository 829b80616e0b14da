"""Parsing flags with tyro into a dataclass, with errors of one sentence."""

import contextlib
import inspect
import io
import re
import typing
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

import tyro
import tyro.constructors

from agents import Hyperparameter
from agents.files import expand_home

from ..base import UsageError
from ._limits import check_limits, flags_of_lists
from ._page import program

T = TypeVar("T")


def at_home(args: Sequence[str]) -> list[str]:
    """A command line with `expand_home` for every value, as in `--out=~/run`."""
    return ["=".join(map(expand_home, arg.split("=", 1))) for arg in args]


def value_after(flag: str, args: Sequence[str]) -> str | None:
    """The value of a flag on a command line, or `None` if the flag is not given."""
    values = [values[0] for name, values, _ in _groups(args) if name == flag and values]
    return values[-1] if values else None  # the last occurrence counts, as with all flags


def values_after(flag: str, args: Sequence[str]) -> tuple[str, ...]:
    """The values of a flag that takes several, in all its occurrences; empty if not given."""
    return tuple(x for name, values, _ in _groups(args) if name == flag for x in values)


def _groups(args: Sequence[str]) -> list[tuple[str, list[str], list[str]]]:
    """The flags of a command line, each with its values, and with its words as they were given.

    The words before the first flag come first, with an empty name. As in tyro, flags may have
    underscores.
    """
    groups: list[tuple[str, list[str], list[str]]] = [("", [], [])]
    for arg in args:
        if _FLAG.match(arg) and groups[-1][0] != "--":
            name, equals, value = arg.partition("=")
            groups.append((name.replace("_", "-"), [value] if equals else [], [arg]))
        else:
            groups[-1][1].append(arg)
            groups[-1][2].append(arg)
    return groups


_FLAG = re.compile(r"-(?![\d.])")  # a negative number is a value


def _joined(args: Sequence[str], lists: Collection[str]) -> list[str]:
    """A command line in which every flag with several values occurs at most once, with the values
    of all its occurrences.

    **Arguments:**

    - `args`: the command line.
    - `lists`: the flags that take several values.
    """
    joined, done = list[str](), set[str]()
    for name, _, words in _groups(args):
        if name not in lists:
            joined += words
        elif name not in done:
            joined += [name, *values_after(name, args)]
            done.add(name)
    return joined


_FLAG_TYPES = tyro.constructors.ConstructorRegistry()


@_FLAG_TYPES.primitive_rule
def _hyperparameter(
    info: tyro.constructors.PrimitiveTypeInfo,
) -> tyro.constructors.PrimitiveConstructorSpec | None:
    """Reads a setting of `PPO` that may be an array in Python as a number."""
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
    """Parses a command line with `tyro.cli`, whose error box becomes one sentence.

    The last occurrence of a flag counts. A flag with several values takes those of all its
    occurrences, and every switch has two flags, such as `--env.shared` and `--env.no-shared`.

    **Arguments:**

    - `default`: a dataclass with the defaults of all flags.
    - `args`: the command line.
    - `prog`: the command, for `--help`.
    - `description`: the description of the command, for `--help`.

    **Returns:** a dataclass of the same type. Ranges are not checked: see `check_limits`.

    **Raises:** `UsageError` when the command line is invalid.
    """
    _check_paths(type(default), args)
    if args and args[0].startswith(_COMPLETIONS):
        prog = prog.removeprefix("python ")  # or the shell would complete every `python`
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(
                type(default),
                prog=prog,
                description=description,
                args=_joined(args, flags_of_lists(default)),
                default=default,
                config=(tyro.conf.SuppressFixed,),
                registry=_FLAG_TYPES,
            )
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UsageError(_one_sentence(said.getvalue())) from None


def _check_paths(kind: type, args: Sequence[str]) -> None:
    """Refuses empty paths, as from an unset shell variable, which would mean the current folder.

    **Raises:** `UsageError` when the path of a flag is empty.
    """
    for name, hint in typing.get_type_hints(kind).items():
        flag = "--" + name.replace("_", "-")
        if Path in (hint, *typing.get_args(hint)) and value_after(flag, args) == "":
            raise UsageError(f"{flag} is empty: name a path, or leave it out.")


def _must_be(found: re.Match[str]) -> str:
    """The sentence for a flag with values of several types, such as `{None}|FLOAT`."""
    flag, kinds, value = found.groups()
    kinds = sorted(kinds.split("|"), key=lambda kind: kind == "{None}")  # None comes last
    words = [_KINDS.get(kind, kind.strip("{}")) for kind in kinds]
    return f"{flag} must be {' or '.join(words)}, but is {value}"


_KINDS = {"INT": "a whole number", "FLOAT": "a number"}
_PLAIN_WORDS: tuple[tuple[str, Any], ...] = (
    (r"Error parsing (\S+): invalid literal for int.*: ", r"\1 must be a whole number, but is "),
    (r"Error parsing (\S+): could not convert .*: ", r"\1 must be a number, but is "),
    (r"Error parsing (\S+): Exceeds the limit .*", r"\1 has too many digits"),
    (r"Error parsing (\S+): no type matching (\S+) could .* from \[(.*?)\]\. .*", _must_be),
    (r"Error parsing ppo: (\w+)", lambda found: "--ppo." + found[1].replace("_", "-")),
    (r"invalid choice (.*) for argument '(\S+)'.*\((.*),\)", r"\2 must be \3, but is \1"),
    (r"invalid choice (.*) for argument '(\S+)'.*\((.*)\)", r"\2 must be one of \3, but is \1"),
    (r"Missing value for argument '(\S+)'.*", r"\1 needs a value"),
)
"""Patterns of messages of Python and tyro, and their replacements."""


def _one_sentence(box: str) -> str:
    # The box is drawn with box characters or, on an ASCII terminal, with dashes and bars.
    lines = [line.strip(" │╭╮╰╯|+") for line in box.splitlines()]
    parts = re.split(r" ?[─-]{5,} ?", " ".join(line for line in lines[1:] if line))
    parts = [part for part in parts if part]
    sentence = parts[0].strip().rstrip(".")
    for pattern, plain in _PLAIN_WORDS:
        sentence, found = re.subn(pattern, plain, sentence)
        if found:
            return f"{sentence}."
    if len(parts) > 1 and parts[1].startswith("Perhaps"):
        near = dict.fromkeys(re.findall(r"--[\w.-]+", parts[1]))
        return f"{sentence}; did you mean {' or '.join(near)}?"
    return f"{sentence}; --help lists all flags."


def read_flags(default: T, args: Sequence[str], page: str) -> T:
    """Parses the command line of a page, and checks the ranges of its settings.

    **Arguments:**

    - `default`: a dataclass with the defaults; the docstring of its class describes the page.
    - `args`: the command line.
    - `page`: the path of the page, such as `experiments/report.py`.

    **Returns:** a dataclass of the same type.

    **Raises:** `UsageError` when a setting is unknown, malformed or out of range.
    """
    args = at_home(args)
    config = cli(default, args, program(page), inspect.cleandoc(type(default).__doc__ or ""))
    check_limits(config)
    return config
