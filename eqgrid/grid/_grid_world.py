"""Grid worlds: environments composed of the parts that a game declares."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Int, Int32, PRNGKeyArray, Shaped, UInt8

from .._checks import MAX_STEPS, as_number
from .._env import AbstractEnv, TimeStep
from .._env_checks import check_action, check_state_like
from .._spaces import Discrete, Masked, MultiDiscrete
from ..typing import PyTree
from ._actions import AbstractActionMask, Action, Actions, allowed_only, by_choice, words_of
from ._layout import Layout, LayoutError, check_layout
from ._phases import ComeBack
from ._rewards import (
    AbstractEnding,
    AbstractEvents,
    AbstractReward,
    RuleEvents,
    WeightedEventReward,
)
from ._starts import AbstractStart, apply_starts, check_starts
from ._step import AbstractPhase, Step, run_phases
from ._world import World
from .drawing import Video, render, render_episode, video
from .observations import AbstractObservation, Planes

InfoEntry: TypeAlias = Callable[[Step], Shaped[Array, "..."]]
"""A function that computes an entry of `info` from the finished step."""


class AbstractGridWorld(AbstractEnv):
    r"""A cooperative multi-agent grid world, composed of a layout, actions, phases and rewards.

    Every game is a subclass, whose constructor chooses the parts; use `GridWorld` to compose a
    world without a class of its own.

    An episode is truncated after `horizon` steps. With an `ending`, it also ends when all agents
    have terminated. An agent does nothing, as with `Stay`, if its action is not an index into
    `actions`, such as -1, or if the `action_mask` forbids it. Agents that have terminated get no
    reward. No event happens to agents that have terminated or are away (see `send_away`).

    The entries of `info` are:

    - `"shaped_reward"` (Float, `agents`): rewards for progress towards the goal, which are not part
        of the reward.
    - `"events"` (Int, `agents events`): 1 where an event of `event_names` happened to an agent in
        this step.

    A game may add further entries.

    ```python
    from typing import final

    import jax

    from eqgrid import grid

    KINDS = grid.Kinds((grid.Kind("floor", " "), grid.Kind("wall", "#", solid=True)))


    @final
    class Room(grid.AbstractGridWorld):
        def __init__(self, horizon: int = 10):
            super().__init__(
                grid.Layout.parse("#####\n#1 2#\n#####", KINDS),
                actions=(*grid.MOVES, grid.Stay()),
                phases=(grid.Go(grid.LocalCollision()),),
                reward=grid.WeightedEventReward({}, ()),
                horizon=horizon,
            )


    observation, state = Room(horizon=20).reset(jax.random.key(0))
    ```
    """

    layout: Layout
    actions: Actions = eqx.field(static=True)
    phases: tuple[AbstractPhase, ...]
    reward: AbstractReward
    shaping: AbstractReward | None
    events: AbstractEvents
    ending: AbstractEnding | None
    observation: AbstractObservation
    action_mask: AbstractActionMask | None
    starts: tuple[AbstractStart, ...]
    horizon: Int32[Array, ""]
    action_space: Discrete | MultiDiscrete
    info: tuple[tuple[str, InfoEntry], ...] = eqx.field(static=True)

    def __new__(cls, *args: Any, **kwargs: Any):
        # `dataclasses.replace` passes all fields to the constructor of a game, which has other
        # parameters.
        if "action_space" in kwargs:
            raise TypeError(
                f"dataclasses.replace does not work with {cls.__name__}: use the methods "
                "with_reward, with_observation and with_layout, or build another world."
            )
        return super().__new__(cls)

    def __init__(
        self,
        layout: Layout,
        *,
        actions: Sequence[Action] | Sequence[Sequence[Action]],
        phases: Sequence[AbstractPhase],
        reward: AbstractReward,
        shaping: AbstractReward | None = None,
        events: AbstractEvents | None = None,
        ending: AbstractEnding | None = None,
        observation: AbstractObservation | None = None,
        action_mask: AbstractActionMask | None = None,
        starts: Sequence[AbstractStart] = (),
        horizon: Int[ArrayLike, ""] = 400,
        info: Mapping[str, InfoEntry] | None = None,
    ):
        """**Arguments:**

        - `layout`: the tiles, the default initial state, the parameters and the kinds.
        - `actions`: the actions of an agent; the action space is `Discrete(len(actions))`. If an
            agent makes several choices in a step, such as a move and a word, this is a tuple with
            the actions of each choice; the action space is then `MultiDiscrete`.
        - `phases`: the phases of a step, in this order.
        - `reward`, `shaping`: the reward, and an optional shaping reward.
        - `events`: the named events that are counted; none by default.
        - `ending`: when agents terminate; without one, episodes end by truncation only.
        - `observation`: the observations of the agents; `Planes()` by default. `PerAgent` combines
            a different one for each agent.
        - `action_mask`: which actions the agents may take, such as `OwnActions`; all by default.
            With a mask, observations are `Masked`.
        - `starts`: random changes to the initial state, applied in this order.
        - `horizon`: the number of steps after which an episode is truncated.
        - `info`: further entries of `info` by name, each a function of the finished `Step`; none by
            default. `LogEpisodes(env, totals)` sums them over an episode.

        **Raises:** `ValueError`, for example if the layout has a tile or object number that no kind
        has. Traced numbers, such as a horizon under `eqx.filter_vmap`, are not checked.
        """
        self.actions, self.phases = _as_actions(actions), tuple(phases)
        check_layout(layout)
        self.reward, self.shaping, self.ending = reward, shaping, ending
        self.events = RuleEvents() if events is None else events
        self.observation = Planes() if observation is None else observation
        for part in (reward, shaping):
            _check_weights(part, self.events)
        self.action_mask, self.starts = action_mask, tuple(starts)
        check_starts(self.starts, layout)
        needs = f"A world needs a horizon from 1 to {MAX_STEPS:,} steps"
        steps = as_number(horizon, int, lambda x: 1 <= x <= MAX_STEPS, needs)
        self.horizon = steps.astype(jnp.int32)
        sizes = tuple(len(choice) for choice in by_choice(self.actions))
        several = isinstance(self.actions[0], tuple)
        self.action_space = MultiDiscrete(sizes) if several else Discrete(sizes[0])
        self.info = tuple((info or {}).items())
        for name in {"shaped_reward", "events"}.intersection(info or {}):
            raise ValueError(f"A world has the entry {name!r} of info already: use another name.")
        self.layout = self._prepare(layout)

    @property
    def num_agents(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.layout.num_agents

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and columns of the grid."""
        height, width = self.layout.tiles.shape[-2:]
        return height, width

    @property
    def event_names(self) -> tuple[str, ...]:
        """The names along the last axis of `info["events"]`."""
        return self.events.names

    def with_observation(self, observation: AbstractObservation) -> "AbstractGridWorld":
        """This environment with another observation."""
        return eqx.tree_at(lambda env: env.observation, self, observation)

    def with_reward(self, reward: AbstractReward) -> "AbstractGridWorld":
        """This environment with another reward. The shaping reward stays the same.

        ```python
        from eqgrid import make
        from eqgrid.grid import WeightedEventReward

        world = make("goals")
        world = world.with_reward(WeightedEventReward({"arrival": 10.0}, world.event_names))
        ```

        **Raises:** `ValueError` when a `WeightedEventReward` has weights for other events.
        """
        _check_weights(reward, self.events)
        return eqx.tree_at(lambda env: env.reward, self, reward)

    def with_layout(self, layout: Layout) -> "AbstractGridWorld":
        """This environment with another layout.

        **Raises:** `LayoutError` when the layout has other kinds, or no room for the `starts`.
        """
        if layout.kinds != self.layout.kinds:
            raise LayoutError(
                "The layout is of another game: its kinds differ from this game's kinds."
            )
        check_starts(self.starts, layout)
        return eqx.tree_at(lambda env: env.layout, self, self._prepare(layout))

    def _prepare(self, layout: Layout) -> Layout:
        """Adds the arrays of `Bodies` that this game needs to the initial state: scans require that
        the structure of the state never changes.
        """
        agents, bodies = layout.num_agents, layout.start.bodies
        can_be_away = any(isinstance(phase, ComeBack) for phase in self.phases)
        initial_values = {
            "active": (can_be_away or self.ending is not None, jnp.ones(agents, bool)),
            "away": (can_be_away, jnp.zeros(agents, jnp.int16)),
            "said": (bool(words_of(self.actions)), jnp.zeros(agents, jnp.uint8)),
        }
        added = {
            name: value
            for name, (is_needed, value) in initial_values.items()
            if is_needed and getattr(bodies, name) is None
        }
        if not added:
            return layout
        bodies = dataclasses.replace(bodies, **added)
        return dataclasses.replace(layout, start=dataclasses.replace(layout.start, bodies=bodies))

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], World]:
        world = apply_starts(self.starts, key, self.layout, self.layout.start)
        return self.observe(world), world

    # With `filter_jit`, a program with several calls of `step` or `observe` traces them only once.
    @eqx.filter_jit
    def step(
        self, key: PRNGKeyArray, state: World, action: Int[Array, "agents *choices"]
    ) -> tuple[TimeStep, World]:
        check_state_like(type(self).__name__, state, self.layout.start)
        check_action(self, action)
        # Games in which all agents are always active need no masks.
        active, goes_on = state.bodies.active, None
        if active is not None:
            goes_on = state.bodies.goes_on
            is_active = jnp.expand_dims(active, tuple(range(1, action.ndim)))
            action = jnp.where(is_active, action.astype(jnp.int32), -1)  # -1: do nothing
        if self.action_mask is not None:
            mask = self.action_mask(self.layout, state, self.actions)
            action = allowed_only(mask, self.action_space, action)
        step = Step(self.layout, action, key, state, state, self.actions)
        step = run_phases(self.phases, step)
        step = step.then(dataclasses.replace(step.world, time=step.world.time + 1))
        # Events come first, since rewards and endings may depend on them.
        happened = tuple(_zero_unless(event, step.took_part) for event in self.events(step))
        step = dataclasses.replace(step, happened=happened)
        terminated, world = self._end(step)
        timestep = TimeStep(
            observation=self.observe(world),
            reward=_zero_unless(self.reward(step), goes_on),
            terminated=terminated,
            # A time limit does not end the task, so learners bootstrap there (Pardo et al. 2018).
            truncated=world.time >= self.horizon,
            info={
                "shaped_reward": _zero_unless(self._shaped_reward(step), goes_on),
                "events": self._count_events(step),
                **{name: entry(step) for name, entry in self.info},
            },
        )
        return timestep, world

    def _end(self, step: Step) -> tuple[Bool[Array, " agents"], World]:
        """Which agents have terminated, and the world in which they are inactive."""
        bodies = step.world.bodies
        if self.ending is not None and bodies.active is not None:
            # An agent that terminates while it is away does not come back.
            ends = self.ending(step)
            away = None if bodies.away is None else jnp.where(ends, jnp.int16(0), bodies.away)
            bodies = dataclasses.replace(bodies, active=bodies.active & ~ends, away=away)
        elif bodies.away is None:
            return jnp.zeros(self.num_agents, bool), step.world
        return ~bodies.goes_on, dataclasses.replace(step.world, bodies=bodies)

    def _shaped_reward(self, step: Step) -> Array:
        none = jnp.zeros(self.num_agents, jnp.float32)
        return none if self.shaping is None else self.shaping(step)

    def _count_events(self, step: Step) -> Int32[Array, "agents events"]:
        if not step.happened:  # `stack` needs at least one array
            return jnp.zeros((self.num_agents, 0), jnp.int32)
        return jnp.stack(step.happened, axis=-1).astype(jnp.int32)

    @eqx.filter_jit
    def observe(self, state: World) -> PyTree[Shaped[Array, "agents ..."]]:
        check_state_like(type(self).__name__, state, self.layout.start)
        observation = self.observation(self.layout, state, self.horizon - state.time)
        if self.action_mask is None:
            return observation
        return Masked(observation, self.action_mask(self.layout, state, self.actions))

    def render(
        self, state: World, *, cell_pixels: int = 64, caption: str | None = None
    ) -> UInt8[np.ndarray, "pixel_rows pixel_cols 3"]:
        """Draws one state as an RGB image; see `eqgrid.grid.render`."""
        check_state_like(type(self).__name__, state, self.layout.start)
        return render(self.layout, state, cell_pixels=cell_pixels, caption=caption)

    def video(
        self,
        states: World,
        *,
        cell_pixels: int = 32,
        frames_per_second: int | float = 8,
        captions: Sequence[str] | None = None,
    ) -> Video:
        """A video of the states of an episode, which a notebook displays as a player; every array
        of `states` has a leading time axis. See `eqgrid.grid.video`.
        """
        return video(
            self.layout,
            states,
            cell_pixels=cell_pixels,
            frames_per_second=frames_per_second,
            captions=captions,
        )

    def _repr_html_(self) -> str:
        """The first steps of an episode with random actions, as a player for notebooks."""
        return self.video(
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
        """A GIF of the states of an episode; every array of `states` has a leading time axis. See
        `eqgrid.grid.render_episode`.
        """
        return render_episode(
            self.layout,
            states,
            cell_pixels=cell_pixels,
            frames_per_second=frames_per_second,
            captions=captions,
        )


@final
class GridWorld(AbstractGridWorld):
    r"""A grid world whose parts are the arguments of the constructor; see `AbstractGridWorld`.

    ```python
    import jax
    import jax.numpy as jnp

    from eqgrid import grid

    kinds = grid.Kinds((grid.Kind("floor", " "), grid.Kind("wall", "#", solid=True)))
    room = grid.GridWorld(
        grid.Layout.parse("#####\n#1 2#\n#####", kinds),
        actions=(*grid.MOVES, grid.Stay()),
        phases=(grid.Go(grid.LocalCollision()),),
        reward=grid.WeightedEventReward({}, ()),
        observation=grid.Features((grid.OwnPosition(), grid.Others())),
        horizon=10,
    )
    observation, state = room.reset(jax.random.key(0))
    timestep, state = room.step(jax.random.key(1), state, jnp.array([2, 4]))  # east; stay
    print(state.bodies.position.tolist())  # [[1, 2], [1, 3]]
    ```
    """

    __init__ = AbstractGridWorld.__init__  # type checkers would make one from the fields


@eqx.filter_jit
def _random_play(env: AbstractGridWorld, key: PRNGKeyArray, steps: int) -> World:
    """The `steps + 1` states of an episode with random actions, along a leading time axis."""
    reset_key, steps_key = jax.random.split(key)
    _, first = env.reset(reset_key)

    def step(world: World, key: PRNGKeyArray) -> tuple[World, World]:
        action_key, step_key = jax.random.split(key)
        keys = jax.random.split(action_key, env.num_agents)
        action = jax.vmap(env.action_space.sample)(keys)
        _, world = env.step(step_key, world, action)
        return world, world

    _, rest = jax.lax.scan(step, first, jax.random.split(steps_key, steps))
    return jax.tree.map(lambda x, xs: jnp.concatenate([x[None], xs]), first, rest)


def _as_actions(actions: Sequence[Action] | Sequence[Sequence[Action]]) -> Actions:
    """The actions as a tuple or, for several choices, as a tuple of tuples.

    **Raises:** `ValueError` when there is no action, or for a mixture of the two forms.
    """
    choices = [tuple(choice) for choice in actions if isinstance(choice, Sequence)]
    single = [action for action in actions if not isinstance(action, Sequence)]
    if any(isinstance(action, str) for action in actions):
        raise ValueError("The actions of a world are objects such as Stay(), not texts.")
    if bool(choices) == bool(single) or not all(choices):
        raise ValueError(
            "A world needs at least one action, as in (*MOVES, Stay()), or one or more actions for "
            "each choice, as in ((*MOVES, Stay()), (Say('left'), Say('right')))."
        )
    return tuple(choices) if choices else tuple(single)


def _check_weights(reward: AbstractReward | None, events: AbstractEvents) -> None:
    """**Raises:** `ValueError` when a `WeightedEventReward` has weights for other events."""
    if isinstance(reward, WeightedEventReward) and reward.names != events.names:
        raise ValueError(
            f"A reward has weights for the events {', '.join(reward.names) or 'none'}, but the "
            f"world has the events {', '.join(events.names) or 'none'}: give it these, in this "
            "order."
        )


def _zero_unless(
    numbers: Shaped[Array, " agents"], active: Bool[Array, " agents"] | None
) -> Shaped[Array, " agents"]:
    """The numbers of active agents, and 0 for all others."""
    return numbers if active is None else jnp.where(active, numbers, jnp.zeros_like(numbers))
