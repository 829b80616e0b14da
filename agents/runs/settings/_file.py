"""Settings files (TOML), whose keys are flags: `gamma` in the table `ppo` is `--ppo.gamma`."""

import dataclasses
import difflib
import reprlib
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import tomli_w

from agents import Hyperparameter
from agents.runs._named import NOTHING_NAMED, Named, check_named, is_own
from agents.runs.display._errors import UsageError, as_usage_error, reason
from agents.runs.worlds._foreign import LIBRARIES
from agents.runs.worlds._worlds import WORLDS, AbstractWorldConfig, default_world
from eqgrid import MAX_TEXT_BYTES, read_regular_text

from ._experiment import Experiment, default_settings
from ._page import SHIPPED, command_of, file_of, is_shipped, page

T = TypeVar("T")
E = TypeVar("E", bound=Experiment)
TUNED = "tuned"
_PAGE = "page"
"""The key for the name of the page that wrote a settings file, if it is not one of eqgrid's."""
_NOT_IN_FILE = ("config", "curriculum", "out", "overwrite", "resume", "max_hours", "profile")
_NOT_IN_FILE += ("sweep", "sweep_index", "distributed")
_COMMON = {"env", "ppo", "partners", "seed", "total_steps", "num_envs", "eval_every"}
_MAX_SETTINGS_BYTES = 10 * MAX_TEXT_BYTES
"""The maximum size of a `config.toml`, which has all settings and all stages of a curriculum."""


def load(path: Path, experiment: type[E], named: Named = NOTHING_NAMED) -> E:
    """Reads a settings file (TOML).

    **Arguments:**

    - `path`: the file.
    - `experiment`: the class that a page defines. A file of another algorithm is refused.
    - `named`: what the command line names. A file that names other code of the user is refused.

    **Returns:** the settings of the file, with defaults for all others.

    **Raises:** `UsageError` when the file is missing, malformed or of another algorithm, or has an
    unknown key or a value of a wrong type.
    """
    own = experiment.algorithm
    try:
        table = read_toml(path, _MAX_SETTINGS_BYTES)
        written_by = table.get("algorithm", own)
        if written_by != own and written_by not in SHIPPED:
            raise _wrong("algorithm", written_by, repr(own))
        if written_by != own:
            raise UsageError(
                f"is for {written_by}: use {command_of(page(written_by)).removeprefix('python ')}, "
                f"or take the line 'algorithm' out of it to train with {own}."
            )
        return config_from(table, experiment, named)
    except UsageError as error:
        raise UsageError(f"The settings file {str(path)!r} {error}") from error


def is_written_by_a_run(path: Path) -> bool:
    """Whether `dump` has written a file: it has all settings of its algorithm, and no others.

    The settings of a custom page or of a world of the user are not known here, so only some common
    ones are checked.
    """
    try:
        table = read_toml(path, _MAX_SETTINGS_BYTES)
        if path.is_symlink() or "algorithm" not in table:
            return False
        if _PAGE in table or _own_parts(table):
            return table.keys() >= _COMMON
        algorithm = table["algorithm"]
        known = algorithm in SHIPPED
        return known and tomllib.loads(dump(config_from(table, page(algorithm)))) == table
    except UsageError:
        return False


def read_toml(path: Path, max_bytes: int = MAX_TEXT_BYTES) -> dict[str, Any]:
    """Reads a TOML file of limited size.

    **Arguments:**

    - `path`, `max_bytes`: the file, and its maximum size.

    **Raises:** `UsageError` with a predicate, to which the caller prepends the name of the file.
    """
    try:
        return tomllib.loads(read_regular_text(path, max_bytes))
    except OSError as error:
        raise UsageError(f"cannot be read: {reason(error)}.") from error
    except RecursionError as error:
        raise UsageError("is nested too deeply.") from error
    except ValueError as error:
        digits = "a number has too many digits" if "digits" in str(error) else str(error)
        raise UsageError(f"is no TOML: {digits:.200}.") from error


def config_from(table: dict[str, Any], experiment: type[E], named: Named = NOTHING_NAMED) -> E:
    """The settings in a table, as `dump` writes it.

    **Arguments:**

    - `table`: the content of a settings file.
    - `experiment`: the class that a page defines.
    - `named`: what the command line names.

    **Raises:** `UsageError` with a predicate, to which the caller prepends the name of the file,
    for an unknown key or a value of a wrong type, and `NotNamed`, which is one, for code of the
    user that the command line does not name.
    """
    own = {key: value for key, value in table.items() if key not in ("algorithm", _PAGE)}
    tuned = own.get("config") == TUNED
    if tuned:
        del own["config"]
    world = _world_in(own, experiment().env, named)
    config = fill(default_settings(experiment, world), own, "")
    return dataclasses.replace(config, config=Path(TUNED)) if tuned else config


def world_from(
    table: dict[str, Any], experiment: type[Experiment], named: Named = NOTHING_NAMED
) -> AbstractWorldConfig:
    """The settings of the world in the content of a settings file; the other tables are ignored.

    **Arguments:** as in `config_from`.

    **Raises:** `UsageError` as in `config_from`.
    """
    own = table.get("env", {})
    default = _world_in(table, experiment().env, named)
    return fill(default, own, "env.") if isinstance(own, dict) else default


def world_name_in(table: Mapping[str, Any]) -> str | None:
    """The name of the world in the content of a settings file, if it has one."""
    env = table.get("env")
    name = env.get("name") if isinstance(env, Mapping) else None
    return name if isinstance(name, str) else None


def _own_parts(table: Mapping[str, Any]) -> dict[str, str]:
    """The code of the user in the content of a settings file, by the flags that name it."""
    name = world_name_in(table)
    own = is_own(name) and str(name).partition(":")[0] not in LIBRARIES
    return {"--env.name": str(name)} if own else {}


def own_flags(config: Experiment) -> str:
    """The flags with which a command line names the code of the user in the settings of a run,
    each with a leading space; empty if there is none.
    """
    own = _own_parts(tomllib.loads(dump(config)))
    return "".join(f" {flag} {name}" for flag, name in own.items())


def page_of(table: Mapping[str, Any]) -> str | None:
    """The name of the page that wrote a settings file; `None` for the pages of eqgrid."""
    return table.get(_PAGE)


def _world_in(
    table: dict[str, Any], default: AbstractWorldConfig, named: Named
) -> AbstractWorldConfig:
    """The default settings of the world that a table names, or `default` if it names none."""
    env = table.get("env")
    name = env.get("name", default.name) if isinstance(env, dict) else default.name
    if name == default.name:
        return default
    if not isinstance(name, str) or (":" not in name and name not in WORLDS):
        raise _wrong("env.name", name, f"one of {', '.join(map(repr, WORLDS))}")
    if "--env.name" in _own_parts(table):
        check_named(name, named.worlds, "world", "--env.name")
    with as_usage_error("cannot be used: ", UsageError):
        return default_world(name, named)


def _wrong(key: str, value: object, what: str) -> UsageError:
    """The error for an invalid value in a settings file, as a predicate without a subject."""
    return UsageError(f"has {reprlib.repr(value)} for {key!r}, which must be {what}.")


def fill(default: T, table: dict[str, Any], prefix: str) -> T:
    """Replaces fields of a dataclass by the entries of a table.

    **Arguments:**

    - `default`: the dataclass.
    - `table`: values by the names of fields; a table for a field that is a dataclass.
    - `prefix`: the name of the table in the file followed by a dot, or empty for the whole file.

    **Raises:** `UsageError` with a predicate, to which the caller prepends the name of the file,
    for an unknown key or a value of a wrong type.
    """
    config: Any = default
    hints = typing.get_type_hints(type(config))
    fields = [field.name for field in dataclasses.fields(config)]
    names = [x for x in fields if x not in _NOT_IN_FILE and not callable(getattr(config, x))]
    changes: dict[str, Any] = {}
    for key, value in table.items():
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1, cutoff=0.6)
            known = f"did you mean {prefix + near[0]!r}?" if near else f"known: {', '.join(names)}."
            raise UsageError(f"has an unknown key {reprlib.repr(prefix + key)}; {known}")
        old = getattr(config, key)
        nested = dataclasses.is_dataclass(old)
        hint = dict if nested else float if hints[key] == Hyperparameter else hints[key]
        try:
            changes[key] = msgspec.convert(value, hint)
        except (msgspec.ValidationError, TypeError, UnicodeEncodeError) as error:
            raise _wrong(prefix + key, value, _type_name(hint)) from error
        if nested:
            changes[key] = fill(old, changes[key], f"{prefix}{key}.")
    try:
        return dataclasses.replace(config, **changes)
    except ValueError as error:
        raise UsageError(f"cannot be used: {error}") from error


def _type_name(hint: Any) -> str:
    """The name of a type in an error message, without `None`, which TOML does not have."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return "one of " * (len(args) > 1) + ", ".join(map(repr, args))
    if origin is tuple:
        return f"a list, of which each entry is {_type_name(args[0])}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type_name(arg) for arg in args if arg is not type(None))
    return _TYPE_NAMES.get(origin or hint, str(hint))


_TYPE_NAMES: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    dict: "a table",
}


def _in_toml(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of a dataclass that TOML can represent: all but `None` and functions."""
    return {name: value for name, value in fields if value is not None and not callable(value)}


def dump(config: Experiment) -> str:
    """The text of a settings file with all settings, which `load` reads back.

    Settings that are `None` are left out, since TOML cannot represent it, and so are those of one
    process, such as `--out` and `--resume`.

    **Raises:** `UsageError` when `load` would refuse the file.
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
