"""`WorldSettings`: the settings of a world, and the world that they build.

The settings are the parameters of the world's constructor. `World` contains facts that cannot be
read from the constructor.
"""

import dataclasses
import functools
import inspect
import math
import os
import traceback
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import tyro
from msgspec import Meta

from eqgrid import (
    AbstractAutoReset,
    AbstractEnv,
    LogEpisodes,
    ObservationAndState,
    TimeLimit,
    check_env,
    check_single_env,
    contains_wrapper,
    first_timestep,
    split_mask,
    unwrap,
)
from eqgrid.envs import imported
from eqgrid.grid import (
    AbstractGenerator,
    AbstractGridWorld,
    Kinds,
    Layout,
    LayoutPool,
    RandomLayouts,
    SplitLayouts,
    draw_layouts,
)
from eqgrid.typing import PyTree

from ..base import (
    Hint,
    Setting,
    Table,
    UsageError,
    as_usage_error,
    check_storable,
    dataclass_of,
    settings_of,
    with_note,
    without_none,
)
from ..show import caption
from ._table import GENERATED, WORLDS, World

Horizon: TypeAlias = Annotated[int, Meta(ge=1, le=100_000)]
"""Length of an episode, in steps."""
NumAgents: TypeAlias = Annotated[int, Meta(ge=1, le=35)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Pool: TypeAlias = Annotated[int, Meta(ge=0, le=2**20)]
_Cells: TypeAlias = Annotated[int, Meta(ge=0, le=127)]
_RANGES = {
    **dict.fromkeys(("size", "sight", "radius", "view", "view_radius", "sensor_range"), _Cells),
    **dict.fromkeys(("crossings", "obstacles", "rows", "rooms"), _Cells),
    "num_food": Annotated[int, Meta(ge=1, le=100)],
    "horizon": Horizon,
    "num_agents": NumAgents,
}
"""Ranges of settings of eqgrid's own worlds. Larger values would need too much memory or too much
time to compile.
"""
HELD_OUT = 256
"""The number of evaluation layouts; they are the same for all seeds, and not used in training."""
NAME_OF_WORLD = tyro.conf.arg(
    metavar="NAME",
    help=f"World: {', '.join(WORLDS)}, LIBRARY:NAME for a world of another library, or MODULE:NAME "
    "for your own. Each world has its own settings: see --env.name NAME --help.",
)
"""The help of `--env.name`."""
_TRAIN = "train"
"""The parameter of a constructor that is true for training and false for evaluation."""


class WorldSettings:
    """The settings of a world, which `build` builds.

    `settings_class` makes a subclass for a constructor, with a field for each of its parameters.
    The fields below are `None` if the world does not have them, such as a layout.
    """

    name: Any
    layout: Any = None
    horizon: Any = None  # in steps; `None` if the world itself limits its episodes
    observation: Any = None
    generated: Any = None
    random_starts: float = 0.0
    normalize_observation: bool = False
    normalize_reward: bool = False
    facts: ClassVar[World]
    """Facts that cannot be read from the constructor."""
    only_in_training: ClassVar[tuple[str, ...]] = ("random_starts",)
    """The names of settings that affect only training."""
    _constructor: ClassVar[Callable[..., AbstractEnv]]
    _arguments: ClassVar[tuple[Setting, ...]] = ()
    """The settings that are parameters of the constructor."""
    _takes_train: ClassVar[bool] = False

    def as_judged(self) -> "WorldSettings":
        """The same settings, with defaults for settings that affect only training.

        Two worlds that are the same in evaluations have equal results.
        """
        own: Any = self
        defaults = {x.name: x.default for x in dataclasses.fields(own)}
        unused = {name: defaults[name] for name in self.only_in_training if name in defaults}
        return dataclasses.replace(own, **unused)

    @property
    def title(self) -> str:
        """The name of the layout, or another short description; runs are named after it."""
        return self.facts.title(self)

    @property
    def rules(self) -> str | None:
        """The name of the rules, if the world has several sets of rules."""
        return None

    @property
    def known_layouts(self) -> tuple[str, ...]:
        """The names of the layouts that the world offers."""
        return () if self.facts.layouts is None else tuple(imported(self.facts.layouts))

    @property
    def layout_files(self) -> tuple[str, ...]:
        """The layouts that are paths of files, rather than names or texts."""
        layout, known = self.layout, (GENERATED, *self.known_layouts)
        is_no_path = not isinstance(layout, str) or "\n" in layout or layout in known
        return () if is_no_path or not os.path.isfile(layout) else (layout,)

    @property
    def has_images(self) -> bool:
        """Whether observations are images for a convolutional network."""
        images = self.facts.images
        return self._built().images if images is None else self.observation in images

    @property
    def has_shaped_reward(self) -> bool:
        """Whether there is a shaped reward."""
        return self._built().shaped if self.facts.shaped is None else self.facts.shaped

    @property
    def has_video(self) -> bool:
        """Whether a video of an episode can be drawn."""
        return self._built().drawn if self.facts.video is None else self.facts.video

    @property
    def has_slow_resets(self) -> bool:
        """Whether resets are so slow that they should run only when an episode ends."""
        slow = self.facts.slow_resets
        slow = slow if isinstance(slow, bool) else self.layout in slow
        drawn = self.layout == GENERATED and self.generated is not None and not self.generated.pool
        return slow or drawn or self.random_starts > 0

    @property
    def optimum(self) -> float | None:
        """The best known return."""
        return self.facts.optimum(self)

    def how_to_play(self, world: AbstractEnv) -> tuple[str, ...]:
        """The rules for people that the pictures do not show, in sentences.

        **Arguments:**

        - `world`: a world that `build` has returned.
        """
        return self.facts.rules(self)

    def rule_pictures(self, kinds: Kinds) -> str:
        """Pictures that explain the rules to people, at most four. Each is a line with its cells
        and its caption, such as `"1/soup.12 serving | Bring it to the bell."`.

        A cell is `AGENT`, `TILE`, `/OBJECT`, `.VARIANT`, `@TIMER`, `*MARK` and `=EXTRA` in this
        order, without spaces and without the parts that it does not need. Agent 1 faces right, and
        agent 2 left. Agents hold the object. Cells with tiles that are not in the layout are
        not drawn. By default, the pictures show the kinds.
        """
        if found := self.facts.pictures(self, kinds):
            return found
        cells = [(f"/{kind.name}", kind.name) for kind in kinds.objects]
        cells += [(kind.name, kind.name) for kind in kinds.tiles[1:] if kind.char != "#"]
        return "\n".join(f"1 {cell} | {name.replace('_', ' ')}" for cell, name in cells[:4])

    def totals(self, world: AbstractEnv) -> dict[str, tuple[str, ...]]:
        """The entries of `info` that are summed over evaluation episodes.

        **Arguments:**

        - `world`: a world that `build` has returned.

        **Returns:** for each entry, the columns of the log for its numbers.
        """
        names, known = getattr(unwrap(world), "event_names", None), self.facts.totals(world)
        if names is None or not (self.facts.is_stated or "events" in self._built().info):
            return known
        return {"events": tuple(f"event_{name}" for name in names), **known}

    def draw(self, world: AbstractEnv, states: PyTree, scores: Sequence[float]) -> bytes:
        """A GIF of an episode.

        **Arguments:**

        - `world`: a world that `build` has returned.
        - `states`: its states, with a leading time axis.
        - `scores`: the return so far in each state.

        **Raises:** the errors of the world's drawing code, which may be the user's, after their
        traceback is printed.
        """
        inner: Any = unwrap(world)
        captions = [caption(score) for score in scores]
        size: dict[str, int] = {}
        if isinstance(inner, AbstractGridWorld | RandomLayouts):
            size["cell_pixels"] = min(64, max(16, 1024 // max(inner.shape)))  # 16 is the smallest
        try:
            drawn = inner.render_episode(states, captions=captions, **size)
        except (Exception, SystemExit):
            traceback.print_exc()
            raise
        if not isinstance(drawn, bytes):
            raise TypeError(
                f"render_episode of {self.name} must return the bytes of a GIF, but returned a "
                f"{type(drawn).__name__}"
            )
        return drawn

    def parts(self) -> dict[str, RandomLayouts]:
        """The worlds of a mixture of layouts, by name; empty for a single layout."""
        return {}

    def zero_shot(self) -> dict[str, RandomLayouts]:
        """Worlds that are not used in training, by name, for evaluating the final policy."""
        return {}

    def remarks(self) -> tuple[str, ...]:
        """Remarks about the world that are printed before a run starts."""
        if self.facts.video is None and not self.has_video:
            return (f"This run has no GIF: {self.name} has no method render_episode.",)
        return self.facts.remarks(self)

    def obstacle(self) -> str | None:
        """The reason why no reward can be obtained, if there is one."""
        return None

    def check(self) -> None:
        """Checks the settings.

        **Raises:** `UsageError` when the settings contradict one another, or a world of the user
        cannot be built.
        """
        check_storable(self, self._arguments, "--env.")
        if self.generated is not None:
            if self.layout != GENERATED and self.generated != type(self.generated)():
                raise UsageError(
                    f"--env.generated.* is for generated layouts: add --env.layout {GENERATED}."
                )
            check_storable(self.generated, self.generated._arguments, "--env.generated.")
        if not self.facts.is_stated:
            self._built()

    def build(self, *, train: bool) -> AbstractEnv:
        """Builds the world in its layout, or in a generated layout in every episode.

        Generated layouts for evaluation are held out from training.

        **Arguments:**

        - `train`: whether it is for training or for evaluation.

        **Raises:** `ValueError` when the settings are invalid.
        """
        if (layouts := self.generator()) is None:
            return self.build_named(train=train)
        world = self.build_in(layouts.example, train=train)
        assert isinstance(world, AbstractGridWorld)
        layouts = SplitLayouts(layouts, held_out=not train)
        if train and self.generated.pool == 0:
            return RandomLayouts(world, layouts)
        count = self.generated.pool if train else HELD_OUT
        return RandomLayouts(world, LayoutPool(draw_layouts(layouts, jax.random.key(0), count)))

    def generator(self) -> Any:
        """The generator of layouts; `None` unless the layout is `generated`.

        **Raises:** `LayoutError` when its settings are invalid.
        """
        if self.generated is None or self.layout != GENERATED:
            return None
        return self.generated.build(self)

    def build_named(self, *, train: bool) -> AbstractEnv:
        """Builds the world in its layout, which is not generated.

        **Arguments** and **Raises:** as in `build`.
        """
        return self.build_in(self.layout, train=train)

    def build_in(self, layout: Layout | str | None, *, train: bool) -> AbstractEnv:
        """Builds the world in one layout.

        **Arguments:**

        - `layout`: the layout, or its name, file or text; `None` if the world has no layouts.
        - `train`: whether it is for training or for evaluation.

        **Raises:** `ValueError` when the settings or the layout are invalid.
        """
        if not self.facts.is_stated:
            world = self._built(train=train).world
            takes_horizon = any(x.name == "horizon" for x in self._arguments)
            if takes_horizon or self.horizon is None:
                return world
            return TimeLimit(world, self.horizon)
        arguments = self._constructor_arguments(train=train)
        arguments |= {} if layout is None else {"layout": layout}
        if self.facts.starts is not None and train and self.random_starts > 0:
            arguments["starts"] = self.facts.starts(self.random_starts)
        return self._constructor(**arguments)

    def _built(self, *, train: bool = False) -> "_Built":
        """A world of the user or of another library, and the facts that are read from it."""
        arguments = self._constructor_arguments(train=train)
        return _build(self.name, self._constructor, tuple(arguments.items()))

    def _constructor_arguments(self, *, train: bool) -> Table:
        arguments = {x.name: getattr(self, x.name) for x in self._arguments}
        return arguments | {_TRAIN: train} if self._takes_train else arguments


class LayoutSettings:
    """The settings of a generator of layouts, `--env.generated.*`.

    Like `WorldSettings`, subclasses have a field for each parameter of a constructor.
    """

    pool: int
    _constructor: ClassVar[Callable[..., AbstractGenerator]]
    _arguments: ClassVar[tuple[Setting, ...]] = ()
    _shared: ClassVar[tuple[str, ...]]
    """The parameters of the generator that are settings of the world."""

    def build(self, world: WorldSettings) -> AbstractGenerator:
        """Builds the generator.

        **Arguments:**

        - `world`: the settings of the world.

        **Raises:** `LayoutError` when the settings are invalid.
        """
        own = {x.name: getattr(self, x.name) for x in self._arguments}
        return self._constructor(**own, **{name: getattr(world, name) for name in self._shared})


@functools.lru_cache(maxsize=64)
def settings_class(name: str, constructor: Callable[..., AbstractEnv], facts: World) -> Any:
    """Makes the subclass of `WorldSettings` for a constructor.

    Each parameter becomes a setting, as `settings_of` describes, except `train`, which is true for
    the training world and false for the evaluation world.

    **Arguments:**

    - `name`: the name of the world.
    - `constructor`: the class or function that builds it.
    - `facts`: facts that cannot be read from the constructor.

    **Raises:** `UsageError` as in `settings_of`.
    """
    taken = {*dir(WorldSettings), *WorldSettings.__annotations__}
    taken -= {"layout", "horizon", "observation"}
    found = settings_of(constructor, name, given=(_TRAIN, *facts.without), taken=taken)
    names, defaults = {x.name for x in found}, facts.defaults
    ranges = _RANGES if name in WORLDS else {}
    arguments = [_adapted(x, facts, ranges) for x in found]
    fields = [Setting("name", Annotated[Literal[name], NAME_OF_WORLD], name), *arguments]
    if "horizon" not in names and not facts.is_stated:
        words = "Truncate episodes after this many steps; by default, the horizon of the world."
        fields.append(Setting("horizon", _flag(Horizon | None, words), None))
    if facts.starts is not None:
        words = "Share of training episodes with random initial positions and directions; "
        words += "evaluations have none."
        fields.append(Setting("random_starts", _flag(Share, words), 0.5))
    if facts.generator is not None:
        generated = _layout_settings(facts.generator, names)
        fields.append(Setting("generated", generated, generated()))
    words = "Normalise observations to mean 0 and variance 1."
    default = defaults.get("normalize_observation", not facts.is_stated)
    fields.append(Setting("normalize_observation", _flag(bool, words), default))
    if not facts.is_stated or "normalize_reward" in defaults:
        words = "Divide rewards by the standard deviation of discounted returns."
        default = defaults.get("normalize_reward", False)
        fields.append(Setting("normalize_reward", _flag(bool, words), default))
    return dataclass_of(
        name.rpartition(":")[2],
        fields,
        WorldSettings,
        __doc__=f"Settings of {name}.",
        facts=facts,
        _constructor=staticmethod(constructor),
        _arguments=tuple(arguments),
        _takes_train=_TRAIN in inspect.signature(constructor).parameters,
    )


def _layout_settings(generator: str, of_world: Collection[str]) -> type[LayoutSettings]:
    """Makes the subclass of `LayoutSettings` for a generator of layouts.

    Parameters of the generator that have the name of a setting of the world, from `of_world`, get
    its value.
    """
    constructor = imported(generator)
    shared = tuple(x for x in inspect.signature(constructor).parameters if x in of_world)
    found = settings_of(constructor, generator, given=shared)
    words = "Number of training layouts; 0 samples a new one for every episode."
    return dataclass_of(
        constructor.__name__,
        [Setting("pool", _flag(Pool, words), 16_384), *found],
        LayoutSettings,
        __doc__="Settings of generated layouts, with --env.layout generated.",
        _constructor=staticmethod(constructor),
        _arguments=tuple(found),
        _shared=shared,
    )


def _flag(hint: Hint, words: str) -> Hint:
    """A type annotation with help text for the flag."""
    return Annotated[hint, tyro.conf.arg(help=words)]


def _adapted(setting: Setting, facts: World, ranges: Mapping[str, Hint]) -> Setting:
    """Adapts a setting to its world: the help of `layout` lists the layouts, the default is the one
    of `facts`, if any, and a whole number, which may be optional, gets its range.
    """
    name, hint, default = setting
    kind, *others = typing.get_args(hint)
    if name == "layout":
        known, words = () if facts.layouts is None else imported(facts.layouts), others[-1].help
        if not all(f'"{layout}"' in words for layout in known):
            words += f" Available: {', '.join(known)}."
        if facts.generator is not None:
            words += f' "{GENERATED}" samples one for every episode: see --env.generated.'
        others = [tyro.conf.arg(help=words)]
    if name in facts.defaults:
        kind, default = without_none(kind), facts.defaults[name]
    if name in ranges and int in (kind, *typing.get_args(kind)):
        kind = ranges[name] | None if NoneType in typing.get_args(kind) else ranges[name]
    return Setting(name, Annotated[kind, *others], default)


@final
@dataclasses.dataclass(frozen=True)
class _Built:
    """A world of the user or of another library, and the facts that are read from it.

    - `world`: the world.
    - `info`: the names of the entries of its `info`.
    - `images`: whether its observations are images.
    - `floats`: whether its observations contain real numbers.
    - `shaped`: whether there is a shaped reward.
    - `drawn`: whether episodes can be drawn.
    """

    world: AbstractEnv
    info: frozenset[str]
    images: bool
    floats: bool
    shaped: bool
    drawn: bool


@functools.lru_cache(maxsize=16)
def _build(
    name: str, constructor: Callable[..., AbstractEnv], arguments: tuple[tuple[str, object], ...]
) -> _Built:
    """Builds a world of the user or of another library, and reads facts from it.

    The result is cached, because programs may be compiled again for a new object.
    """
    with with_note(f"--env.name {name} cannot be built."):
        world = constructor(**dict(arguments))
    with as_usage_error(of=(TypeError, ValueError)):
        check_single_env(world, f"--env.name {name}")
    for layer in (AbstractAutoReset, LogEpisodes):
        if contains_wrapper(world, layer):
            raise UsageError(
                f"--env.name {name} builds a world in {layer.__name__.removeprefix('Abstract')}, "
                "which scripts add themselves: leave the wrapper out, or change train_env in "
                "your own script."
            )
    with with_note(f"--env.name {name} cannot be used."):
        own = getattr(constructor, "__module__", "")
        with as_usage_error(f"--env.name {name} cannot be used: ", own_script=own):
            check_env(world, steps=0)
        first = eqx.filter_eval_shape(first_timestep, world, jax.random.key(0))
    observation, _ = split_mask(first.observation)
    if isinstance(observation, ObservationAndState):
        observation = observation.local
    leaves, inner = jax.tree.leaves(observation), unwrap(world)
    grid = inner.env if isinstance(inner, RandomLayouts) else inner
    return _Built(
        world,
        frozenset(first.info),
        images=len(leaves) == 1 and leaves[0].ndim == 4,  # agents, rows, columns, channels
        floats=any(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves),
        shaped="shaped_reward" in first.info and getattr(grid, "shaping", True) is not None,
        drawn=callable(getattr(inner, "render_episode", None)),
    )


def columns_of(world: AbstractEnv, name: str) -> tuple[str, ...]:
    """The columns of the log for the sums of an entry of `info` over an episode.

    **Arguments:**

    - `world`: the world.
    - `name`: the name of the entry.

    **Returns:** one column for each number of the entry, without its leading axis of agents, if it
    has one.

    **Raises:** `ValueError` when the world has no such entry.
    """
    info = eqx.filter_eval_shape(first_timestep, world, jax.random.key(0)).info
    if name not in info:
        known = ", ".join(sorted(info)) or "none"
        raise ValueError(f"--log-info {name}: the world has no such entry of info; it has {known}.")
    shape = info[name].shape
    count = math.prod(shape[1:] if shape[:1] == (world.num_agents,) else shape)
    return tuple(f"info_{name}" + f"_{i}" * (count > 1) for i in range(count))


def check_same_world(name: str, world: str, other_name: str, other_world: str) -> None:
    """Checks that two policies of a team were trained in worlds of the same name.

    **Arguments:** as in `check_same_game`, but with the names of the worlds.

    **Raises:** `UsageError` when the names differ.
    """
    if other_world != world:
        raise UsageError(
            f"{name} was trained in {world:.200}, but {other_name} in {other_world:.200}: "
            "policies of one team need one world."
        )


def check_same_game(
    name: str, world: WorldSettings, other_name: str, other_world: WorldSettings
) -> None:
    """Checks that two policies of a team were trained in the same world; layouts may differ.

    **Arguments:**

    - `name`, `other_name`: the names of the two policies in the error message.
    - `world`, `other_world`: the world in which each of them was trained.

    **Raises:** `UsageError` when the worlds or their rules differ.
    """
    check_same_world(name, world.name, other_name, other_world.name)
    if other_world.rules != world.rules:
        raise UsageError(
            f"{name} was trained with the rules {world.rules!r}, but {other_name} with "
            f"{other_world.rules!r}: policies of one team need the same rules."
        )
