"""The kinds of tiles and of objects that a game has, declared as values.

Every kind has a number, which is all that a state holds of it: the position of a tile's kind in
`Kinds.tiles`; for an object a *code*, 0 where there is none, and after it one code for each variant
of each kind. So two games may use one number for different things, and nothing is shared.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool

NOTHING = 0
"""The code of a cell in which no object lies, and of a hand that is empty."""

AGENT_CHARACTERS = "123456789abcdefghijklmnopqrstuvwxyz"
"""What marks, in the text of a layout, where each agent starts, in their order."""


class KindError(ValueError):
    """A kind that cannot be used: the message says which, and why."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of tile or of object.

    **Arguments:**

    - `name`: what rules, observations and messages call it.
    - `char`: what stands for it in the text of a layout, and on its block in a picture. Objects
        without one are not written there.
    - `solid`: nobody can enter a cell with it.
    - `carryable`: an agent may hold it (objects).
    - `holds`: objects may lie on it (tiles). `Planes` then show what lies under an agent; on other
        tiles, what lies there is drawn, and seen while nobody stands on it.
    - `draws_object`: its sprite draws what lies on it, too (tiles), such as what is in a box.
    - `variants`: in how many ways it differs (objects), such as levels; each has a code.
    - `duration`: for a tile with a clock (`Cell.timer`), how many steps the clock counts, from the
        layout's parameters and the code of what lies there. Pictures show it.
    - `sprite`: draws it; without one it is a block with its character. A tile is drawn by
        `sprite(pen, look)`, an object by `sprite(pen, variant, x, y, radius)`.
    """

    name: str
    char: str | None = None
    solid: bool = False
    carryable: bool = False
    holds: bool = False
    draws_object: bool = False
    variants: int = 1
    duration: Callable[[Any, int], int] | None = None
    sprite: Callable[..., None] | None = None


@dataclasses.dataclass(frozen=True)
class Kinds:
    """All kinds of one game.

    **Arguments:**

    - `tiles`: what can be built into a cell; it never changes during an episode. The first one is
        the floor, on which agents start.
    - `objects`: what can lie in a cell or be held.
    - `agent_sprite`: draws an agent: `agent_sprite(pen, agent, draw_object)`.

    **Raises:** `KindError` when a name or a character is used twice, a character cannot be used, or
    there are more kinds than fit into a byte.
    """

    tiles: tuple[Kind, ...]
    objects: tuple[Kind, ...] = ()
    agent_sprite: Callable[..., None] | None = None

    def __post_init__(self):
        if not self.tiles or self.tiles[0].solid:
            raise KindError("The first kind of tile must be a floor, which is not solid.")
        kinds = (*self.tiles, *self.objects)
        _check_unique([kind.name for kind in kinds], "the name")
        _check_unique([kind.char for kind in kinds if kind.char is not None], "the character")
        for kind in kinds:
            _check(kind, is_tile=kind in self.tiles)
        for count, what in ((self.num_tiles, "kinds of tiles"), (self.num_codes, "codes")):
            if count > 256:
                raise KindError(
                    f"The game has {count} {what}, but a cell has room for 256: use fewer."
                )

    @property
    def num_tiles(self) -> int:
        return len(self.tiles)

    @functools.cached_property
    def num_codes(self) -> int:
        """How many codes there are, with the one for nothing."""
        return 1 + sum(kind.variants for kind in self.objects)

    def tile(self, name: str) -> int:
        """The number of a kind of tile.

        **Raises:** `KindError` when there is none of this name.
        """
        names = [kind.name for kind in self.tiles]
        if name not in names:
            raise KindError(f"There is no kind of tile {name!r}: there are {', '.join(names)}.")
        return names.index(name)

    def code(self, name: str, variant: int = 0) -> int:
        """The code of a variant of a kind of object.

        **Raises:** `KindError` when there is none of this name, or no such variant.
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
        """The kind and the variant of a code, or `None` for `NOTHING`.

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
        """The numbers of the tiles that can be entered."""
        return tuple(number for number, kind in enumerate(self.tiles) if not kind.solid)

    @functools.cached_property
    def wall(self) -> int:
        """The number of the solid tile that surrounds a layout: the one named `"wall"`, or else the
        first that is solid.

        **Raises:** `KindError` when no tile is solid.
        """
        solid = [number for number, kind in enumerate(self.tiles) if kind.solid]
        if not solid:
            raise KindError("A layout needs a border: declare a kind of tile that is solid.")
        return next((x for x in solid if self.tiles[x].name == "wall"), solid[0])

    @functools.cached_property
    def solid_codes(self) -> Bool[np.ndarray, " codes"]:
        """Which codes keep agents out of a cell."""
        solid = [kind.solid for kind in self.objects for _ in range(kind.variants)]
        return np.asarray([False, *solid])


def _check_unique(values: list[str], what: str) -> None:
    for value in values:
        if values.count(value) > 1:
            raise KindError(f"Two kinds have {what} {value!r}: each needs its own.")


def _check(kind: Kind, *, is_tile: bool) -> None:
    if is_tile and kind.char is None:
        raise KindError(f"The kind of tile {kind.name!r} needs a character for layouts.")
    if kind.char is not None and (len(kind.char) != 1 or not kind.char.isprintable()):
        raise KindError(f"The kind {kind.name!r} needs one character, not {kind.char!r}.")
    if kind.char is not None and kind.char in AGENT_CHARACTERS + "+":
        raise KindError(
            f"The kind {kind.name!r} cannot have the character {kind.char!r}: digits, small "
            "letters and '+' mark the agents."
        )
    if kind.variants < 1:
        raise KindError(f"The kind {kind.name!r} needs at least one variant.")
