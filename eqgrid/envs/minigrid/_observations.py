"""Observations: the window in front of the agent, as MiniGrid's numbers or as planes."""

import dataclasses
from typing import final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt8

from ...grid import AbstractObservation, Direction, Egocentric, Layout, Planes, Views, World
from ._kinds import AGENT, COLOURS, DIRECTION_SYMBOLS, SYMBOLS, UNSEEN, WALL_SYMBOL

_OBJECTS = {2: "wall", 8: "goal", 9: "lava", 4: "door", 5: "key", 6: "ball", 7: "box"}
"""The planes of objects, by MiniGrid's number of the object."""

_FACING = {f"other_{direction.name.lower()}": direction for direction in Direction}
"""The directions that the planes of other agents show."""

PLANE_NAMES = (
    "unseen",
    *_OBJECTS.values(),
    "open",
    "locked",
    *COLOURS,
    "other",
    *_FACING,
)
"""The planes of the observation `"planes"`, in order."""


def _symbols(views: Views, see_through: bool) -> UInt8[np.ndarray, "views 3"]:
    """MiniGrid's three numbers for every appearance of a cell. An agent sees its held object in its
    own cell. It sees another agent as MiniGrid's object 10, with the direction as the state.
    """
    numbers = SYMBOLS[np.where(views.own, views.held, views.lying)]
    facing = DIRECTION_SYMBOLS[np.maximum(views.direction, 0)]
    other = np.stack([np.full_like(facing, AGENT), np.zeros_like(facing), facing], axis=-1)
    numbers = np.where(views.other[:, None], other, numbers)
    beyond = np.asarray(WALL_SYMBOL if see_through else UNSEEN, np.uint8)
    return np.where((views.tile != 0)[:, None], beyond[None], numbers)


@dataclasses.dataclass(frozen=True)
class SymbolColumn:
    """A column of `Planes` with one of MiniGrid's three numbers of a cell.

    **Arguments:**

    - `part`: 0 for the object, 1 for its colour, and 2 for its state.
    - `see_through`: whether agents see through walls. If so, cells outside the grid are walls;
        otherwise they are unseen.
    """

    part: int
    see_through: bool

    def __call__(self, views: Views) -> np.ndarray:
        return _symbols(views, self.see_through)[:, self.part]


@dataclasses.dataclass(frozen=True)
class NamedColumn:
    """A column of `Planes` that is 1 where a cell has a property.

    The object that an agent holds is shown in the cell of the agent.

    **Arguments:**

    - `name`: one of `PLANE_NAMES`.
    - `see_through`: as in `SymbolColumn`.
    """

    name: str
    see_through: bool

    def __call__(self, views: Views) -> np.ndarray:
        if self.name == "other":
            return views.other
        if self.name in _FACING:
            return views.other & (views.direction == _FACING[self.name])
        # In the cell of an agent, the held object replaces the object in the cell, and the agent
        # itself is left out, since it has planes of its own.
        has_agent = views.own | views.other
        without_agents = views._replace(
            lying=np.where(has_agent, views.held, views.lying), other=np.zeros_like(views.other)
        )
        object_number, colour, state = _symbols(without_agents, self.see_through).T
        coloured = np.isin(object_number, (4, 5, 6, 7))
        door = object_number == 4
        known = {
            "unseen": object_number == UNSEEN[0],
            "open": door & (state == 0),
            "locked": door & (state == 2),
            **{name: object_number == number for number, name in _OBJECTS.items()},
            **{name: coloured & (colour == number) for number, name in enumerate(COLOURS)},
        }
        return known[self.name]


@final
class Symbolic(AbstractObservation):
    """The image that MiniGrid shows its agent: for each cell of the window, the numbers of the
    object, its colour and its state. Columns come before rows, as in MiniGrid.

    The cell of another agent contains the object 10, whose state is the direction of the agent
    relative to the window: 3 is up.

    **Arguments:**

    - `view`: the side of the window in cells, an odd number.
    - `see_through`: whether agents see through walls.
    """

    window: Egocentric

    def __init__(self, view: int = 7, *, see_through: bool = False):
        columns = tuple(SymbolColumn(part, see_through) for part in range(3))
        self.window = _window(columns, view, see_through)

    def __call__(
        self, layout: Layout, world: World, steps_left: Int32[Array, ""]
    ) -> UInt8[Array, "agents cols rows 3"]:
        seen = jnp.swapaxes(self.window(layout, world, steps_left), 1, 2)
        # An agent whose task is over is not in the grid, but still sees its held object.
        radius = seen.shape[1] // 2
        return seen.at[:, radius, -1].set(jnp.asarray(SYMBOLS)[world.bodies.held])


def minigrid_planes(view: int = 7, *, see_through: bool = False) -> Egocentric:
    """The observation `"planes"`: the window of `Symbolic` as planes of 0 and 1; see `PLANE_NAMES`.

    **Arguments:**

    - `view`: the side of the window in cells, an odd number.
    - `see_through`: whether agents see through walls.
    """
    columns = tuple(NamedColumn(name, see_through) for name in PLANE_NAMES)
    return _window(columns, view, see_through)


def _window(
    columns: tuple[SymbolColumn | NamedColumn, ...], view: int, see_through: bool
) -> Egocentric:
    if not (3 <= view <= 127 and view % 2):
        raise ValueError(f"A view is an odd number of cells from 3 to 127, not {view}.")
    planes = Planes(columns, radius=view // 2)
    return Egocentric(planes, ahead=view // 2, line_of_sight=not see_through)
