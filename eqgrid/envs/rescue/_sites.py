"""Sites for search and rescue: by name, from a text, or generated."""

import dataclasses
from collections.abc import Sequence
from typing import Literal, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray, UInt8

from ..._checks import as_probability, check_whole
from ...errors import did_you_mean
from ...grid import (
    AbstractGenerator,
    Layout,
    LayoutError,
    check_generator,
    check_named,
    check_ranges,
    count_next_to,
    empty_world,
    next_to,
    sample_maze,
)
from ._kinds import DOORS, KEYS, KINDS, VICTIMS, Role, Thing, Tile, is_victim
from ._solvable import can_rescue

RoleName: TypeAlias = Literal["medic", "engineer"]

SITES = {
    "small": """
        #########
        #1  )   #
        #   #  R#
        #  (#   #
        E   ##:##
        E   .  Y#
        #   #   #
        #2 G#  G#
        #########""",
    "large": """
        ###############
        #G    #   #  R#
        #     ]   :   #
        #Y    #  Y#   #
        ###.###.####>##
        #   G #   #   #
        E 1 3 |   .  [#
        E 2 4 #  R#   #
        #     #   # Y #
        ##)######.#####
        #   #  <  #  G#
        # R :     #   #
        #   #   G .  (#
        ###############""",
}
"""Two sites: one for two rescuers with four victims, and one for four rescuers with ten."""


def load_site(layout: str | Layout) -> Layout:
    """Loads a site by name or text.

    **Arguments:**

    - `layout`: a name of `SITES`, a text of more than one line, or a `Layout`. The rescuers of a
        `Layout` without roles are medic and engineer in turn.

    **Raises:** `LayoutError` when there is no such site, or the text is invalid.
    """
    if isinstance(layout, Layout):
        if layout.kinds.objects[: len(KINDS.objects)] != KINDS.objects:
            raise LayoutError(
                "The layout is of another game: its kinds differ from the kinds of a site."
            )
        return layout if layout.start.bodies.extra is not None else with_roles(layout, None)
    check_named(layout, Layout)
    if "\n" in layout.strip():
        return parse_site(layout)
    if layout not in SITES:
        raise LayoutError(
            f"There is no layout {layout!r:.100}{did_you_mean(layout, SITES)} Known are "
            f"{', '.join(SITES)}, and the text of a layout."
        )
    return parse_site(SITES[layout])


def parse_site(
    text: str,
    roles: Sequence[RoleName] | None = None,
    starts: Sequence[tuple[int, int]] | None = None,
) -> Layout:
    """Builds a site from its text.

    **Arguments:**

    - `text`: one row per line: `#` wall, `E` exit, blank floor, `G`, `Y` and `R` green, yellow and
        red victims, `.` rubble and `:` high rubble, `(`, `[` and `<` the purple, blue and orange
        key and `)`, `]` and `>` their doors, `|` an open door, and `1` to `9`, then `a` to `z`, for
        the initial cells of the rescuers.
    - `roles`: the role of every rescuer; by default medic and engineer in turn.
    - `starts`: `(row, col)` of every rescuer, instead of the marks in the text.

    **Raises:** `LayoutError` as in `Layout.parse`, when a rescuer would start on a solid object, or
    when there is no victim; `ValueError` as in `with_roles`.
    """
    layout = Layout.parse(text, KINDS, None, starts)
    check_site(layout)
    return with_roles(layout, roles)


def with_roles(layout: Layout, roles: Sequence[RoleName] | None) -> Layout:
    """The site with the given roles.

    **Arguments:**

    - `layout`: the site.
    - `roles`: `"medic"` or `"engineer"` for every rescuer; medic and engineer in turn if it is
        `None`.

    **Raises:** `ValueError` when there is no such role, or not one role per rescuer.
    """
    names = [role.name.lower() for role in Role]
    agents = layout.num_agents
    chosen = [names[i % len(names)] for i in range(agents)] if roles is None else list(roles)
    if unknown := set(chosen) - set(names):
        raise ValueError(f"There is no role {min(unknown)!r}: choose {' or '.join(names)}.")
    if len(chosen) != agents:
        raise ValueError(f"There are {len(chosen)} roles for {agents} rescuers: give one for each.")
    numbers = jnp.asarray([names.index(name) for name in chosen], jnp.uint8)
    bodies = dataclasses.replace(layout.start.bodies, extra=numbers)
    return dataclasses.replace(layout, start=dataclasses.replace(layout.start, bodies=bodies))


def check_site(layout: Layout) -> None:
    """Checks that there is a victim, and that no rescuer starts on a solid object.

    **Raises:** `LayoutError` if not. Traced arrays are not checked.
    """
    world = layout.start
    arrays = (world.cells.object, world.bodies.held, world.bodies.position)
    if any(isinstance(x, Tracer) for x in arrays):
        return
    objects, held, positions = (np.asarray(x) for x in arrays)
    if not np.isin([*objects.flat, *held.flat], VICTIMS).any():
        raise LayoutError("The layout has no victim: put a G, Y or R on the floor.")
    for row, col in positions.tolist():
        if KINDS.solid_codes[objects[row, col]]:
            raise LayoutError(
                f"A rescuer cannot start in row {row + 1}, column {col + 1}, where something lies."
            )


_THINGS = (
    Thing.RED_VICTIM,
    Thing.GREEN_VICTIM,
    Thing.YELLOW_VICTIM,
    Thing.RUBBLE,
    Thing.HIGH_RUBBLE,
)
_RANGES = ("red", "green", "yellow", "rubble", "high_rubble", "doors")
"""The arguments with the smallest and the largest number of each of `_THINGS`, and of doors."""


@final
class GeneratedSites(AbstractGenerator):
    """Generates sites of fixed size.

    A site is a maze with one exit in its border. Rescuers start in a hall next to the exit. All
    objects are outside the hall: doors of different colours in corridors, red victims where at
    least two cells next to them are floor, and all other objects anywhere. A site is kept if
    `can_rescue` finds a plan for it.
    """

    height: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    num_agents: int = eqx.field(static=True)
    hall: Int32[Array, ""]
    loops: Float[Array, ""]
    fewest: Int32[Array, " ranges"]
    most: Int32[Array, " ranges"]
    example: Layout

    def __init__(
        self,
        height: int = 9,
        width: int = 9,
        *,
        num_agents: int = 2,
        roles: Sequence[RoleName] | None = None,
        hall: int = 1,
        loops: float | int = 0.3,
        green: tuple[int, int] = (1, 2),
        yellow: tuple[int, int] = (0, 1),
        red: tuple[int, int] = (0, 1),
        rubble: tuple[int, int] = (0, 2),
        high_rubble: tuple[int, int] = (0, 1),
        doors: tuple[int, int] = (0, 1),
    ):
        """**Arguments:**

        - `height`: the number of rows of the grid, walls included; preferably odd.
        - `width`: the number of columns of the grid, walls included; preferably odd.
        - `num_agents`: the number of rescuers.
        - `roles`: `"medic"` or `"engineer"` for every rescuer; by default medic and engineer in
            turn.
        - `hall`: the range of the hall from the cell next to the exit, in cells. With 1, it has 6
            cells or, in a corner, 4.
        - `loops`: the probability that a door of the maze that is not needed to connect its rooms
            is open; with 0 there is exactly one path between any two rooms.
        - `green`: the smallest and the largest number of green victims.
        - `yellow`: the smallest and the largest number of yellow victims.
        - `red`: the smallest and the largest number of red victims.
        - `rubble`: the smallest and the largest number of cells with rubble, which only an engineer
            clears.
        - `high_rubble`: the same for high rubble.
        - `doors`: the smallest and the largest number of doors, each with its key; at most one of
            each colour.

        **Raises:** `ValueError` (its subclass `LayoutError` for most arguments) when an argument is
        invalid, when the arguments contradict each other, or when no usable site is found.
        """
        ranges = (red, green, yellow, rubble, high_rubble, doors)
        check_whole(height=height, width=width, num_agents=num_agents, hall=hall)
        check_whole(**dict(zip(_RANGES, ranges, strict=True)))
        _check_numbers(height, width, num_agents, hall, ranges)
        self.height, self.width, self.num_agents = height, width, num_agents
        self.hall, self.loops = jnp.asarray(hall, jnp.int32), as_probability(loops)
        self.fewest, self.most = jnp.asarray(np.asarray(ranges, np.int32).T)
        start = empty_world(KINDS, (height, width), np.zeros((num_agents, 2), np.int8))
        walls = jnp.full((height, width), Tile.WALL, jnp.uint8)
        self.example = with_roles(Layout(walls, start, None, KINDS), roles)
        medics = np.asarray(self.example.start.bodies.extra) == Role.MEDIC
        if yellow[1] and not medics.any():
            raise LayoutError(
                "Only a medic heals yellow victims: add one to the roles, or let yellow be (0, 0)."
            )
        if red[1] and num_agents < 2:
            raise LayoutError(
                "Only two rescuers lift a red victim: ask for two, or let red be (0, 0)."
            )
        self.example = check_generator(
            self, "ask for larger sites, a larger hall, more loops, or fewer things"
        )

    def attempt(self, key: PRNGKeyArray) -> tuple[Layout, Bool[Array, ""]]:
        maze_key, uniform_key = jax.random.split(key)
        # All random numbers at once, since each further call would add a second of compile time.
        cells, ranges = self.height * self.width, len(_RANGES)
        uniform = jax.random.uniform(uniform_key, (3 * cells + ranges + len(DOORS),))
        scores = uniform[: 3 * cells].reshape(3, self.height, self.width)
        of_counts, of_colours = jnp.split(uniform[3 * cells :], [ranges])
        floor = sample_maze(maze_key, self.height, self.width, self.loops)
        # The exit is the border cell next to floor with the highest score.
        border = jnp.ones_like(floor).at[1:-1, 1:-1].set(False)
        best = jnp.argmax(jnp.where(border & next_to(floor), scores[0], -1.0))
        row, col = jnp.unravel_index(best, floor.shape)
        hall, gate = self._hall(row, col)
        floor |= hall
        tiles = jnp.where(floor, jnp.uint8(Tile.FLOOR), jnp.uint8(Tile.WALL))
        tiles = tiles.at[row, col].set(jnp.uint8(Tile.EXIT))
        # Objects are placed outside the hall.
        num_choices = (self.most - self.fewest + 1).astype(jnp.float32)
        counts = self.fewest + jnp.floor(of_counts * num_choices).astype(jnp.int32)
        colours = jnp.argsort(of_colours)
        objects = _place_objects(floor, floor & ~hall, counts, colours, scores[1])
        # Rescuers start in the hall, in the cells with the highest scores. The gate stays free.
        score = jnp.where(hall & ~gate, scores[2], -1.0)
        _, homes = jax.lax.top_k(score.reshape(-1), self.num_agents)
        position = jnp.stack(jnp.divmod(homes, self.width), axis=-1).astype(jnp.int8)
        start = self.example.start
        start = dataclasses.replace(
            start,
            cells=dataclasses.replace(start.cells, object=objects),
            bodies=dataclasses.replace(start.bodies, position=position),
        )
        layout = Layout(tiles, start, None, KINDS)
        return layout, self._is_usable(layout)

    def _hall(
        self, row: Int32[Array, ""], col: Int32[Array, ""]
    ) -> tuple[Bool[Array, "height width"], Bool[Array, "height width"]]:
        """The cells of the hall at an exit, and its gate, which is the cell next to the exit."""
        rows, cols = jnp.arange(self.height)[:, None], jnp.arange(self.width)[None, :]
        gate_row, gate_col = jnp.clip(row, 1, self.height - 2), jnp.clip(col, 1, self.width - 2)
        away = jnp.maximum(jnp.abs(rows - gate_row), jnp.abs(cols - gate_col))
        inner = (rows > 0) & (rows < self.height - 1) & (cols > 0) & (cols < self.width - 1)
        return (away <= self.hall) & inner, away == 0

    def _is_usable(self, layout: Layout) -> Bool[Array, ""]:
        position, objects = layout.start.bodies.position, layout.start.cells.object
        # If the hall has too few cells, a rescuer is placed in the wall.
        on_floor = (layout.tiles[position[:, 0], position[:, 1]] == Tile.FLOOR).all()
        things, doors, keys = (
            (objects[None] == jnp.asarray(codes, jnp.uint8)[:, None, None]).sum(
                axis=(-2, -1), dtype=jnp.int32
            )
            for codes in (_THINGS, DOORS, KEYS)
        )
        enough = (jnp.append(things, doors.sum()) >= self.fewest).all() & (doors == keys).all()
        return on_floor & enough & is_victim(objects).any() & can_rescue(layout)


def _place_objects(
    floor: Bool[Array, "height width"],
    places: Bool[Array, "height width"],
    counts: Int32[Array, " ranges"],
    colours: Int32[Array, "3"],
    score: Float[Array, "height width"],
) -> UInt8[Array, "height width"]:
    """Places doors in corridors, red victims where two rescuers can stand next to them, and all
    other objects anywhere.

    **Arguments:**

    - `floor`: the cells that rescuers can walk on.
    - `places`: the cells in which objects may be.
    - `counts`: the number of objects, in the order of `_RANGES`.
    - `colours`: the order of the colours in which doors are placed.
    - `score`: random numbers, which decide the order in which cells get an object.
    """
    num_red, num_others, num_doors = jnp.split(counts, [1, len(_THINGS)])
    # One door, and one key, of each of the first colours.
    per_colour = (jnp.arange(len(DOORS)) < num_doors).astype(jnp.int32)
    doors, keys = (jnp.asarray(kinds, jnp.uint8)[colours] for kinds in (DOORS, KEYS))
    red, *others = (jnp.full(1, thing, jnp.uint8) for thing in _THINGS)
    order = jnp.argsort(score.reshape(-1))
    free, beside = places.reshape(-1)[order], count_next_to(floor).reshape(-1)[order]
    objects = _fill(free & (beside == 2), doors, per_colour)
    free &= objects == Thing.NOTHING
    objects |= _fill(free & (beside > 1), red, num_red)
    free &= objects == Thing.NOTHING
    rest, num_rest = jnp.concatenate([keys, *others]), jnp.concatenate([per_colour, num_others])
    objects |= _fill(free, rest, num_rest)
    return jnp.zeros_like(objects).at[order].set(objects).reshape(floor.shape)


def _fill(
    places: Bool[Array, " cells"],
    codes: UInt8[Array, " kinds"],
    counts: Int32[Array, " kinds"],
) -> UInt8[Array, " cells"]:
    """Puts `counts` objects of each kind into the first places, one kind after the other."""
    rank = jnp.cumsum(places, dtype=jnp.int32) - 1
    kind = (rank[:, None] >= jnp.cumsum(counts)[None, :]).sum(axis=1)
    codes = jnp.append(codes, jnp.uint8(Thing.NOTHING))
    return jnp.where(places, codes[kind], jnp.uint8(Thing.NOTHING))


def _check_numbers(
    height: int,
    width: int,
    num_agents: int,
    hall: int,
    ranges: tuple[tuple[int, int], ...],
) -> None:
    check_ranges(dict(zip(_RANGES, ranges, strict=True)))
    if not any(most for _, most in ranges[:3]):
        raise LayoutError("A site needs a victim: let green, yellow or red be (1, 1) or more.")
    if ranges[-1][1] > len(DOORS):
        raise LayoutError(
            f"There are doors of {len(DOORS)} colours, one of each: ask for {len(DOORS)} at most, "
            f"not {ranges[-1][1]}."
        )
    if not (5 <= height <= 127 and 5 <= width <= 127):
        raise LayoutError(f"A site has 5 to 127 rows and columns, not {height} and {width}.")
    if num_agents < 1:
        raise LayoutError(f"A site needs at least 1 rescuer, not {num_agents}.")
    if hall < 1:
        raise LayoutError(f"A hall reaches at least 1 cell from the exit, not {hall}.")
    room = (height - 2) * (width - 2) - 1  # without the cell next to the exit
    # Each door needs two cells: one for the door and one for its key.
    if (needed := num_agents + sum(fewest for fewest, _ in (*ranges, ranges[-1]))) > room:
        raise LayoutError(
            f"A site of {height} by {width} cells has room for {room} rescuers and things at most, "
            f"not for {needed}: ask for fewer, or for a larger site."
        )
