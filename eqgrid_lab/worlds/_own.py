"""Worlds of the user's own modules on the command line, such as `--env.name park:Park`."""

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import tyro

from agents import PPO
from eqgrid import (
    AbstractAutoReset,
    AbstractEnv,
    LogEpisodes,
    ObservationAndState,
    TimeLimit,
    check_env,
    contains_wrapper,
    first_timestep,
    split_mask,
    unwrap,
)
from eqgrid.grid import GridWorld, RandomLayouts
from eqgrid.typing import PyTree

from ..base import (
    PictureError,
    Setting,
    UsageError,
    check_storable,
    import_named,
    said,
    settings_of,
)
from ..show import caption
from ._world_config import AbstractWorldConfig, Horizon, RunSettings

_GIVEN = "train"
"""The parameter of a factory that says whether the world is for training or for evaluation."""


class OwnWorld(AbstractWorldConfig):
    """Settings of a world of the user. `own_world` adds a field for each parameter of its factory.

    The names of parameters must not be those of attributes here.
    """

    run_settings: ClassVar[RunSettings] = {"ppo": PPO(normalize_values=True)}
    _factory: ClassVar[Callable[..., AbstractEnv]]
    _settings: ClassVar[tuple[Setting, ...]]
    _takes_train: ClassVar[bool]

    @property
    def title(self) -> str:
        attribute, layout = self.name.partition(":")[2], getattr(self, "layout", None)
        return f"{attribute}-{layout}" if isinstance(layout, str) else attribute

    @property
    def layout_files(self) -> tuple[str, ...]:
        layout = getattr(self, "layout", None)
        if not isinstance(layout, str) or "\n" in layout or os.path.isdir(layout):
            return ()
        return (layout,) if os.path.exists(layout) else ()

    @property
    def has_images(self) -> bool:
        return self._made().images

    @property
    def has_shaped_reward(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        made = self._made()
        grid = unwrap(made.world)
        grid = grid.env if isinstance(grid, RandomLayouts) else grid
        return "shaped_reward" in made.info and getattr(grid, "shaping", True) is not None

    @property
    def has_film(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return callable(getattr(unwrap(self._made().world), "render_episode", None))

    def remarks(self) -> tuple[str, ...]:
        if self.has_film:
            return ()
        return (f"There is no film of this run: {self.name} has no method render_episode.",)

    def totals(self, world: AbstractEnv) -> dict[str, tuple[str, ...]]:
        names = getattr(unwrap(world), "event_names", None)
        if names is None or "events" not in self._made().info:
            return {}
        return {"events": tuple(f"event_{name}" for name in names)}

    def draw(self, world: AbstractEnv, states: PyTree, scores: Sequence[float]) -> bytes:
        inner: Any = unwrap(world)
        if isinstance(inner, GridWorld | RandomLayouts):
            return super().draw(world, states, scores)
        try:
            drawn = inner.render_episode(states, captions=[caption(score) for score in scores])
        except (Exception, SystemExit) as error:  # it is code of the user
            raise PictureError(f"{self.name} cannot be drawn: {said(error)}") from error
        if not isinstance(drawn, bytes):
            raise PictureError(
                f"{self.name} cannot be drawn: render_episode returns the bytes of a GIF, but "
                f"returned a {type(drawn).__name__}."
            )
        return drawn

    def check(self) -> None:
        check_storable(self, self._settings, "--env.")
        self._made()

    def build(self, *, train: bool) -> AbstractEnv:
        world, own = self._made(train=train).world, {setting.name for setting in self._settings}
        horizon = None if "horizon" in own else self.horizon
        return world if horizon is None else TimeLimit(world, horizon)

    def _made(self, *, train: bool = False) -> "_Made":
        arguments = tuple((x.name, getattr(self, x.name)) for x in self._settings)
        arguments += ((_GIVEN, train),) if self._takes_train else ()
        return _make(self.name, self._factory, arguments)


def own_world(name: str) -> OwnWorld:
    """The default settings of a world of the user. Its module is imported.

    A setting is made of each parameter of its factory, as `settings_of` describes. The parameter
    `train`, if there is one, is true for the world of training and false for that of evaluations.

    **Arguments:**

    - `name`: the function or class that builds it, as `MODULE:NAME`.

    **Raises:** `UsageError` when it cannot be imported, built or used.
    """
    factory = import_named(name, "--env.name")
    world = _class_of(name, factory)()
    return dataclasses.replace(world, normalize_observation=world._made().floats)


@functools.lru_cache(maxsize=64)
def _class_of(name: str, factory: Callable[..., AbstractEnv]) -> Any:
    """The subclass of `OwnWorld` with the settings of a factory."""
    taken = {*dir(OwnWorld), "name", "normalize_observation"}
    settings = settings_of(factory, name, given=(_GIVEN,), taken=taken)
    names = {setting.name for setting in settings}
    first = [Setting("name", _flag(Literal[name], "The world of yours."), name), *settings]
    if "horizon" not in names:
        words = "Truncate episodes after this many steps; by default, as the world itself does."
        first.append(Setting("horizon", _flag(Horizon | None, words), None))
    words = "Normalise observations to mean 0 and variance 1."
    first.append(Setting("normalize_observation", _flag(bool, words), True))
    words = "Divide rewards by the standard deviation of discounted returns."
    first.append(Setting("normalize_reward", _flag(bool, words), False))
    return dataclasses.make_dataclass(
        name.partition(":")[2],
        [(x.name, x.hint, dataclasses.field(default=x.default)) for x in first],
        bases=(OwnWorld,),
        namespace={
            "__doc__": f"Settings of {name}.",
            "_factory": staticmethod(factory),
            "_settings": tuple(settings),
            "_takes_train": _GIVEN in inspect.signature(factory).parameters,
        },
        frozen=True,
    )


def _flag(hint: Any, words: str) -> Any:
    return Annotated[hint, tyro.conf.arg(help=words)]


@final
@dataclasses.dataclass(frozen=True)
class _Made:
    """A world of the user, the entries of its `info`, and whether its observations are images and
    have real numbers.
    """

    world: AbstractEnv
    info: frozenset[str]
    images: bool
    floats: bool


@functools.lru_cache(maxsize=16)
def _make(
    name: str, factory: Callable[..., AbstractEnv], arguments: tuple[tuple[str, Any], ...]
) -> _Made:
    """Builds a world, once for equal arguments, since a new object may be compiled again."""
    try:
        world = factory(**dict(arguments))
    except (Exception, SystemExit) as error:  # it is code of the user
        raise UsageError(f"--env.name {name} cannot be built: {said(error)}") from error
    if not isinstance(world, AbstractEnv):
        raise UsageError(
            f"--env.name {name} builds a {type(world).__name__}, but must build one environment, "
            "an eqgrid.AbstractEnv."
        )
    for layer in (AbstractAutoReset, LogEpisodes):
        if contains_wrapper(world, layer):
            raise UsageError(
                f"--env.name {name} builds a world in {layer.__name__.removeprefix('Abstract')}, "
                "which pages add themselves: leave it out, or change train_env in a page of your "
                "own."
            )
    try:
        check_env(world, steps=0)
        first = eqx.filter_eval_shape(first_timestep, world, jax.random.key(0))
    except (Exception, SystemExit) as error:  # it is code of the user
        raise UsageError(f"--env.name {name} cannot be used: {said(error)}") from error
    seen, _ = split_mask(first.observation)
    seen = seen.local if isinstance(seen, ObservationAndState) else seen
    leaves = jax.tree.leaves(seen)
    images = len(leaves) == 1 and leaves[0].ndim == 4  # agents, rows, columns, channels
    floats = any(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves)
    return _Made(world, frozenset(first.info), images, floats)
