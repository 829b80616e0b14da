"""Settings files (TOML), whose keys are flags: `gamma` in the table `ppo` is `--ppo.gamma`."""

import dataclasses
from pathlib import Path
from typing import Any, TypeVar

import tomli_w

from eqgrid import MAX_TEXT_BYTES

from ..base import NOTHING_NAMED, Named, UsageError, check_named, is_own, warn
from ..worlds import LIBRARIES, world_settings
from ._experiment import Experiment
from ._page import SHIPPED, command_of, is_shipped, name_of, page
from ._policy_settings import PolicySettings
from ._stored import (
    NOT_IN_FILE,
    PAGE,
    REMOVED,
    TUNED,
    config_from,
    own_parts,
    read_toml,
    world_name_in,
    wrong,
)

T = TypeVar("T")
P = TypeVar("P", bound=PolicySettings)
_MAX_SETTINGS_BYTES = 10 * MAX_TEXT_BYTES
"""The maximum size of a `config.toml`, which has all settings and all stages of a curriculum."""
_COMMON = {"env", "ppo", "partners", "seed", "total_steps", "num_envs", "eval_every"}


def load(
    path: Path,
    experiment: type[P],
    named: Named = NOTHING_NAMED,
    network: str | None = None,
    world: str | None = None,
) -> P:
    """Reads a settings file (TOML).

    **Arguments:**

    - `path`: the file.
    - `experiment`: the class that a page defines. A file of another algorithm is refused.
    - `named`: what the command line names. A file that names other code of the user is refused.
    - `network`: the network to use instead of that of the file, if any.
    - `world`: the world to use instead of that of the file, if any. The settings of another world
        in the file are left out, with a warning.

    **Returns:** the settings of the file, with defaults for all others.

    **Raises:** `UsageError` when the file is missing, malformed or of another algorithm, or has an
    unknown key or a value of a wrong type, and when there is no such world.
    """
    own = experiment.algorithm
    if world is not None and ":" not in world:
        world_settings(world)  # the file is not to blame for an unknown name
    try:
        table = read_toml(path, _MAX_SETTINGS_BYTES)
        written_by = table.get("algorithm", own)
        if written_by != own and written_by not in SHIPPED:
            raise wrong("algorithm", written_by, repr(own))
        if written_by != own:
            raise UsageError(
                f"is for {written_by}: use {command_of(page(written_by)).removeprefix('python ')}, "
                f"or take the line 'algorithm' out of it to train with {own}."
            )
        ppo = table.get("ppo", {})
        for key in REMOVED:
            if key in table or key.removeprefix("ppo.") in ppo:
                raise UsageError(f"has {key!r}, which was removed: leave it out.")
        in_file = world_name_in(table) or experiment().env.name
        replaced = world not in (None, in_file)
        # The settings of worlds of other libraries have the same names.
        kept = table.get("env", {}) if _is_foreign(world) and _is_foreign(in_file) else {}
        dropped = replaced and "env" in table and not kept
        if replaced:
            table = {**table, "env": {**kept, "name": world}}
        before = table.get("network")
        if network not in (None, before) and (is_own(network) or is_own(before)):
            table = {**table, "network": network}
            table.pop("network_settings", None)
        config = config_from(table, experiment, named)
        if isinstance(config, Experiment):
            for name in config.partners.networks:
                check_named(name, named.networks, "network", "--partners.networks")
        if dropped:
            warn(
                f"The settings file {str(path)!r} has settings of the world {in_file!r:.60}, which "
                f"are left out, since --env.name is {world!r:.60}."
            )
        return config
    except UsageError as error:
        raise UsageError(f"The settings file {str(path)!r} {error}") from error


def _is_foreign(world: str | None) -> bool:
    """Whether it is a world of another library, which all have the same settings."""
    return world is not None and world.partition(":")[0] in LIBRARIES


def is_written_by_a_run(path: Path) -> bool:
    """Whether `dump` has written a file: it has all settings of its algorithm, and no others.

    The settings of a custom page or of a world of the user are not known here, so only some common
    ones are checked.
    """
    try:
        table = read_toml(path, _MAX_SETTINGS_BYTES)
        if path.is_symlink() or "algorithm" not in table:
            return False
        if PAGE in table or own_parts(table):
            return table.keys() >= _COMMON
        algorithm = table["algorithm"]
        known = algorithm in SHIPPED
        return known and to_table(config_from(table, page(algorithm))) == table
    except UsageError:
        return False


def own_flags(config: PolicySettings) -> str:
    """The flags with which a command line names the code of the user in the settings of a run,
    each with a leading space; empty if there is none.
    """
    own = own_parts(to_table(config))
    return "".join(f" {flag} {name}" for flag, name in own.items())


def _as_lists(value: Any) -> Any:
    return [_as_lists(x) for x in value] if isinstance(value, tuple | list) else value


def _in_toml(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of a dataclass that TOML can represent: all but `None` and functions."""
    return {
        name: _as_lists(value)
        for name, value in fields
        if value is not None and not callable(value)
    }


def to_table(config: PolicySettings) -> dict[str, Any]:
    """The settings as `config.toml`, checkpoints and policy files store them; `config_from` reads
    them back.

    Settings that are `None` are left out, since TOML cannot represent it, and so are those of one
    process, such as `--out` and `--resume`.
    """
    table = dataclasses.asdict(config, dict_factory=_in_toml)
    for name in NOT_IN_FILE:
        table.pop(name, None)
    for name in ("stage", "network_settings"):
        if not table.get(name, True):
            del table[name]
    experiment = type(config)
    about = {"algorithm": experiment.algorithm}
    if not is_shipped(experiment):
        about[PAGE] = name_of(experiment)
    if config.config == Path(TUNED):
        about["config"] = TUNED
    return {**about, **table}


def dump(config: PolicySettings) -> str:
    """The text of a settings file with all settings, `to_table`, which `load` reads back.

    **Raises:** `UsageError` when `load` would refuse the file.
    """
    text = tomli_w.dumps(to_table(config))
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
