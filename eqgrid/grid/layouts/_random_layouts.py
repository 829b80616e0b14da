"""An environment with a random layout in every episode, and distributions of layouts."""

import abc
import itertools
from collections.abc import Mapping, Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped, UInt8, UInt32

from ..._checks import as_number
from ..._env import AbstractEnv, TimeStep
from ..._env_checks import check_state_like
from ..._spaces import AbstractSpace
from ...typing import PyTree
from .._grid_world import AbstractGridWorld
from .._layout import Layout, LayoutError
from .._rewards import AbstractReward
from .._world import World
from ..drawing import Video
from ..observations import AbstractObservation

_ATTEMPTS = 1024
"""The number of layouts that are sampled at once."""


class AbstractLayouts(eqx.Module):
    """A distribution of layouts, all with the same size, kinds and number of agents."""

    @abc.abstractmethod
    def __call__(self, key: PRNGKeyArray) -> Layout:
        """Samples a layout."""


@final
class PlacedWorld(eqx.Module):
    """The state of `RandomLayouts`: the layout of this episode, and the world."""

    layout: Layout
    world: World


@final
class RandomLayouts(AbstractEnv):
    """A grid world that samples a new layout at every reset.

    Generating a layout makes a reset expensive: use `AutoReset(env, lazy=True)`, which resets only
    when an episode ends, or sample a `LayoutPool` beforehand.

    The state is a `PlacedWorld`.

    ```python
    import jax

    from eqgrid import AutoReset
    from eqgrid.envs.goals import GeneratedMazes, Goals
    from eqgrid.grid import RandomLayouts

    mazes = GeneratedMazes(7, 7)
    env = AutoReset(RandomLayouts(Goals(mazes.example), mazes), lazy=True)
    observation, state = env.reset(jax.random.key(0))
    ```
    """

    env: AbstractGridWorld
    layouts: AbstractLayouts

    def __init__(self, env: AbstractGridWorld, layouts: AbstractLayouts):
        """**Arguments:**

        - `env`: the grid world. Only the kinds and shapes of its own layout are used.
        - `layouts`: the distribution of layouts.

        **Raises:** `LayoutError` when the layouts do not have the world's size, kinds, parameters
        and number of agents.
        """
        self.env, self.layouts = env, layouts
        # Only shapes are compared, so nothing is compiled.
        sampled = eqx.filter_eval_shape(self._sample_layout, jax.random.key(0))
        own = eqx.filter_eval_shape(lambda: self.env.layout)
        if jax.tree.structure(sampled) != jax.tree.structure(own) or _shapes(sampled) != _shapes(
            own
        ):
            raise LayoutError(
                "The sampled layouts do not fit the world: they need its size "
                f"{self.env.layout.tiles.shape}, kinds, parameters and number of agents "
                f"({self.env.num_agents})."
            )

    @property
    def num_agents(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.env.num_agents

    @property
    def action_space(self) -> AbstractSpace:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.env.action_space

    @property
    def observation(self) -> AbstractObservation:
        """The observation of the agents."""
        return self.env.observation

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and columns of the grid."""
        return self.env.shape

    @property
    def event_names(self) -> tuple[str, ...]:
        """The names along the last axis of `info["events"]`."""
        return self.env.event_names

    def with_observation(self, observation: AbstractObservation) -> "RandomLayouts":
        """This environment with another observation."""
        return RandomLayouts(self.env.with_observation(observation), self.layouts)

    def with_reward(self, reward: AbstractReward) -> "RandomLayouts":
        """This environment with another reward; see `AbstractGridWorld.with_reward`."""
        return RandomLayouts(self.env.with_reward(reward), self.layouts)

    def _sample_layout(self, key: PRNGKeyArray) -> Layout:
        return self.env.with_layout(self.layouts(key)).layout

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], PlacedWorld]:
        # The layout has its own key, so that the sequence of layouts does not depend on the world.
        layout_key, world_key = jax.random.split(key)
        layout = self._sample_layout(layout_key)
        observation, world = self.env.with_layout(layout).reset(world_key)
        return observation, PlacedWorld(layout, world)

    def step(
        self, key: PRNGKeyArray, state: PlacedWorld, action: Int[Array, "agents *choices"]
    ) -> tuple[TimeStep, PlacedWorld]:
        self._check_state(state)
        timestep, world = self.env.with_layout(state.layout).step(key, state.world, action)
        return timestep, PlacedWorld(state.layout, world)

    def observe(self, state: PlacedWorld) -> PyTree[Shaped[Array, "agents ..."]]:
        self._check_state(state)
        return self.env.with_layout(state.layout).observe(state.world)

    def _check_state(self, state: PlacedWorld) -> None:
        layout = self.env.layout
        check_state_like("RandomLayouts", state, PlacedWorld(layout, layout.start))

    def render(
        self, state: PlacedWorld, *, cell_pixels: int = 64, caption: str | None = None
    ) -> UInt8[np.ndarray, "pixel_rows pixel_cols 3"]:
        """Draws one state as an RGB image; see `eqgrid.grid.render`."""
        world = self.env.with_layout(state.layout)
        return world.render(state.world, cell_pixels=cell_pixels, caption=caption)

    def video(
        self,
        states: PlacedWorld,
        *,
        cell_pixels: int = 32,
        frames_per_second: int | float = 8,
        captions: Sequence[str] | None = None,
    ) -> Video:
        """A video of the states of one episode; see `AbstractGridWorld.video`."""
        return self._env_of_episode(states).video(
            states.world,
            cell_pixels=cell_pixels,
            frames_per_second=frames_per_second,
            captions=captions,
        )

    def render_episode(
        self,
        states: PlacedWorld,
        *,
        cell_pixels: int = 64,
        frames_per_second: int | float = 8,
        captions: Sequence[str] | None = None,
    ) -> bytes:
        """A GIF of the states of one episode; see `eqgrid.grid.render_episode`."""
        return self._env_of_episode(states).render_episode(
            states.world,
            cell_pixels=cell_pixels,
            frames_per_second=frames_per_second,
            captions=captions,
        )

    def _env_of_episode(self, states: PlacedWorld) -> AbstractGridWorld:
        """The grid world with the layout of an episode, which is the same in all its states."""
        first = jax.tree.map(lambda x: x[0], states.layout)
        return self.env.with_layout(first)

    def _repr_html_(self) -> str:
        """The first steps of an episode with random actions, as a player for notebooks."""
        layout = self._sample_layout(jax.random.key(0))
        return self.env.with_layout(layout)._repr_html_()


@final
class LayoutPool(AbstractLayouts):
    """Samples uniformly from a batch of layouts.

    ```python
    import jax

    from eqgrid.envs.goals import GeneratedMazes, Goals
    from eqgrid.grid import LayoutPool, RandomLayouts, draw_layouts

    mazes = GeneratedMazes(7, 7)
    pool = LayoutPool(draw_layouts(mazes, jax.random.key(0), 16))
    env = RandomLayouts(Goals(mazes.example), pool)
    observation, state = env.reset(jax.random.key(1))
    ```

    **Arguments:**

    - `layouts`: a batch of layouts along a leading axis; see `draw_layouts` and `stack_layouts`.
    """

    layouts: Layout

    def __call__(self, key: PRNGKeyArray) -> Layout:
        chosen = jax.random.randint(key, (), 0, self.layouts.tiles.shape[0])
        return jax.tree.map(lambda x: x[chosen], self.layouts)


class AbstractGenerator(AbstractLayouts):
    """Samples layouts by rejection: it repeats `attempt` until a layout is usable.

    Call `check_generator` when a generator is built, to make sure that this loop ends.
    """

    @abc.abstractmethod
    def attempt(self, key: PRNGKeyArray) -> tuple[Layout, Bool[Array, ""]]:
        """Samples a layout, which may be unusable.

        **Returns:** the layout, and whether it is usable.
        """

    def __call__(self, key: PRNGKeyArray) -> Layout:
        def again(state: tuple[Array, Layout, Array]) -> tuple[Array, Layout, Array]:
            number = state[0] + 1
            # Each attempt has its own key, since the same key would fail again.
            return number, *self.attempt(jax.random.fold_in(key, number))

        # The loop begins with an unusable layout of zeros, so that `attempt` is compiled once.
        layout, usable = eqx.filter_eval_shape(self.attempt, key)
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (layout, usable))
        return jax.lax.while_loop(lambda state: ~state[2], again, (jnp.asarray(0), *zeros))[1]


@final
class SplitLayouts(AbstractGenerator):
    """A fixed split of generated layouts into two disjoint parts, for training and for testing.

    The part of a layout depends on a hash of its tiles, objects and initial positions, so a
    held-out layout is never sampled in training. A mirrored layout counts as a different layout.

    ```python
    import jax

    from eqgrid.envs.goals import GeneratedMazes
    from eqgrid.grid import SplitLayouts

    mazes = GeneratedMazes(7, 7)
    train = SplitLayouts(mazes, held_out=False)
    test = SplitLayouts(mazes, held_out=True)
    print(test(jax.random.key(0)).tiles.shape)  # (7, 7)
    ```
    """

    layouts: AbstractGenerator
    held_out: Bool[Array, ""]
    share: Float[Array, ""]

    def __init__(self, layouts: AbstractGenerator, held_out: bool, share: float | int = 0.1):
        """**Arguments:**

        - `layouts`: the generator to split.
        - `held_out`: whether to sample from the held-out part, or from the training part.
        - `share`: the fraction of layouts that are held out.

        **Raises:** `ValueError` when `share` is not between 0 and 1, and its subclass `LayoutError`
        when there are too few different layouts to split.
        """
        needs = "Both parts need layouts, so share must be above 0 and below 1"
        self.layouts, self.share = layouts, as_number(share, float, lambda x: 0 < x < 1, needs)
        self.held_out = jnp.asarray(held_out)
        check_generator(self, "there are too few different ones to hold some out")

    def attempt(self, key: PRNGKeyArray) -> tuple[Layout, Bool[Array, ""]]:
        layout, usable = self.layouts.attempt(key)
        return layout, usable & self.has(layout)

    def has(self, layout: Layout) -> Bool[Array, ""]:
        """Whether a layout is in this part."""
        number = _hash(layout) >> 8  # 24 bits, which a float32 represents exactly
        return (number.astype(jnp.float32) < self.share * 2**24) == self.held_out


def draw_layouts(layouts: AbstractGenerator, key: PRNGKeyArray, count: int) -> Layout:
    """Samples many layouts at once, such as for a `LayoutPool`. This is fast, but cannot be traced.

    ```python
    import jax

    from eqgrid.envs.goals import GeneratedMazes
    from eqgrid.grid import draw_layouts

    layouts = draw_layouts(GeneratedMazes(7, 7), jax.random.key(0), 8)
    print(layouts.tiles.shape)  # (8, 7, 7)
    ```

    **Arguments:**

    - `layouts`: the generator.
    - `key`: the source of randomness.
    - `count`: the number of layouts.

    **Returns:** a batch of `count` layouts along a leading axis.
    """
    parts, missing = [], count
    for number in itertools.count():
        # All batches have the same shape, so that `attempt` is compiled once for any `count`.
        batch, usable = _attempts(layouts, jax.random.fold_in(key, number))
        chosen = np.flatnonzero(usable)[:missing]
        parts.append(jax.tree.map(lambda x, chosen=chosen: np.asarray(x)[chosen], batch))
        missing -= len(chosen)
        if missing <= 0:
            break
    return jax.tree.map(lambda *leaves: jnp.asarray(np.concatenate(leaves)), *parts)


def stack_layouts(layouts: Sequence[Layout]) -> Layout:
    """Stacks layouts along a new leading axis, each padded to the size of the largest.

    **Raises:** `LayoutError` when there are no layouts, or when they differ in their kinds, number
    of agents, or the shapes and dtypes of their parameters.
    """
    if not layouts:
        raise LayoutError("There is no layout to be stacked: give at least one.")
    height, width = (max(layout.tiles.shape[i] for layout in layouts) for i in (0, 1))
    padded = [layout.pad(height, width) for layout in layouts]
    if len({jax.tree.structure(x) for x in padded}) > 1 or len({_shapes(x) for x in padded}) > 1:
        raise LayoutError(
            "Only layouts with the same kinds, parameters and number of agents can be stacked."
        )
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *padded)


def check_generator(layouts: AbstractGenerator, advice: str) -> Layout:
    """Checks that a generator finds usable layouts.

    **Arguments:**

    - `layouts`: the generator.
    - `advice`: the end of the error message, such as `"ask for fewer walls"`.

    **Returns:** one of the layouts.

    **Raises:** `LayoutError` when none of 1024 attempts is usable.
    """
    batch, usable = _attempts(layouts, jax.random.key(0))
    if not usable.any():
        raise LayoutError(f"None of {_ATTEMPTS} sampled layouts can be used: {advice}.")
    return jax.tree.map(lambda x: x[jnp.argmax(usable)], batch)


def check_ranges(ranges: Mapping[str, tuple[int, int]]) -> None:
    """Checks ranges `(minimum, maximum)` of counts from which a generator samples.

    **Raises:** `LayoutError` with the name of the first wrong range.
    """
    for name, bounds in ranges.items():
        if not (isinstance(bounds, tuple) and len(bounds) == 2 and 0 <= bounds[0] <= bounds[1]):
            raise LayoutError(
                f"{name} must be a minimum and a maximum, such as (1, 2), not {bounds}."
            )


def _attempts(
    layouts: AbstractGenerator, key: PRNGKeyArray
) -> tuple[Layout, Bool[Array, " attempts"]]:
    """Samples `_ATTEMPTS` layouts.

    **Returns:** the layouts, and which of them are usable.
    """
    if isinstance(layouts, SplitLayouts):  # both parts share the program of their generator
        batch, usable = _attempts(layouts.layouts, key)
        return batch, usable & _which_has(layouts, batch)
    return _attempt_many(layouts, key)


@eqx.filter_jit
def _attempt_many(
    layouts: AbstractGenerator, key: PRNGKeyArray
) -> tuple[Layout, Bool[Array, " attempts"]]:
    return jax.vmap(layouts.attempt)(jax.random.split(key, _ATTEMPTS))


@eqx.filter_jit
def _which_has(part: SplitLayouts, layouts: Layout) -> Bool[Array, " layouts"]:
    return jax.vmap(part.has)(layouts)


def _hash(layout: Layout) -> UInt32[Array, ""]:
    """A 32-bit hash of a layout's tiles, objects and initial positions."""
    parts = (layout.tiles, layout.start.cells.object, layout.start.bodies.position)
    numbers = jnp.concatenate([x.reshape(-1).astype(jnp.uint32) for x in parts])
    # Odd weights are invertible modulo 2^32, so a change of any one number changes the sum.
    weights = np.random.default_rng(0).integers(2**32, size=numbers.size, dtype=np.uint32)
    number = jnp.sum((numbers + 1) * (weights | 1), dtype=jnp.uint32)
    number = (number ^ (number >> 16)) * jnp.uint32(0x7FEB352D)  # to mix the upper bits, too
    return (number ^ (number >> 15)) * jnp.uint32(0x846CA68B)


def _shapes(tree: PyTree) -> tuple[tuple[tuple[int, ...], str], ...]:
    return tuple((x.shape, str(x.dtype)) for x in jax.tree.leaves(tree))
