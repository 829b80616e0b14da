"""Converts settings between dataclasses and tables, the form in which settings files (TOML) and
policy files store them.

Keys are flags: `gamma` in the table `ppo` is `--ppo.gamma`.
"""

import dataclasses
import reprlib
import shlex
import tomllib
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import tomli_w

from agents import Hyperparameter
from agents.files import expand_home
from eqgrid import MAX_TEXT_BYTES, read_regular_text

from ..base import (
    NotNamed,
    Table,
    UsageError,
    as_usage_error,
    is_own,
    reason,
    warn,
)
from ..worlds import LIBRARIES, WORLDS, WorldSettings, world_settings
from ._flags import values_of
from ._policy_settings import PolicySettings, default_settings
from ._script import SHIPPED, command_of, is_shipped, name_of, shipped_script

T = TypeVar("T")
P = TypeVar("P", bound=PolicySettings)

NOT_IN_FILE = ("config", "out", "resume", "resume_changed")
"""Settings that are not stored, because they concern one call of the command."""
_MAX_SETTINGS_BYTES = 10 * MAX_TEXT_BYTES
"""The maximum size of a `config.toml`, which may contain layouts."""
TUNED = "tuned"
"""The value of `--config` for the tuned settings of a kitchen."""
SCRIPT = "script"
"""The key for the name of the user's own script that wrote a settings file."""


def load(
    path: Path,
    experiment: type[P],
    own_world: str | None = None,
    world: str | None = None,
) -> P:
    """Reads a settings file (TOML).

    **Arguments:**

    - `path`: the file.
    - `experiment`: the class that a script defines. A file of another algorithm raises an error.
    - `own_world`: as in `config_from`.
    - `world`: the world to use instead of the file's world, if any. The file's settings for its own
        world are then ignored, with a warning, unless both worlds are of other libraries.

    **Returns:** the settings of the file, with defaults for all others.

    **Raises:** `UsageError` when the file is missing, malformed or of another algorithm, or has an
    unknown key or a value of a wrong type, and when there is no such world.
    """
    algorithm = experiment.algorithm
    where = f"The settings file {str(path)!r}"
    if world is not None and ":" not in world:
        world_settings(world)  # raises here, since errors inside the `try` are about the file
    try:
        table = read_toml(path, _MAX_SETTINGS_BYTES)
        written_by = table.get("algorithm", algorithm)
        if written_by != algorithm and written_by not in SHIPPED:
            raise UsageError(f"is for the algorithm {written_by!r:.60}, not for {algorithm}.")
        if written_by != algorithm:
            command = command_of(shipped_script(written_by)).removeprefix("python ")
            raise UsageError(
                f"is for {written_by}: use {command}, or remove the line 'algorithm' from it to "
                f"train with {algorithm}."
            )
        world_in_file = world_name_in(table) or experiment().env.name
        replaced = world not in (None, world_in_file)
        # All worlds of other libraries have the same fields, so their settings are kept.
        foreign = all(str(x).partition(":")[0] in LIBRARIES for x in (world, world_in_file))
        kept = table.get("env", {}) if foreign else {}
        ignored = replaced and "env" in table and not kept
        if replaced:
            table = {**table, "env": {**kept, "name": world}}
        config = config_from(table, experiment, own_world)
        if ignored:
            warn(
                f"{where} has settings of the world {world_in_file!r:.60}, which are ignored, "
                f"since --env.name is {world!r:.60}."
            )
        return config
    except UsageError as error:
        raise UsageError(f"{where} {error}") from error


def config_from(table: Table, experiment: type[P], own_world: str | None = None) -> P:
    """Reads the settings from a table that `to_table` has returned.

    **Arguments:**

    - `table`: the content of a settings file.
    - `experiment`: the class that a script defines.
    - `own_world`: the world that the command line names, if it is the user's own. No other world
        of the user is imported.

    **Raises:** `UsageError` with a predicate, to which the caller prepends the name of the file,
    for an unknown key or a value of a wrong type, and its subclass `NotNamed` when the table has a
    world of the user that the command line does not name.
    """
    own = {key: x for key, x in table.items() if key not in ("algorithm", SCRIPT)}
    tuned = own.get("config") == TUNED
    if tuned:
        del own["config"]
    world = _world_in(own, experiment().env, own_world)
    config = fill(default_settings(experiment, world), own, "")
    return dataclasses.replace(config, config=Path(TUNED)) if tuned else config


def config_of_policy(table: Table, experiment: type[P], own_world: str | None = None) -> P:
    """Reads the settings in a policy file. Its partners of training are left out, since the policy
    acts without them, and so are settings that the script no longer has.

    **Arguments** and **Raises:** as in `config_from`.
    """
    names = {"algorithm", SCRIPT, *(field.name for field in dataclasses.fields(experiment))}
    acting = {key: x for key, x in table.items() if key in names - {"partners"}}
    return config_from(acting, experiment, own_world)


def world_from(
    table: Table, experiment: type[PolicySettings], own_world: str | None = None
) -> WorldSettings:
    """Reads only the settings of the world from the content of a settings file.

    **Arguments:** as in `config_from`.

    **Raises:** `UsageError` as in `config_from`.
    """
    own = table.get("env", {})
    default = _world_in(table, experiment().env, own_world)
    return fill(default, own, "env.") if isinstance(own, dict) else default


def world_name_in(table: Mapping[str, object]) -> str | None:
    """The name of the world in the content of a settings file, if it has one."""
    env = table.get("env")
    name = env.get("name") if isinstance(env, Mapping) else None
    return name if isinstance(name, str) else None


def own_world_in(table: Mapping[str, object]) -> str | None:
    """The name of the world in the content of a settings file, if it is the user's own."""
    world = world_name_in(table)
    return world if is_own(world) and world.partition(":")[0] not in LIBRARIES else None


def _world_in(table: Table, default: WorldSettings, own_world: str | None) -> WorldSettings:
    """The default settings of the world that a table names; `default` if it names none."""
    env = table.get("env")
    name = env.get("name", default.name) if isinstance(env, dict) else default.name
    if name == default.name:
        return default
    if not isinstance(name, str) or (":" not in name and name not in WORLDS):
        raise UsageError(f"has the unknown world {name!r:.60}; known: {', '.join(WORLDS)}.")
    if own_world_in(table) not in (None, own_world):
        raise NotNamed(
            f"names the world {name!r:.200}, which eqgrid imports only if you name it on the "
            f"command line: add --env.name {name:.200}."
        )
    with as_usage_error("cannot be used: ", UsageError):
        return world_settings(name)


def fill(default: T, table: Table, prefix: str) -> T:
    """Replaces fields of a dataclass by the entries of a table.

    **Arguments:**

    - `default`: the dataclass.
    - `table`: values by the names of fields; a table for a field that is a dataclass.
    - `prefix`: the name of the table in the file, followed by a dot; empty for the whole file.

    **Raises:** `UsageError` with a predicate, to which the caller prepends the name of the file,
    for an unknown key or a value of a wrong type.
    """
    config: Any = default
    hints = typing.get_type_hints(type(config))
    names = [name for name in values_of(config) if name not in NOT_IN_FILE]
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


def dump(config: PolicySettings) -> str:
    """The text of a settings file: `to_table` as TOML. `load` reads it back."""
    return tomli_w.dumps(to_table(config))


def to_table(config: PolicySettings) -> Table:
    """The settings as `config.toml`, checkpoints and policy files store them; `config_from` reads
    them back.

    Settings that are `None` are left out, since TOML cannot represent `None`. Settings of one call,
    such as `--out` and `--resume`, are left out, too.
    """
    table: Table = _in_toml(config)
    for name in NOT_IN_FILE:
        table.pop(name, None)
    experiment = type(config)
    about = {"algorithm": experiment.algorithm}
    if not is_shipped(experiment):
        about[SCRIPT] = name_of(experiment)
    if config.config == Path(TUNED):
        about["config"] = TUNED
    return {**about, **table}


def _in_toml(value: Any) -> Any:
    """A value with tables in place of dataclasses, lists in place of tuples, and no `None`."""
    if dataclasses.is_dataclass(value):
        return {name: _in_toml(x) for name, x in values_of(value).items() if x is not None}
    return [_in_toml(x) for x in value] if isinstance(value, tuple | list) else value


def own_flags(config: PolicySettings) -> str:
    """The flag that names the world of a run, as part of a command line with a leading space, if it
    is the user's own; otherwise empty.
    """
    world = own_world_in(to_table(config))
    return "" if world is None else f" --env.name {shlex.quote(world)}"
