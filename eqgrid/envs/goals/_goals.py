"""Goal seeking: every agent walks to a flag, in a layout or a random maze, and then terminates."""

import dataclasses
from pathlib import Path
from typing import Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Float32, Int, Int32, PRNGKeyArray, UInt8

from ..._checks import as_probability, check_whole
from ..._functions import sample_uniform
from ...grid import (
    AGENT_CHARACTERS,
    MOVES,
    NOTHING,
    AbstractCheckedStart,
    AbstractEnding,
    AbstractFeature,
    AbstractGenerator,
    AbstractGridWorld,
    AbstractObservation,
    AbstractPhase,
    Action,
    Around,
    Features,
    Go,
    Kind,
    Kinds,
    Layout,
    LayoutError,
    LocalCollision,
    Number,
    Others,
    OwnPosition,
    Pen,
    Planes,
    RandomPositions,
    RuleEvents,
    Sight,
    Stay,
    Step,
    WeightedEventReward,
    World,
    agent_colours,
    check_generator,
    check_room,
    choose_observation,
    choose_text,
    count_next_to,
    empty_world,
    get_cell,
    occupied_cells,
    reach,
    sample_cells,
    sample_maze,
)


def draw_own_flag(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    """Draws a flag in the colour of the agent that it belongs to."""
    _draw_flag(pen, x, y, radius, *agent_colours(variant + 1))


def draw_shared_flag(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    """Draws a grey flag, which any agent can take."""
    _draw_flag(pen, x, y, radius, "#9AA1AC", "#4A515D")


def _draw_flag(pen: Pen, x: Number, y: Number, radius: Number, colour: str, dark: str) -> None:
    pole = x - 0.35 * radius
    pen.disc(pole, y + 1.25 * radius, 0.55 * radius, 0.18 * radius, fill=(60, 40, 20, 90))
    pen.line([(pole, y + 1.25 * radius), (pole, y - 1.25 * radius)], fill=dark, width=0.05)
    cloth = [(-0.35, -1.25), (1.1, -0.75), (-0.35, -0.2)]
    pen.shape([(x + a * radius, y + b * radius) for a, b in cloth], fill=colour, edge=dark)


KINDS = Kinds(
    tiles=(Kind("floor", " ", holds=True), Kind("wall", "#", solid=True)),
    objects=(
        Kind("flag", "F", sprite=draw_shared_flag),
        Kind("own_flag", variants=len(AGENT_CHARACTERS), of_agents=True, sprite=draw_own_flag),
    ),
)
"""Any agent can take a shared `flag`. Only agent `i` can take variant `i` of `own_flag`."""

SHARED = KINDS.code("flag")
FIRST_OWN = KINDS.code("own_flag")

ROOMS = {
    "room": """
        #########
        #       #
        # 1     #
        #       #
        #       #
        #     2 #
        #       #
        #########""",
    "rooms": """
        ###########
        #    #    #
        # 1       #
        #    #    #
        ## #### ###
        #    #    #
        #       2 #
        #    #    #
        ###########""",
}
"""An empty room, and four rooms with doorways."""

ACTIONS: tuple[Action, ...] = (*MOVES, Stay())
"""North, south, east, west and stay, in this order."""


@final
class Goals(AbstractGridWorld):
    """A goal-seeking world: agents that reach a flag get a reward of 1 and terminate.

    The positions of agents and flags are random in every episode. Collisions are resolved by
    `LocalCollision`; agents that have terminated do not collide.

    ```python
    from eqgrid.envs.goals import Goals

    env = Goals("rooms", num_agents=4)
    ```
    """

    def __init__(
        self,
        layout: str | Path | Layout = "room",
        *,
        num_agents: int | None = None,
        shared: bool = False,
        horizon: Int[ArrayLike, ""] = 50,
        observation: Literal["features", "planes"] | AbstractObservation = "features",
    ):
        """**Arguments:**

        - `layout`: `"room"`, `"rooms"`, a text with `#` for walls, the path of a file with such a
            text, or a `Layout` of `KINDS`.
        - `num_agents`: the number of agents; by default the number of marks in the layout.
        - `shared`: whether any agent can take each flag; otherwise each agent has its own flag.
        - `horizon`: the number of steps after which an episode is truncated.
        - `observation`: `"features"` (`OwnPosition`, `WayToFlag`, `Around` and `Others`),
            `"planes"` (`Planes` with the layer `flags_to_take`), or an `AbstractObservation`.

        **Raises:** `ValueError` when an argument is invalid; its subclass `LayoutError` for the
        layout.
        """
        if not isinstance(layout, Layout):
            layout = Layout.parse(choose_text(layout, ROOMS), KINDS)
        floor = [(int(row), int(col)) for row, col in np.argwhere(np.asarray(layout.tiles) == 0)]
        wanted = layout.num_agents if num_agents is None else num_agents
        check_whole(num_agents=wanted)
        most = min(len(floor) // 2, len(AGENT_CHARACTERS))
        if not 1 <= wanted <= most:
            raise LayoutError(
                f"This layout has room for 1 to {most} agents with a flag each, not {wanted}."
            )
        if wanted != layout.num_agents:
            # `RandomPositions` replaces the starts in every reset.
            without_agents = str.maketrans(dict.fromkeys(AGENT_CHARACTERS, " "))
            text = str(layout).translate(without_agents)
            layout = Layout.parse(text, KINDS, starts=floor[:wanted])
        views = {
            "features": lambda: Features((OwnPosition(), WayToFlag(), Around(), Others())),
            "planes": lambda: Planes(layers=(flags_to_take,)),
        }
        super().__init__(
            layout,
            actions=ACTIONS,
            phases=(Go(LocalCollision()), Arrive()),
            reward=WeightedEventReward({"arrival": 1.0}, ("arrival",)),
            events=RuleEvents(arrival=Arrive),
            ending=Arrived(),
            observation=choose_observation(observation, views),
            starts=(RandomPositions(), RandomFlags(shared)),
            horizon=horizon,
        )


@final
class GeneratedMazes(AbstractGenerator):
    """Generates mazes of fixed size.

    A maze is kept if its floor is connected, if it has room for all agents and flags, and if it has
    a crossing at which two agents can pass each other.
    """

    height: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    num_agents: int = eqx.field(static=True)
    loops: Float[Array, ""]
    example: Layout

    def __init__(
        self, height: int = 9, width: int = 9, *, num_agents: int = 2, loops: float | int = 0.3
    ):
        """**Arguments:**

        - `height`: the number of rows of the grid, walls included; preferably odd.
        - `width`: the number of columns of the grid, walls included; preferably odd.
        - `num_agents`: the number of agents.
        - `loops`: the probability that a door that is not needed to connect the rooms is open;
            with 0 there is exactly one path between any two rooms.

        **Raises:** `ValueError` (its subclass `LayoutError` for most arguments) when an argument is
        invalid, or no usable maze is found.
        """
        check_whole(height=height, width=width, num_agents=num_agents)
        if not (5 <= height <= 127 and 5 <= width <= 127):
            raise LayoutError(f"A maze has 5 to 127 rows and columns, not {height} and {width}.")
        if num_agents < 1:
            raise LayoutError(f"A maze needs at least 1 agent, not {num_agents}.")
        self.height, self.width, self.num_agents = height, width, num_agents
        self.loops = as_probability(loops)
        start = empty_world(KINDS, (height, width), np.zeros((num_agents, 2), np.int8))
        # `check_generator` calls `attempt`, which needs a start.
        self.example = Layout(jnp.zeros((height, width), jnp.uint8), start, None, KINDS)
        self.example = check_generator(self, "ask for larger mazes or fewer agents")

    def attempt(self, key: PRNGKeyArray) -> tuple[Layout, Bool[Array, ""]]:
        maze_key, start_key = jax.random.split(key)
        floor = sample_maze(maze_key, self.height, self.width, self.loops)
        # Agents start in the floor cells with the highest random scores.
        score = jnp.where(floor, sample_uniform(start_key, floor.shape), -1.0)
        _, cells = jax.lax.top_k(score.reshape(-1), self.num_agents)
        position = jnp.stack(jnp.divmod(cells, self.width), axis=-1).astype(jnp.int8)
        start = self.example.start
        bodies = dataclasses.replace(start.bodies, position=position)
        tiles = jnp.where(floor, jnp.uint8(0), jnp.uint8(KINDS.wall))
        layout = Layout(tiles, dataclasses.replace(start, bodies=bodies), None, KINDS)
        return layout, self._is_usable(floor)

    def _is_usable(self, floor: Bool[Array, "height width"]) -> Bool[Array, ""]:
        first = jnp.stack(jnp.unravel_index(jnp.argmax(floor), floor.shape))
        connected = (reach(floor, first) == floor).all()
        has_room = floor.sum() >= 2 * self.num_agents + 2
        has_crossing = (floor & (count_next_to(floor) >= 3)).any()
        return connected & has_room & has_crossing


@final
class RandomFlags(AbstractCheckedStart):
    """Places one flag per agent on floor cells without agents, uniformly at random.

    **Arguments:**

    - `shared`: whether any agent can take each flag; otherwise each agent has its own flag.
    """

    shared: bool = eqx.field(static=True)

    def check(self, layout: Layout) -> None:
        check_room(layout.tiles == 0, 2 * layout.num_agents, "agents and flags")

    def __call__(self, key: PRNGKeyArray, layout: Layout, world: World) -> World:
        agents = world.num_agents
        places = sample_cells(key, (layout.tiles == 0) & ~occupied_cells(world), agents)
        codes = jnp.full(agents, SHARED) if self.shared else FIRST_OWN + jnp.arange(agents)
        empty = jnp.full(layout.tiles.shape, NOTHING, jnp.uint8)
        flags = empty.at[places[:, 0], places[:, 1]].set(codes.astype(jnp.uint8))
        return dataclasses.replace(world, cells=dataclasses.replace(world.cells, object=flags))


@final
class Arrive(AbstractPhase):
    """The phase in which agents take the flags in their cells: their own flags, or shared flags."""

    def __call__(self, step: Step) -> Step:
        world = step.world
        codes = jnp.stack([get_cell(world.cells.object, place) for place in world.bodies.position])
        takes = _may_take(codes, jnp.arange(world.num_agents))
        if world.bodies.active is not None:
            takes &= world.bodies.active
        position = world.bodies.position
        # An agent that has terminated may have the same position as an agent that takes a flag.
        # NOTHING is 0, so with `min` the agent that takes the flag decides.
        left = world.cells.object.at[position[:, 0], position[:, 1]].min(
            jnp.where(takes, jnp.uint8(NOTHING), codes)
        )
        cells = dataclasses.replace(world.cells, object=left)
        return step.then(dataclasses.replace(world, cells=cells), Arrive, takes)


@final
class Arrived(AbstractEnding):
    """An agent terminates when it has taken a flag."""

    def __call__(self, step: Step) -> Bool[Array, " agents"]:
        return step.by(Arrive)


@final
class WayToFlag(AbstractFeature):
    """Whether there is a flag that the agent may take, and the offset to the nearest one."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        return ("flag_exists", "flag_row", "flag_col")

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        return sight.way_to(*sight.nearest(flags_to_take(sight))).reshape(-1)


def flags_to_take(sight: Sight) -> Bool[Array, "height width"]:
    """A layer of `Planes` that marks the flags that the agent may take."""
    return _may_take(sight.cells.object, jnp.broadcast_to(sight.agent, sight.nearness.shape))


def _may_take(
    codes: UInt8[Array, "*cells"], agent: Int32[Array, "*#cells"]
) -> Bool[Array, "*cells"]:
    """Whether each object is a flag that the agent may take."""
    codes = codes.astype(jnp.int32)
    return (codes == SHARED) | (codes == FIRST_OWN + agent)
