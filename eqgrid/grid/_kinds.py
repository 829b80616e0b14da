"""The kinds of tiles and of objects of a game, declared as values.

In the state, kinds are stored as numbers. A kind of tile has its index in `Kinds.tiles`. Objects
have *codes*: 0 where there is none, then one code for each variant of each kind, in order. The
numbers belong to one game: another game may use the same numbers for other kinds.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool

NOTHING = 0
"""The object code of an empty cell, and of an agent that holds nothing."""

AGENT_CHARACTERS = "123456789abcdefghijklmnopqrstuvwxyz"
"""The characters that mark the initial positions of the agents in a layout's text, in order."""


class KindError(ValueError):
    """An error for a kind that cannot be used. The message gives its name and the reason."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of tile or of object.

    ```python
    from eqgrid.grid import Kind, Kinds

    door = Kind("door", ("C", "O"), variants=2, solid=(True, False))
    kinds = Kinds(tiles=(Kind("floor", " ", holds=True),), objects=(door,))
    print(kinds.code("door", 0), kinds.code("door", 1))  # 1 2: closed and open
    ```

    **Arguments:**

    - `name`: the name of the kind in rules, observations and messages.
    - `char`: the character of the kind in layout texts and, without a sprite, in pictures. Objects
        without a character cannot appear in layout texts. An object with variants may have a tuple
        with a character, or `None`, for each variant; a single character stands for the first one.
    - `aliases`: further characters for the kind, or its first variant, in layout texts.
    - `solid`: whether it keeps agents from entering its cell. An object may have a tuple with an
        entry for each variant, such as a door that is closed or open.
    - `opaque`: whether it blocks a line of sight; see `Egocentric`. It has the form of `solid`, and
        the value of `solid` by default.
    - `carryable`: whether an agent can hold it (objects).
    - `holds`: whether objects can lie on it (tiles). If a tile that agents can enter has it,
        `Planes` show objects under agents; otherwise an agent hides the object in its cell.
    - `draws_object`: whether its sprite also draws the object on it (tiles), such as the contents
        of a box.
    - `variants`: the number of variants (objects), such as levels; each has its own code.
    - `of_agents`: whether variant `i` has the colours of the agent in seat `i` (objects).
    - `duration`: for a tile with a timer (`Cell.timer`), the number of steps that the timer counts,
        as a function of the layout's parameters and the object code in the cell, for pictures.
    - `sprite`: a function that draws it; by default, it is drawn as a block with its character. A
        tile is drawn by `sprite(pen, look)`, an object by `sprite(pen, variant, x, y, radius)`.
    """

    name: str
    char: str | tuple[str | None, ...] | None = None
    solid: bool | tuple[bool, ...] = False
    carryable: bool = False
    holds: bool = False
    draws_object: bool = False
    variants: int = 1
    duration: Callable[[Any, int], int] | None = None
    sprite: Callable[..., None] | None = None
    aliases: str = ""
    opaque: bool | tuple[bool, ...] | None = None
    of_agents: bool = False

    @property
    def chars(self) -> tuple[str | None, ...]:
        """The character of each variant. In a layout text, a character of several variants stands
        for the first one.
        """
        return self.char if isinstance(self.char, tuple) else (self.char,) * self.variants


@dataclasses.dataclass(frozen=True)
class Overlay:
    """Pictures over cells and the agents in them, such as a beam in the step in which it is fired.

    **Arguments:**

    - `numbers`: a function of the layout and the world that returns a whole number for each cell,
        and 0 where nothing is drawn. A game stores its inputs in `extra`.
    - `sprite`: a function that draws the picture of a number: `sprite(pen, number)`.
    """

    numbers: Callable[[Any, Any], Any]
    sprite: Callable[..., None]


@dataclasses.dataclass(frozen=True)
class Kinds:
    """All kinds of one game.

    ```python
    from eqgrid.grid import Kind, Kinds

    kinds = Kinds(
        tiles=(Kind("floor", " ", holds=True), Kind("wall", "#", solid=True)),
        objects=(Kind("key", "K", carryable=True),),
    )
    print(kinds.code("key"))  # 1; 0 means no object
    ```

    **Arguments:**

    - `tiles`: the kinds of tiles; the tile of a cell never changes during an episode. The first one
        is the floor, on which agents start.
    - `objects`: the kinds of objects, which lie in cells or are held.
    - `agent_sprite`: a function that draws an agent: `agent_sprite(pen, agent, draw_object)`.
    - `overlay`: the pictures over cells and agents; none by default.

    **Raises:** `KindError` when there is no tile, the first one is solid, or a tile has no
    character or has variants; when a kind has no variant, or a tuple of another length; when a name
    or a character is used twice, or a character cannot be used; and when there are more than 256
    kinds of tiles or object codes.
    """

    tiles: tuple[Kind, ...]
    objects: tuple[Kind, ...] = ()
    agent_sprite: Callable[..., None] | None = None
    overlay: Overlay | None = None

    def __post_init__(self):
        if not self.tiles or self.tiles[0].solid:
            raise KindError("The first kind of tile must be a floor, which is not solid.")
        kinds = (*self.tiles, *self.objects)
        _check_unique([kind.name for kind in kinds], "the name")
        for kind in kinds:
            _check_kind(kind, is_tile=kind in self.tiles)
        _check_unique([char for kind in kinds for char in _characters(kind)], "the character")
        for count, what in ((self.num_tiles, "kinds of tiles"), (self.num_codes, "codes")):
            if count > 256:
                raise KindError(
                    f"The game has {count} {what}, but a cell has room for 256: use fewer."
                )

    @property
    def num_tiles(self) -> int:
        """The number of kinds of tiles."""
        return len(self.tiles)

    @functools.cached_property
    def num_codes(self) -> int:
        """The number of object codes, including `NOTHING`."""
        return 1 + sum(kind.variants for kind in self.objects)

    def tile(self, name: str) -> int:
        """The number of the kind of tile with this name.

        **Raises:** `KindError` when there is no such kind.
        """
        names = [kind.name for kind in self.tiles]
        if name not in names:
            raise KindError(f"There is no kind of tile {name!r}: there are {', '.join(names)}.")
        return names.index(name)

    def code(self, name: str, variant: int = 0) -> int:
        """The code of a variant of the kind of object with this name.

        **Raises:** `KindError` when there is no such kind or variant.
        """
        code = 1
        for kind in self.objects:
            if kind.name == name:
                if not 0 <= variant < kind.variants:
                    raise KindError(
                        f"There is no variant {variant} of {name!r}: it has {kind.variants}, "
                        "counted from 0."
                    )
                return code + variant
            code += kind.variants
        names = ", ".join(kind.name for kind in self.objects) or "none"
        raise KindError(f"There is no kind of object {name!r}: there are {names}.")

    def read(self, code: int) -> tuple[Kind, int] | None:
        """The kind and the variant of an object code, or `None` for `NOTHING`.

        **Raises:** `KindError` when no kind has this code.
        """
        if code == NOTHING:
            return None
        first = 1
        for kind in self.objects:
            if first <= code < first + kind.variants:
                return kind, code - first
            first += kind.variants
        raise KindError(f"No kind of object has the code {code}: the last one is {first - 1}.")

    @functools.cached_property
    def walkable(self) -> tuple[int, ...]:
        """The numbers of the kinds of tiles that agents can enter."""
        return tuple(number for number, kind in enumerate(self.tiles) if not kind.solid)

    @functools.cached_property
    def wall(self) -> int:
        """The number of the solid tile that is used as a border: the kind named `"wall"`, or else
        the first solid kind.

        **Raises:** `KindError` when no kind of tile is solid.
        """
        solid = [number for number, kind in enumerate(self.tiles) if kind.solid]
        if not solid:
            raise KindError("A layout needs a border: declare a kind of tile that is solid.")
        return next((x for x in solid if self.tiles[x].name == "wall"), solid[0])

    @functools.cached_property
    def solid_codes(self) -> Bool[np.ndarray, " codes"]:
        """Whether each object code keeps agents from entering its cell."""
        # Code 0 means no object, so the codes of the first kind begin at 1.
        solid = [x for kind in self.objects for x in _per_variant(kind, kind.solid)]
        return np.asarray([False, *solid])

    @functools.cached_property
    def opaque_tiles(self) -> Bool[np.ndarray, " tiles"]:
        """Whether each kind of tile hides what is behind it."""
        return np.asarray([x for kind in self.tiles for x in _per_variant(kind, _opaque(kind))])

    @functools.cached_property
    def opaque_codes(self) -> Bool[np.ndarray, " codes"]:
        """Whether each object code hides what is behind it."""
        return np.asarray(
            [False, *(x for kind in self.objects for x in _per_variant(kind, _opaque(kind)))]
        )


def _per_variant(kind: Kind, value: bool | tuple[bool, ...]) -> tuple[bool, ...]:
    """A value for each variant of a kind."""
    return value if isinstance(value, tuple) else (value,) * kind.variants


def _opaque(kind: Kind) -> bool | tuple[bool, ...]:
    return kind.solid if kind.opaque is None else kind.opaque


def _characters(kind: Kind) -> list[str]:
    chars = kind.char if isinstance(kind.char, tuple) else (kind.char,)
    return [char for char in (*chars, *kind.aliases) if char is not None]


def _check_unique(values: list[str], what: str) -> None:
    for value in values:
        if values.count(value) > 1:
            raise KindError(f"Two kinds have {what} {value!r}: each needs its own.")


def _check_kind(kind: Kind, *, is_tile: bool) -> None:
    if kind.variants < 1:
        raise KindError(f"The kind {kind.name!r} needs at least one variant.")
    if is_tile and kind.char is None:
        raise KindError(f"The kind of tile {kind.name!r} needs a character for layouts.")
    if is_tile and kind.variants > 1:
        raise KindError(
            f"The kind of tile {kind.name!r} cannot have variants: give each its own kind."
        )
    for what in ("char", "solid", "opaque"):
        value = getattr(kind, what)
        if isinstance(value, tuple) and is_tile:
            raise KindError(f"The kind of tile {kind.name!r} has no variants: give one `{what}`.")
        if isinstance(value, tuple) and len(value) != kind.variants:
            raise KindError(
                f"The kind {kind.name!r} needs one `{what}`, or one for each of its "
                f"{kind.variants} variants, not {len(value)}."
            )
    for char in _characters(kind):
        if len(char) != 1 or not char.isprintable():
            raise KindError(f"The kind {kind.name!r} needs one character, not {char!r}.")
        if char in AGENT_CHARACTERS + "+":
            raise KindError(
                f"The kind {kind.name!r} cannot have the character {char!r}: the digits "
                "from 1, small letters and '+' mark the agents."
            )
