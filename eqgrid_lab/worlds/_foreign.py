"""Environments of other libraries, such as `--env.name jaxmarl:MPE_simple_spread_v3`.

To add a library, add an entry to `LIBRARIES`.
"""

import dataclasses
import functools
import importlib
import tomllib
from collections.abc import Callable, Iterable
from typing import Annotated, Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp

from agents import PPO
from eqgrid import AbstractEnv, TimeLimit, first_timestep, interop
from eqgrid.errors import did_you_mean

from ..base import DIFFERENT, UsageError, said
from ._world_config import NAME_OF_WORLD, AbstractWorldConfig, Horizon, RunSettings


@final
@dataclasses.dataclass(frozen=True)
class Library:
    """A library of environments, for which `eqgrid.interop` has an adapter.

    **Arguments:**

    - `title`: its name in messages.
    - `module`: the module to import. The adapter in `eqgrid.interop` is `from_` and the name of
        its package.
    - `names`: returns the names of the environments, given the module.
    - `build`: returns an adapted environment, given the module, a name and keyword arguments.
    - `horizon`: the length of an episode, in steps, if its environments do not limit it.
    """

    title: str
    module: str
    names: Callable[[Any], Iterable[str]]
    build: Callable[[Any, str, dict[str, Any]], AbstractEnv]
    horizon: int | None = None

    def load(self) -> Any:
        """Imports the module.

        **Raises:** `UsageError` when it is not installed.
        """
        try:
            getattr(interop, f"from_{self.module.partition('.')[0]}")  # also checks versions
            return importlib.import_module(self.module)
        except ImportError as error:
            raise UsageError(str(error)) from error


def _build_jaxmarl(jaxmarl: Any, name: str, options: dict[str, Any]) -> AbstractEnv:
    env = jaxmarl.make(name, **options)
    kinds = {(*_kind(env.observation_space(x)), *_kind(env.action_space(x))) for x in env.agents}
    return interop.from_jaxmarl(env, pad=len(kinds) > 1)


def _kind(space: Any) -> tuple[Any, ...]:
    """What must be equal for the spaces of two agents of JaxMARL to be stacked."""
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
    "jumanji": Library(
        "jumanji",
        "jumanji",
        lambda jumanji: sorted(jumanji.registered_environments()),
        lambda jumanji, name, options: interop.from_jumanji(jumanji.make(name, **options)),
    ),
    "brax": Library(
        "Brax",
        "brax.envs",
        lambda envs: envs._envs,
        lambda envs, name, options: interop.from_brax(envs.get_environment(name, **options)),
        horizon=1000,  # the default of brax.envs.create
    ),
}
"""The libraries, by the prefix before the colon in the name of a world."""


@dataclasses.dataclass(frozen=True)
class ForeignWorld(AbstractWorldConfig):
    """Settings of an environment of another library."""

    name: Annotated[str, NAME_OF_WORLD]
    options: Annotated[tuple[str, ...], DIFFERENT] = ()
    """Keyword arguments of the library's own constructor, such as num_agents=5."""
    horizon: Horizon | None = None
    """Truncate episodes after this many steps; by default, as the library does (Brax: 1000)."""
    normalize_observation: bool = True
    """Normalise observations to mean 0 and variance 1."""
    normalize_reward: bool = False
    """Divide rewards by the standard deviation of discounted returns."""
    # The scale of rewards is unknown, so critics predict standardised returns.
    run_settings: ClassVar[RunSettings] = {"ppo": PPO(normalize_values=True)}
    has_film = False

    @property
    def title(self) -> str:
        return self.name.partition(":")[2]

    @property
    def has_images(self) -> bool:
        return len(self._made().observation.shape) == 4  # agents, rows, columns, channels

    @property
    def has_real_observations(self) -> bool:
        """Whether observations are real numbers, whose scale is unknown."""
        return jnp.issubdtype(self._made().observation.dtype, jnp.floating)

    @property
    def has_shaped_reward(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "shaped_reward" in self._made().info

    def remarks(self) -> tuple[str, ...]:
        title, padded = self._library().title, getattr(self._made().world, "pad", False)
        film = f"There is no film of this run: environments of {title} are not drawn."
        pad = "Shorter observations are padded with zeros, and agents with fewer actions masked."
        return (film, pad) if padded else (film,)

    def totals(self, world: AbstractEnv) -> dict[str, tuple[str, ...]]:
        return {}

    def check(self) -> None:
        self._made()

    def build(self, *, train: bool) -> AbstractEnv:
        world, horizon = self._made().world, self.horizon or self._library().horizon
        return world if horizon is None else TimeLimit(world, horizon)

    def _library(self) -> Library:
        prefix = self.name.partition(":")[0]
        if ":" not in self.name or prefix not in LIBRARIES:
            raise UsageError(
                f"--env.name {self.name!r:.60} is no world of another library: write LIBRARY:NAME, "
                f"such as jaxmarl:MPE_simple_spread_v3. Libraries are "
                f"{', '.join(LIBRARIES)}."
            )
        return LIBRARIES[prefix]

    def _made(self) -> "_Made":
        return _make(self._library(), self.title, self.options)


def foreign_world(name: str) -> ForeignWorld:
    """The default settings of an environment of another library.

    Observations are normalised if they are real numbers.

    **Arguments:**

    - `name`: the name of the environment, as `LIBRARY:NAME`.

    **Raises:** `UsageError` when there is no such environment, or its library is not installed.
    """
    world = ForeignWorld(name)
    return dataclasses.replace(world, normalize_observation=world.has_real_observations)


@final
@dataclasses.dataclass(frozen=True)
class _Made:
    """An adapted environment, the shape of its observation, and the entries of its `info`."""

    world: AbstractEnv
    observation: jax.ShapeDtypeStruct
    info: frozenset[str]


@functools.lru_cache(maxsize=16)
def _make(library: Library, name: str, options: tuple[str, ...]) -> _Made:
    """Builds an environment, once for equal arguments, since a new object is compiled again."""
    module = library.load()
    names = list(library.names(module))
    if name not in names:
        hint = did_you_mean(name, names)
        known = "" if "did you mean" in hint else f" Known are {', '.join(names)}."
        raise UsageError(f"{library.title} has no environment {name!r:.60}{hint}{known}")
    arguments = dict(map(_option, options))
    try:
        world = library.build(module, name, arguments)
        first = eqx.filter_eval_shape(first_timestep, world, jax.random.key(0))
    except Exception as error:  # other libraries may raise any exception
        raise UsageError(f"{library.title}'s {name} cannot be used: {said(error)}") from error
    return _Made(world, jax.tree.leaves(first.observation)[0], frozenset(first.info))


def _option(text: str) -> tuple[str, Any]:
    """Parses a keyword argument: its value is TOML, or else a string."""
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise UsageError(f"--env.options takes name=value, such as num_agents=5, but got {text!r}.")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value
