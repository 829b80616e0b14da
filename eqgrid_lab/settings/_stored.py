"""Settings in a table, as a settings file or a policy file stores them."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from ..base import NOTHING_NAMED, Named, UsageError, as_usage_error, check_named, is_own
from ..worlds import LIBRARIES, WORLDS, AbstractWorldConfig, default_world
from ._network import with_network
from ._policy_settings import PolicySettings, default_settings
from ._toml import fill, wrong

P = TypeVar("P", bound=PolicySettings)
TUNED = "tuned"
PAGE = "page"
"""The key for the name of the page that wrote a settings file, if it is not one of eqgrid's."""


def config_from(table: dict[str, Any], experiment: type[P], named: Named = NOTHING_NAMED) -> P:
    """The settings in a table, as `dump` writes it.

    **Arguments:**

    - `table`: the content of a settings file.
    - `experiment`: the class that a page defines.
    - `named`: what the command line names.

    **Raises:** `UsageError` with a predicate, to which the caller prepends the name of the file,
    for an unknown key or a value of a wrong type, and `NotNamed`, which is one, for code of the
    user that the command line does not name.
    """
    own = {key: value for key, value in table.items() if key not in ("algorithm", PAGE)}
    tuned = own.get("config") == TUNED
    if tuned:
        del own["config"]
    world = _world_in(own, experiment().env, named)
    default = default_settings(experiment, world)
    if hasattr(default, "network_settings") and is_own(own.get("network")):
        check_named(own["network"], named.networks, "network", "--network")
        with as_usage_error("cannot be used: ", UsageError):
            default = with_network(default, own["network"])
    config = fill(default, own, "")
    return dataclasses.replace(config, config=Path(TUNED)) if tuned else config


def world_from(
    table: dict[str, Any], experiment: type[PolicySettings], named: Named = NOTHING_NAMED
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


def own_parts(table: Mapping[str, Any]) -> dict[str, str]:
    """The code of the user in the content of a settings file, by the flags that name it."""
    world, network = world_name_in(table), table.get("network")
    own = {"--network": network} if is_own(network) else {}
    if is_own(world) and world.partition(":")[0] not in LIBRARIES:
        own["--env.name"] = world
    return own


def page_of(table: Mapping[str, Any]) -> str | None:
    """The name of the page that wrote a settings file; `None` for the pages of eqgrid."""
    return table.get(PAGE)


def _world_in(
    table: dict[str, Any], default: AbstractWorldConfig, named: Named
) -> AbstractWorldConfig:
    """The default settings of the world that a table names, or `default` if it names none."""
    env = table.get("env")
    name = env.get("name", default.name) if isinstance(env, dict) else default.name
    if name == default.name:
        return default
    if not isinstance(name, str) or (":" not in name and name not in WORLDS):
        raise wrong("env.name", name, f"one of {', '.join(map(repr, WORLDS))}")
    if "--env.name" in own_parts(table):
        check_named(name, named.worlds, "world", "--env.name")
    with as_usage_error("cannot be used: ", UsageError):
        return default_world(name, named)
