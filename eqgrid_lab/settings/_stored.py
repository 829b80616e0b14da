"""Converts settings between dataclasses and tables, the form in which settings files (TOML) store
them.

Keys are flags: `gamma` in the table `ppo` is `--ppo.gamma`.
"""

import dataclasses
import shlex
from pathlib import Path
from typing import TypeVar

import tomli_w

from eqgrid import MAX_TEXT_BYTES

from ..base import Table, UsageError, fill, read_toml, table_of, warn
from ..worlds import LIBRARIES, is_of_user, named_world, world_settings
from ._policy_settings import PolicySettings, default_settings

P = TypeVar("P", bound=PolicySettings)

NOT_IN_FILE = ("config", "out", "resume", "resume_changed")
"""Settings that are not stored, because they concern one call of the command."""
_MAX_SETTINGS_BYTES = 10 * MAX_TEXT_BYTES
"""The maximum size of a `config.toml`, which may contain layouts."""
TUNED = "tuned"
"""The value of `--config` for the tuned settings of a kitchen."""


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
        if written_by != algorithm:
            raise UsageError(f"is for the algorithm {written_by!r:.60}, not for {algorithm}.")
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
    for an unknown key or a value of a wrong type, and for a world of the user that the command line
    does not name.
    """
    own = {key: x for key, x in table.items() if key != "algorithm"}
    tuned = own.get("config") == TUNED
    if tuned:
        del own["config"]
    env = named_world(world_name_in(table), experiment().env, own_world)
    config = fill(default_settings(experiment, env), own, without=NOT_IN_FILE)
    return dataclasses.replace(config, config=Path(TUNED)) if tuned else config


def dump(config: PolicySettings) -> str:
    """The text of a settings file: `to_table` as TOML. `load` reads it back."""
    return tomli_w.dumps(to_table(config))


def to_table(config: PolicySettings) -> Table:
    """The settings as `config.toml` stores them; `config_from` reads them back.

    Settings that are `None` are left out, since TOML cannot represent `None`. Settings of one call,
    such as `--out` and `--resume`, are left out, too.
    """
    table: Table = table_of(config)
    for name in NOT_IN_FILE:
        table.pop(name, None)
    tuned = {"config": TUNED} if config.config == Path(TUNED) else {}
    return {"algorithm": type(config).algorithm, **tuned, **table}


def world_name_in(table: Table) -> str | None:
    """The name of the world in the content of a settings file, if it has one."""
    env = table.get("env")
    name = env.get("name") if isinstance(env, dict) else None
    return name if isinstance(name, str) else None


def own_flags(config: PolicySettings) -> str:
    """The flag that names the world of a run, as part of a command line with a leading space, if it
    is the user's own; otherwise empty.
    """
    name = config.env.name
    return f" --env.name {shlex.quote(name)}" if is_of_user(name) else ""
