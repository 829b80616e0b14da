"""A world on a grid, put together from the parts that a game declares."""

import dataclasses
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Int, Int32, PRNGKeyArray, PyTree, Shaped, UInt8

from .._checks import MAX_STEPS, as_number, check_action_shape
from .._env import AbstractEnv, TimeStep
from .._spaces import AbstractSpace, Discrete
from ._actions import Action
from ._film import Film
from ._layout import Layout, LayoutError, check_layout
from ._observation import AbstractObservation, Planes
from ._render import film, render, render_episode
from ._rewards import AbstractEnding, AbstractEvents, AbstractReward, RuleEvents
from ._starts import AbstractStart, apply_starts
from ._step import AbstractPhase, Step, run_phases
from ._world import World


@final
class GridWorld(AbstractEnv):
    """A cooperative world on a grid: all that makes a game, as values.

    An episode is cut after `horizon` steps. With an `ending`, it is over when every agent's task
    is. Who is given a number that is no position in `actions`, such as -1, does nothing in that
    step, as with `Stay`.

    The keys of `info` are `"shaped_reward"`, `[agents]`: pay for steps towards the goal, kept
    apart; and `"events"`, `[agents, events]`: whether each of `event_names` happened to each agent
    in this step.
    """

    layout: Layout
    actions: tuple[Action, ...] = eqx.field(static=True)
    phases: tuple[AbstractPhase, ...]
    reward: AbstractReward
    shaping: AbstractReward | None
    events: AbstractEvents
    ending: AbstractEnding | None
    observation: AbstractObservation
    starts: tuple[AbstractStart, ...]
    horizon: Int32[Array, ""]
    action_space: AbstractSpace

    def __init__(
        self,
        layout: Layout,
        *,
        actions: Sequence[Action],
        phases: Sequence[AbstractPhase],
        reward: AbstractReward,
        shaping: AbstractReward | None = None,
        events: AbstractEvents | None = None,
        ending: AbstractEnding | None = None,
        observation: AbstractObservation | None = None,
        starts: Sequence[AbstractStart] = (),
        horizon: Int[ArrayLike, ""] = 400,
    ):
        """**Arguments:**

        - `layout`: what is built where, how episodes start, the parameters and the kinds.
        - `actions`: what agents can do; an action is a position in it.
        - `phases`: what happens in a step, in this order.
        - `reward`, `shaping`: what agents are paid, and a shaped reward beside it.
        - `events`: the named events that are counted.
        - `ending`: when an agent's task is over; without one, only time ends an episode.
        - `observation`: what agents see: `Planes()` unless given.
        - `starts`: what is random about the start of an episode, applied in this order.
        - `horizon`: steps in an episode.

        **Raises:** `ValueError` with one sentence, such as for a number that no kind has. Numbers
        that are being traced, such as a horizon under `eqx.filter_vmap`, are not looked at.
        """
        if not actions:
            raise ValueError("A world needs at least one action.")
        check_layout(layout)
        self.layout = layout if ending is None else _with_active(layout)
        self.actions, self.phases = tuple(actions), tuple(phases)
        self.reward, self.shaping, self.ending = reward, shaping, ending
        self.events = RuleEvents() if events is None else events
        self.observation = Planes() if observation is None else observation
        self.starts = tuple(starts)
        needs = f"A world needs a horizon from 1 to {MAX_STEPS:,} steps"
        steps = as_number(horizon, int, lambda x: 1 <= x <= MAX_STEPS, needs)
        self.horizon = steps.astype(jnp.int32)
        self.action_space = Discrete(len(self.actions))

    @property
    def num_agents(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.layout.num_agents

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the grid."""
        height, width = self.layout.tiles.shape[-2:]
        return height, width

    @property
    def event_names(self) -> tuple[str, ...]:
        """The names of the columns of `info["events"]`."""
        return self.events.names

    def with_layout(self, layout: Layout) -> "GridWorld":
        """The same game in another layout.

        **Raises:** `LayoutError` when the layout is of other kinds.
        """
        if layout.kinds != self.layout.kinds:
            raise LayoutError("The layout is of another game: its kinds are not those of this one.")
        layout = layout if self.ending is None else _with_active(layout)
        return eqx.tree_at(lambda env: env.layout, self, layout)

    def with_observation(self, observation: AbstractObservation) -> "GridWorld":
        """The same game, seen in another way."""
        return eqx.tree_at(lambda env: env.observation, self, observation)

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], World]:
        world = apply_starts(self.starts, key, self.layout, self.layout.start)
        return self.observe(world), world

    # Under `filter_jit`, a program that steps and observes in many places traces the rules once.
    @eqx.filter_jit
    def step(
        self, key: PRNGKeyArray, state: World, action: Int[Array, " agents"]
    ) -> tuple[TimeStep, World]:
        check_action_shape(action, (self.num_agents,))
        active = state.bodies.active
        if active is not None:
            action = jnp.where(active, action.astype(jnp.int32), -1)
        step = Step(self.layout, action, key, state, state, self.actions)
        step = run_phases(self.phases, step)
        step = step.then(dataclasses.replace(step.world, time=step.world.time + 1))
        happened = tuple(_for_active(event, active) for event in self.events(step))
        step = dataclasses.replace(step, happened=happened)
        terminated, world = self._end(step)
        timestep = TimeStep(
            observation=self.observe(world),
            reward=_for_active(self.reward(step), active),
            terminated=terminated,
            truncated=world.time >= self.horizon,
            info={
                "shaped_reward": _for_active(self._shaped_reward(step), active),
                "events": self._count(step),
            },
        )
        return timestep, world

    def _end(self, step: Step) -> tuple[Bool[Array, " agents"], World]:
        bodies = step.world.bodies
        if self.ending is None or bodies.active is None:
            return jnp.zeros(self.num_agents, bool), step.world
        active = bodies.active & ~self.ending(step)
        bodies = dataclasses.replace(bodies, active=active)
        return ~active, dataclasses.replace(step.world, bodies=bodies)

    def _shaped_reward(self, step: Step) -> Array:
        none = jnp.zeros(self.num_agents, jnp.float32)
        return none if self.shaping is None else self.shaping(step)

    def _count(self, step: Step) -> Int32[Array, "agents events"]:
        if not step.happened:
            return jnp.zeros((self.num_agents, 0), jnp.int32)
        return jnp.stack(step.happened, axis=-1).astype(jnp.int32)

    @eqx.filter_jit
    def observe(self, state: World) -> PyTree[Shaped[Array, "agents ..."]]:
        return self.observation(self.layout, state, self.horizon - state.time)

    def render(
        self, state: World, *, cell_pixels: int = 64, caption: str | None = None
    ) -> UInt8[np.ndarray, "pixel_rows pixel_cols 3"]:
        """A picture of one state; see `eqgrid.grid.render`."""
        return render(self.layout, state, cell_pixels=cell_pixels, caption=caption)

    def film(
        self,
        states: World,
        *,
        cell_pixels: int = 32,
        frames_per_second: int | float = 8,
        captions: Sequence[str] | None = None,
    ) -> Film:
        """A film of states that lead with a time axis, which a notebook shows as a player."""
        return film(
            self.layout,
            states,
            cell_pixels=cell_pixels,
            frames_per_second=frames_per_second,
            captions=captions,
        )

    def _repr_html_(self) -> str:
        """The first steps of an episode with random actions, as a player in a notebook."""
        return self.film(
            _random_play(self, jax.random.key(0), min(30, int(self.horizon)))
        )._repr_html_()

    def render_episode(
        self,
        states: World,
        *,
        cell_pixels: int = 64,
        frames_per_second: int | float = 8,
        captions: Sequence[str] | None = None,
    ) -> bytes:
        """A GIF of states that lead with a time axis; see `eqgrid.grid.render_episode`."""
        return render_episode(
            self.layout,
            states,
            cell_pixels=cell_pixels,
            frames_per_second=frames_per_second,
            captions=captions,
        )


@eqx.filter_jit
def _random_play(env: GridWorld, key: PRNGKeyArray, steps: int) -> World:
    """The states of an episode, the first one included."""
    reset_key, steps_key = jax.random.split(key)
    _, first = env.reset(reset_key)

    def step(world: World, key: PRNGKeyArray) -> tuple[World, World]:
        action_key, step_key = jax.random.split(key)
        action = jax.random.randint(action_key, (env.num_agents,), 0, len(env.actions))
        _, world = env.step(step_key, world, action)
        return world, world

    _, rest = jax.lax.scan(step, first, jax.random.split(steps_key, steps))
    return jax.tree.map(lambda x, xs: jnp.concatenate([x[None], xs]), first, rest)


def _with_active(layout: Layout) -> Layout:
    """The layout of a game in which tasks end, one agent at a time."""
    if layout.start.bodies.active is not None:
        return layout
    everybody = jnp.ones(layout.num_agents, bool)
    bodies = dataclasses.replace(layout.start.bodies, active=everybody)
    return dataclasses.replace(layout, start=dataclasses.replace(layout.start, bodies=bodies))


def _for_active(
    numbers: Shaped[Array, " agents"], active: Bool[Array, " agents"] | None
) -> Shaped[Array, " agents"]:
    """Nothing is counted or paid for an agent whose task was over before the step."""
    return numbers if active is None else jnp.where(active, numbers, jnp.zeros_like(numbers))
