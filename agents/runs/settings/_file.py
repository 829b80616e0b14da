"""Settings files (TOML): the keys are the flags, the tables their prefixes."""

import contextlib
import dataclasses
import difflib
import math
import reprlib
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import tomli_w
from beartype.door import is_bearable

from agents import Hyperparameter
from agents.runs.display._errors import UsageError, reason
from agents.runs.worlds._worlds import WORLDS, AbstractWorldConfig, Kitchen, default_world
from eqgrid import MAX_TEXT_BYTES, read_regular_text

from ._experiment import Experiment, default_settings
from ._limits import check_limits as check_limits
from ._page import SHIPPED, command_of, file_of, is_shipped, page

T = TypeVar("T")
E = TypeVar("E", bound=Experiment)
TUNED = "tuned"
_PAGE = "page"
"""What settings files call the page that wrote them, where it is none of eqgrid's."""
_NOT_IN_FILE = ("config", "curriculum", "out", "overwrite", "resume", "max_hours", "profile")
_NOT_IN_FILE += ("sweep", "sweep_index", "distributed")
_COMMON = {"env", "ppo", "partners", "seed", "total_steps", "num_envs", "eval_every"}
_MAX_SETTINGS_BYTES = 10 * MAX_TEXT_BYTES
"""Of a `config.toml`, which has all settings, and stages in more words than their own file."""


def load(path: Path, experiment: type[E]) -> E:
    """Reads a settings file (TOML): the keys are the flags, the tables their prefixes.

    **Arguments:**

    - `path`: the file.
    - `experiment`: who asks; a file that another algorithm wrote is refused.

    **Raises:** `UsageError` when the file is missing, malformed or another algorithm's, or has an
    unknown key or a value of a wrong type.
    """
    own = experiment.algorithm
    try:
        table = read_toml(path, _MAX_SETTINGS_BYTES)
        written_by = table.get("algorithm", own)
        if written_by != own and written_by not in SHIPPED:
            raise UsageError(
                f"has {reprlib.repr(written_by)} for 'algorithm', which must be {own!r}."
            )
        if written_by != own:
            raise UsageError(
                f"is for {written_by}: use {command_of(page(written_by)).removeprefix('python ')}, "
                f"or take the line 'algorithm' out of it to train with {own}."
            )
        return config_from(table, experiment)
    except UsageError as error:
        raise UsageError(f"The settings file {str(path)!r} {error}") from error


def is_written_by_a_run(path: Path) -> bool:
    """Whether a file is what `dump` writes: every setting of a run, and nothing else. Of a page of
    one's own, whose settings are not known, all those that every experiment has.
    """
    try:
        table = read_toml(path, _MAX_SETTINGS_BYTES)
        if path.is_symlink() or "algorithm" not in table:
            return False
        if _PAGE in table:
            return table.keys() >= _COMMON
        algorithm = table["algorithm"]
        known = algorithm in SHIPPED
        return known and tomllib.loads(dump(config_from(table, page(algorithm)))) == table
    except UsageError:
        return False


def read_toml(path: Path, max_bytes: int = MAX_TEXT_BYTES) -> dict[str, Any]:
    """**Raises:** `UsageError` with half a sentence, to follow the name of the file."""
    try:
        return tomllib.loads(_read_text(path, max_bytes))
    except RecursionError as error:
        raise UsageError("is nested too deeply.") from error
    except ValueError as error:
        digits = "a number has too many digits" if "digits" in str(error) else str(error)
        raise UsageError(f"is no TOML: {digits:.200}.") from error


def config_from(table: dict[str, Any], experiment: type[E]) -> E:
    """The settings in a table, as `dump` writes it.

    **Raises:** `UsageError` with half a sentence for an unknown key or a value of a wrong type.
    """
    about = ("algorithm", _PAGE, *(("config",) if table.get("config") == TUNED else ()))
    own = {key: value for key, value in table.items() if key not in about}
    config = fill(default_settings(experiment, _world_in(own, experiment)), own, "")
    return dataclasses.replace(config, config=Path(TUNED)) if "config" in about else config


def world_from(table: dict[str, Any]) -> AbstractWorldConfig:
    """The settings of the world in such a table, whatever else there is in it.

    **Raises:** as `config_from`.
    """
    own = table.get("env", {})
    default = _world_in(table) or Kitchen()
    return fill(default, own, "env.") if isinstance(own, dict) else default


def page_of(table: Mapping[str, Any]) -> str | None:
    """The name of the page that wrote such a table, where it is none of eqgrid's."""
    return table.get(_PAGE)


def _world_in(
    table: dict[str, Any], experiment: type[Experiment] | None = None
) -> AbstractWorldConfig | None:
    env = table.get("env")
    name = env.get("name") if isinstance(env, dict) else None
    if experiment is not None and name == experiment().env.name:
        return None
    if isinstance(name, str) and ":" in name:
        with _half_a_sentence():
            return default_world(name)
    if name is not None and not (isinstance(name, str) and name in WORLDS):
        raise UsageError(
            f"has {reprlib.repr(name)} for 'env.name', which must be one of "
            f"{', '.join(map(repr, WORLDS))}."
        )
    return None if name is None else default_world(name)


@contextlib.contextmanager
def _half_a_sentence() -> Iterator[None]:
    """Around what says in a whole sentence why a settings file cannot be used."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"cannot be used: {error}") from error


def _read_text(path: Path, max_bytes: int) -> str:
    try:
        return read_regular_text(path, max_bytes)
    except OSError as error:
        raise UsageError(f"cannot be read: {reason(error)}.") from error


def fill(default: T, table: dict[str, Any], prefix: str) -> T:
    """Puts the entries of a table in the place of fields.

    **Arguments:**

    - `default`: a dataclass.
    - `table`: values by the names of fields; a table for a field that is a dataclass.
    - `prefix`: what the table is called in the file, with a dot behind it.

    **Raises:** `UsageError` with half a sentence for an unknown key or a value of a wrong type.
    """
    return _fill(default, table, prefix)


def _fill(default: Any, table: dict[str, Any], prefix: str) -> Any:
    hints = typing.get_type_hints(type(default))
    names = [field.name for field in dataclasses.fields(default) if field.name not in _NOT_IN_FILE]
    changes = {}
    for key, value in table.items():
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1, cutoff=0.6)
            known = f"did you mean {prefix + near[0]!r}?" if near else f"known: {', '.join(names)}."
            raise UsageError(f"has an unknown key {reprlib.repr(prefix + key)}; {known}")
        old = getattr(default, key)
        hint = float if hints[key] == Hyperparameter else hints[key]
        if dataclasses.is_dataclass(old) and isinstance(value, dict):
            changes[key] = _fill(old, value, f"{prefix}{key}.")
            continue
        if hint in (float, float | None) and type(value) is int:
            value = float(value) if abs(value) < 10**300 else math.inf
        if typing.get_origin(hint) is tuple and isinstance(value, list):
            value = tuple(value)
        if not is_bearable(value, hint) or (hint is int and type(value) is bool):
            raise UsageError(
                f"has {reprlib.repr(table[key])} for {prefix + key!r}, which must be "
                f"{_type_name(hint)}."
            )
        changes[key] = value
    return _rebuild(default, changes)


def _rebuild(default: Any, changes: dict[str, Any]) -> Any:
    try:
        return dataclasses.replace(default, **changes)
    except ValueError as error:
        raise UsageError(f"cannot be used: {error}") from error


def _type_name(hint: Any) -> str:
    """What a value of a settings file must be, in words; TOML has none for `None`."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) or hint is AbstractWorldConfig or origin is dict:
        return "a table"
    if origin is Literal:
        return "one of " * (len(args) > 1) + ", ".join(map(repr, args))
    if origin is tuple:
        return f"a list, of which each entry is {_type_name(args[0])}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type_name(arg) for arg in args if arg is not type(None))
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}.get(
        hint, str(hint)
    )


def _in_toml(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of a dataclass that a file can hold: all but none, and functions of a page."""
    return {name: value for name, value in fields if value is not None and not callable(value)}


def dump(config: Experiment) -> str:
    """The text of a settings file with every setting in it, which `load` reads back.

    TOML has no word for "none", so what is none is left out.

    **Raises:** `UsageError` when `load` would refuse that file.
    """
    table = dataclasses.asdict(config, dict_factory=_in_toml)
    for name in _NOT_IN_FILE:
        table.pop(name, None)
    if not config.stage:
        del table["stage"]
    experiment = type(config)
    about = {"algorithm": experiment.algorithm}
    if not is_shipped(experiment):
        about[_PAGE] = file_of(experiment).name
    if config.config == Path(TUNED):
        about["config"] = TUNED
    text = tomli_w.dumps({**about, **table})
    try:
        length = len(text.encode())
    except UnicodeEncodeError as error:
        raise UsageError(
            "The settings cannot be stored, since a name in them is no UTF-8: rename the file."
        ) from error
    if length > _MAX_SETTINGS_BYTES:
        raise UsageError(
            f"The settings fill {length:,} bytes, and a config.toml has at most "
            f"{_MAX_SETTINGS_BYTES:,}: use fewer stages, fewer partners or a smaller layout."
        )
    return text
