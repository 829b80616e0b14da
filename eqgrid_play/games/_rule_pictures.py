"""Draws the pictures that explain the rules of a world, from `WorldSettings.rule_pictures`."""

import base64
import re

import jax
import numpy as np

from eqgrid.grid import IDLE, NOTHING, AgentLook, Direction, Layout, Look, look_png, top_of
from eqgrid_lab.worlds import WorldSettings

_CELL = re.compile(
    r"(\d?)([a-z]\w*)?(?:/(\w+)(?:\.(-?\d+))?)?(?:@(\d+))?(?:\*(\d+))?(?:=(\d+))?", re.ASCII
)
_PIXELS = 64
_OPEN = (True, True, True, True)


def draw_rules(settings: WorldSettings, layout: Layout) -> list[tuple[list[str], str, str]]:
    """The pictures that explain the rules in a layout of NumPy arrays, as in `Opening`."""
    found: list[tuple[list[str], str, str]] = []
    for line in settings.rule_pictures(layout.kinds).strip().splitlines():
        texts, _, caption = line.partition("|")
        cells = [_read(text, layout) for text in texts.split()]
        cells = [x for x in cells if x[0].tile == 0 or x[0].tile in layout.tiles]
        pictures = [look_png(layout.kinds, look, _PIXELS) for look, _ in cells]
        encoded = [base64.b64encode(picture).decode() for picture in pictures]
        if cells:
            found.append((encoded, caption.strip(), ", ".join(words for _, words in cells)))
    return found


def _read(text: str, layout: Layout) -> tuple[Look, str]:
    """The look of a cell from its text, and the cell in words."""
    match, kinds = _CELL.fullmatch(text), layout.kinds
    assert match is not None, f"{text!r} is not a cell of a picture"
    seat, name, thing, variant, timer, mark, extra = match.groups()
    tile, code, agent = kinds.tile(name) if name else 0, NOTHING, None
    if thing:
        variants = next(kind.variants for kind in kinds.objects if kind.name == thing)
        code = kinds.code(thing, int(variant or 0) % variants)
    kind, time = kinds.tiles[tile], int(timer or IDLE)
    length = kind.duration(layout.params, code) if kind.duration and time > 0 else 0
    if seat:
        leaves = jax.tree.leaves(layout.start.bodies.extra)
        own = [int(extra)] if extra else [x for leaf in leaves for x in np.ravel(leaf[0])]
        side = Direction.EAST if seat == "1" else Direction.WEST
        agent, code = AgentLook(int(seat), side, code, False, tuple(own)), NOTHING
    middle = top_of(_OPEN) / 2 if kind.solid else 0.5
    words = " with ".join(x for x in (seat and "agent", name, thing) if x) or "floor"
    look = Look(tile, code, time, length, 0, _OPEN, middle, agent, int(mark or 0))
    return look, words.replace("_", " ")
