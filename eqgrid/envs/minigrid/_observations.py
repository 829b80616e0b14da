"""Observations: the window in front of the agent, as MiniGrid's numbers or as planes."""

import dataclasses
from typing import final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt8

from ...grid import AbstractObservation, Direction, Egocentric, Layout, Planes, Views, World
from ._kinds import AGENT, COLOURS, DIRECTION_SYMBOLS, SYMBOLS, UNSEEN, WALL_SYMBOL

_NAMES = {2: "wall", 8: "goal", 9: "lava", 4: "door", 5: "key", 6: "ball", 7: "box"}
_FACING = {f"other_{direction.name.lower()}": direction for direction in Direction}

PLANE_NAMES = (
    "unseen",
    *_NAMES.values(),
    "open",
    "locked",
    *COLOURS,
    "other",
    *_FACING,
)
"""The planes of the observation `"planes"`, in order."""


def _symbols(views: Views, see_through: bool) -> UInt8[np.ndarray, "views 3"]:
    """MiniGrid's numbers for every appearance of a cell. An agent sees what it holds in its own
    cell, and other agents as MiniGrid's number for an agent, with their direction as the state.
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
    - `see_through`: whether agents see through walls, and so also cells outside of the grid, which
        are then walls; otherwise these are unseen.
    """

    part: int
    see_through: bool

    def __call__(self, views: Views) -> np.ndarray:
        return _symbols(views, self.see_through)[:, self.part]


@dataclasses.dataclass(frozen=True)
class NamedColumn:
    """A column of `Planes` that is 1 where a cell has a property.

    Objects that another agent holds are shown in its cell.

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
        shows_held = views.own | views.other
        plain = views._replace(
            lying=np.where(shows_held, views.held, views.lying), other=np.zeros_like(views.other)
        )
        object_number, colour, state = _symbols(plain, self.see_through).T
        coloured = np.isin(object_number, (4, 5, 6, 7))
        door = object_number == 4
        known = {
            "unseen": object_number == UNSEEN[0],
            "open": door & (state == 0),
            "locked": door & (state == 2),
            **{name: object_number == number for number, name in _NAMES.items()},
            **{name: coloured & (colour == number) for number, name in enumerate(COLOURS)},
        }
        return known[self.name]


@final
class Symbolic(AbstractObservation):
    """The image that MiniGrid shows its agent: for each cell of the window, the numbers of the
    object, its colour and its state, with columns before rows as there.

    The cell of another agent has the object 10 and, as the state, its direction relative to the
    window, where 3 is up.

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
        # Also agents whose task is over, which are not in the grid, see what they hold.
        radius = seen.shape[1] // 2
        return seen.at[:, radius, -1].set(jnp.asarray(SYMBOLS)[world.bodies.held])


def minigrid_planes(view: int = 7, *, see_through: bool = False) -> Egocentric:
    """The observation `"planes"`: the same window as planes of 0 and 1, named in `PLANE_NAMES`.

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
