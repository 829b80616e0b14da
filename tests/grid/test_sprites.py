"""Sprites look as they were recorded: `python tests/grid/test_sprites.py` records them again."""

import functools
import itertools
from pathlib import Path

import jax
import numpy as np
import pytest
from PIL import Image

from eqgrid import ENVIRONMENTS, make
from eqgrid.envs.overcooked_v2 import OvercookedV2, load_layout
from eqgrid.grid import IDLE, NOTHING, AgentLook, Look, draw_look

RECORD = Path(__file__).parents[1] / "golden" / "sprites"
CELL, COLUMNS = 24, 16
OPEN, CLOSED = (True, True, True, True), (False, False, False, False)
WORLDS = {name: functools.partial(make, name) for name in ENVIRONMENTS}
WORLDS["overcooked_v2"] = lambda: OvercookedV2(load_layout("two_rooms", num_ingredients=9))


def draw_sprites(name):
    """Tiles, objects on tiles, agents in all directions with all they can hold, and marks."""
    layout = WORLDS[name]().layout
    kinds, objects = layout.kinds, layout.kinds.objects
    ends = {x.name: (0, x.variants - 1) for x in objects}  # the first and the last variant
    codes = {x.name: sorted({kinds.code(x.name, i) for i in ends[x.name]}) for x in objects}
    held = [code for x in objects if x.carryable for code in codes[x.name]]
    floor = Look(0, NOTHING, IDLE, 0, 0, OPEN, 0.5, None)
    tiles = [
        floor._replace(tile=i, open_sides=x)
        for i in range(len(kinds.tiles))
        for x in (OPEN, CLOSED)
    ]
    looks = [
        *tiles,
        floor._replace(shade=1),
        *(floor._replace(mark=i) for i in range(1, 3) if kinds.overlay),
    ]
    for tile, kind in enumerate(kinds.tiles):
        timers = ((0, 10), (4, 10)) if kind.duration else ((IDLE, 0),)
        for code, (timer, duration) in itertools.product(itertools.chain(*codes.values()), timers):
            if kind.holds or kind.duration or kind.draws_object or tile == 0:
                looks.append(floor._replace(tile=tile, lying=code, timer=timer, duration=duration))
    leaves = jax.tree.leaves(layout.start.bodies.extra)
    extras = {tuple(x[i].item() for x in leaves) for i in range(2)} | {(True,) * len(leaves)}
    for code, direction, extra in itertools.product((NOTHING, *held), range(4), sorted(extras)):
        for number in (1, 2):
            agent = AgentLook(number, direction, code, number == 2, extra)
            looks.append(floor._replace(agent=agent))
    cells = [draw_look(kinds, look, CELL) for look in looks]
    cells += [np.zeros_like(cells[0])] * (-len(cells) % COLUMNS)
    starts = range(0, len(cells), COLUMNS)
    rows = [np.concatenate(cells[i : i + COLUMNS], axis=1) for i in starts]
    return np.concatenate(rows)


@pytest.mark.parametrize("name", WORLDS)
def test_sprites_are_as_recorded(name):
    recorded = np.asarray(Image.open(RECORD / f"{name}.png")).astype(int)
    # Another version of Pillow may smooth edges a little differently.
    np.testing.assert_allclose(draw_sprites(name), recorded, atol=24)


if __name__ == "__main__":
    RECORD.mkdir(parents=True, exist_ok=True)
    for name in WORLDS:
        Image.fromarray(draw_sprites(name)).save(RECORD / f"{name}.png", optimize=True)
