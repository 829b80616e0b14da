"""`world_settings`: the settings of a world, from its name or its constructor."""

import dataclasses
from collections.abc import Callable
from typing import Any

from eqgrid import AbstractEnv
from eqgrid.envs import imported

from ..base import Table, UsageError, import_named, is_own
from ._foreign import FOREIGN, LIBRARIES, foreign_constructor
from ._kitchens import Kitchen
from ._table import CONSTRUCTORS, WORLDS, World
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
