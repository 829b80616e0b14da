"""`world_settings`: the settings of a world, from its name or its constructor."""

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import equinox as eqx

from eqgrid import AbstractEnv, read_regular_text
from eqgrid.envs import imported

from ..base import Table, UsageError, as_usage_error, fill, import_named, is_own, table_of
from ._foreign import FOREIGN, LIBRARIES, foreign_constructor
from ._kitchens import Kitchen
from ._table import CONSTRUCTORS, GENERATED, WORLDS, World
from ._world_settings import WorldSettings, settings_class

_OF_THE_USER = World(
    title=lambda settings: (
        settings.name.rpartition(":")[2]
        + (f"-{settings.layout}" if isinstance(settings.layout, str) else "")
    ),
    ppo={"normalize_values": True},  # the scale of rewards is unknown
)


def world_settings(
    world: str | Callable[..., AbstractEnv] | None = None,
    /,
    **changes: Any,
) -> WorldSettings:
    """The settings of a world.

    ```python
    from eqgrid_lab import world_settings

    env = world_settings("goals", num_agents=3).build(train=False)
    ```

    **Arguments:**

    - `world`: a name in `WORLDS`, `LIBRARY:NAME`, or `MODULE:NAME` for a world of the user, whose
        module is imported; or a function or class that builds a world; `None` for Overcooked.
    - `changes`: settings that differ from the defaults.

    **Raises:** `UsageError` when there is no such world or setting, the world cannot be built, or
    its library is not installed.
    """
    if world is None or world == Kitchen.name:
        return Kitchen(**changes)
    if not isinstance(world, str):
        name = getattr(world, "__name__", type(world).__name__)
        return _settings(name, world, _OF_THE_USER, changes)
    library, colon, title = world.partition(":")
    if colon and library in LIBRARIES:
        return _settings(world, foreign_constructor(LIBRARIES[library], title), FOREIGN, changes)
    if is_own(world):
        return _settings(world, import_named(world), _OF_THE_USER, changes)
    if world not in WORLDS:
        others = (*(f"{library}:NAME" for library in LIBRARIES), "MODULE:NAME for your own")
        raise UsageError(
            f"Unknown world {world!r:.60} for --env.name. Available: "
            f"{', '.join((*WORLDS, *others))}."
        )
    return _settings(world, imported(CONSTRUCTORS[world]), WORLDS[world], changes)


def _settings(
    name: str, constructor: Callable[..., AbstractEnv], facts: World, changes: Table
) -> WorldSettings:
    """The settings of a world. For a world of the user or of another library, observations are
    normalised by default if they contain real numbers.
    """
    kind = settings_class(name, constructor, facts)
    known = [field.name for field in dataclasses.fields(kind)]
    for setting in (x for x in changes if x not in known):
        raise UsageError(f"{name} has no setting {setting!r:.60}, but {', '.join(known)}.")
    settings = kind(**changes)
    if facts.is_stated or "normalize_observation" in changes:
        return settings
    return dataclasses.replace(settings, normalize_observation=settings._built().floats)


def is_of_user(world: str) -> bool:
    """Whether the name of a world is `MODULE:NAME` of the user, whose code is not in a library."""
    return is_own(world) and world.partition(":")[0] not in LIBRARIES


def named_world(
    name: str | None, default: WorldSettings, own_world: str | None = None
) -> WorldSettings:
    """The default settings of the world that a file names.

    **Arguments:**

    - `name`: the name in the file; `None` if it names none.
    - `default`: the settings to return if the name is theirs or `None`.
    - `own_world`: the world that the command line names, if it is the user's own. No other world of
        the user is imported.

    **Raises:** `UsageError` with a predicate, to which the caller prepends the name of the file.
    """
    if name in (None, default.name):
        return default
    if ":" not in name and name not in WORLDS:
        raise UsageError(f"has the unknown world {name!r:.60}; known: {', '.join(WORLDS)}.")
    if is_of_user(name) and name != own_world:
        raise UsageError(
            f"names the world {name!r:.200}, which eqgrid imports only if you name it on the "
            f"command line: add --env.name {name:.200}."
        )
    with as_usage_error("cannot be used: ", UsageError):
        return world_settings(name)


def world_of_policy(env: WorldSettings) -> tuple[str, Table]:
    """The name and the arguments of a world as a policy file stores them: without settings of
    training, and with the text of a layout file in place of its path.
    """
    table: Table = table_of(written_out(env.as_judged()))
    for name in ("normalize_observation", "normalize_reward", *env.only_in_training):
        table.pop(name, None)
    if env.layout != GENERATED:
        table.pop("generated", None)
    return table.pop("name"), table


def settings_from(
    name: str,
    arguments: Table,
    own_world: str | None = None,
    worlds: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
) -> WorldSettings:
    """The settings of the world that `world_of_policy` has returned.

    **Arguments:**

    - `name`, `arguments`: the name and the arguments of the world.
    - `own_world`: as in `named_world`.
    - `worlds`: the functions and classes of the user's script that build worlds, by name.

    **Raises:** `UsageError` as in `named_world`, and for an unknown or wrong argument.
    """
    own = worlds.get(name)
    env = named_world(name, Kitchen(), own_world) if own is None else world_settings(own)
    return fill(env, arguments)


def written_out(env: WorldSettings) -> WorldSettings:
    """The settings of a world with the path of a layout file replaced by the text of the file.

    The settings are unchanged if the layout is not a file, or the text would build another world.
    """
    layout = getattr(env, "layout", None)
    if not isinstance(layout, str) or "\n" in layout:
        return env
    try:
        text = read_regular_text(layout)
        with_text: Any = dataclasses.replace(env, layout=text)  # pyright: ignore[reportArgumentType]
        same = eqx.tree_equal(*(x.build(train=False) for x in (env, with_text)))
    except Exception:  # the layout is a name, its file is not a text, or the world reads no texts
        return env
    return with_text if same is True or bool(same) else env
