"""Environments of other libraries, such as `--env.name jaxmarl:MPE_simple_spread_v3`, and bodies.

To add a library, add an entry to `LIBRARIES`.
"""

import dataclasses
import functools
import importlib
import tomllib
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Annotated, Any, Literal, final

from eqgrid import AbstractEnv, TimeLimit, interop, unwrap
from eqgrid.envs import imported

from ..base import DIFFERENT, Table, UsageError
from ._table import Settings, World
from ._world_settings import Horizon


@final
@dataclasses.dataclass(frozen=True)
class Library:
    """A library of environments, for which `eqgrid.interop` has an adapter.

    **Arguments:**

    - `title`: its name in messages.
    - `module`: the module to import. Its adapter is `eqgrid.interop.from_MODULE`.
    - `names`: returns the names of the environments, given the module.
    - `build`: returns an adapted environment, given the module, a name and keyword arguments.
    """

    title: str
    module: str
    names: Callable[[ModuleType], Iterable[str]]
    build: Callable[[ModuleType, str, Table], AbstractEnv]

    def load(self) -> ModuleType:
        """Imports the module.

        **Raises:** `UsageError` when the library is not installed.
        """
        try:
            getattr(interop, f"from_{self.module}")  # says how to install it
            return importlib.import_module(self.module)
        except ImportError as error:
            raise UsageError(str(error)) from error


def _build_jaxmarl(jaxmarl: ModuleType, name: str, options: Table) -> AbstractEnv:
    env = jaxmarl.make(name, **options)
    kinds = {(*_kind(env.observation_space(x)), *_kind(env.action_space(x))) for x in env.agents}
    return interop.from_jaxmarl(env, pad=len(kinds) > 1)


def _kind(space: Any) -> tuple[object, ...]:
    """The kind of a space of JaxMARL. Agents with spaces of different kinds need padding."""
    return type(space), tuple(space.shape), getattr(space, "n", None)


LIBRARIES = {
    "jaxmarl": Library(
        "JaxMARL",
        "jaxmarl",
        lambda jaxmarl: jaxmarl.registered_envs,
        _build_jaxmarl,
    ),
    "gymnax": Library(
        "gymnax",
        "gymnax",
        lambda gymnax: gymnax.registered_envs,
        lambda gymnax, name, options: interop.from_gymnax(*gymnax.make(name, **options)),
    ),
    "jaxnasium": Library(
        "jaxnasium",
        "jaxnasium",
        lambda jaxnasium: jaxnasium.registry.registered_envs,
        lambda jaxnasium, name, options: interop.from_jaxnasium(jaxnasium.make(name, **options)),
    ),
}
"""The libraries, by the prefix before the colon in the name of a world."""


def _remarks(settings: Settings) -> tuple[str, ...]:
    title = LIBRARIES[settings.name.partition(":")[0]].title
    video = f"This run has no GIF: environments of {title} are not drawn."
    pad = "Shorter observations are padded with zeros, and agents with fewer actions masked."
    padded = getattr(unwrap(settings.build(train=False)), "pad", False)
    return (video, pad) if padded else (video,)


FOREIGN = World(
    title=lambda settings: settings.name.partition(":")[2],
    video=False,
    remarks=_remarks,
    ppo={"normalize_values": True},  # the scale of rewards is unknown
)


@functools.lru_cache(maxsize=64)
def foreign_constructor(library: Library, title: str) -> Callable[..., AbstractEnv]:
    """Makes the function that builds an environment of another library, whose parameters become
    settings.

    **Arguments:**

    - `library`: the library.
    - `title`: the name of the environment in it.
    """

    def build(
        *, options: Annotated[tuple[str, ...], DIFFERENT] = (), horizon: Horizon | None = None
    ) -> AbstractEnv:
        """**Arguments:**

        - `options`: keyword arguments of the library's own constructor, such as num_agents=5.
        - `horizon`: truncate episodes after this many steps; by default, as the library does.

        **Raises:** `UsageError` when there is no such environment, or a library is not installed,
        and the errors of the library.
        """
        module = library.load()
        names = list(library.names(module))
        if title not in names:
            raise UsageError(
                f"{library.title} has no environment {title!r:.60}. Available environments: "
                f"{', '.join(names)}."
            )
        arguments = dict(map(_option, options))
        try:
            world = library.build(module, title, arguments)
        except ImportError as error:
            reason = str(error).rstrip(".")
            raise UsageError(f"{library.title}'s {title} cannot be used: {reason}.") from error
        return world if horizon is None else TimeLimit(world, horizon)

    return build


def body(
    *,
    model: Literal["cartpole", "biped"] = "cartpole",
    task: Literal["balance", "swing_up", "walk", "reach"] = "balance",
    horizon: int = 500,
) -> AbstractEnv:
    """Builds a MuJoCo body with a task.

    **Arguments:**

    - `model`: the body to control.
    - `task`: the task; `swing_up` is for the cartpole, `walk` and `reach` are for the biped.
    - `horizon`: the number of steps after which an episode is truncated.

    **Raises:** `UsageError` when a part of MuJoCo cannot be imported.
    """
    try:
        make = imported(f"eqgrid.envs.bodies:{'CartPole' if model == 'cartpole' else 'Biped'}")
    except ImportError as error:
        raise UsageError(f"--env.name body cannot be used: {error}") from error
    return TimeLimit(make(task), horizon)


def _option(text: str) -> tuple[str, object]:
    """Parses a keyword argument `name=value`. A value that is not TOML is a string."""
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise UsageError(f"--env.options takes name=value, such as num_agents=5, but got {text!r}.")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value
