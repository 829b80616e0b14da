"""Variants of objects: doors that are solid, opaque and drawn by their state."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import refused
from small_worlds import FLOOR, small_world

from eqgrid.grid import (
    Around,
    Features,
    Kind,
    KindError,
    Kinds,
    Layout,
    LayoutError,
    free_cells,
    plane_names,
    render,
)

WALL = Kind("wall", "#", solid=True, aliases="X%")
DOOR = Kind("door", ("L", "C", "O"), variants=3, solid=(True, True, False))
KINDS = Kinds((FLOOR, WALL), (DOOR, Kind("key", "K", carryable=True)))
LOCKED, CLOSED, OPEN = (KINDS.code("door", variant) for variant in range(3))


@pytest.mark.parametrize(("door", "opens"), [("L", False), ("C", False), ("O", True)])
def test_agents_walk_through_an_open_door_alone(door, opens):
    layout = Layout.parse(f"#####\n#1{door} #\n#####", KINDS)
    env = small_world(layout)
    _, after = env.step(jax.random.key(0), layout.start, jnp.asarray([2]))
    assert after.bodies.position.tolist() == [[1, 2 if opens else 1]]
    assert bool(free_cells(layout, layout.start)[1, 2]) == opens
    around = Features((Around(),))
    seen = around(layout, layout.start, jnp.int32(9))[0]
    assert bool(seen[around.names(layout).index("east_free")]) == opens
    shown = np.asarray(env.observe(after))[0, ..., plane_names(KINDS).index("door")]
    assert shown[1, 2] == 1 + "LCO".index(door)  # also under the agent
    assert shown.sum() == shown[1, 2]


def test_each_state_looks_different():
    layouts = [Layout.parse(f"#####\n#1{door} #\n#####", KINDS) for door in "LCO"]
    pictures = [render(layout, layout.start) for layout in layouts]
    assert (pictures[0] != pictures[1]).any()
    assert (pictures[1] != pictures[2]).any()


def test_solid_and_opaque_are_told_by_variant():
    glass = Kind("glass", "G", solid=True, opaque=False)
    smoke = Kind("smoke", variants=2, opaque=(False, True))
    kinds = Kinds((FLOOR, WALL, glass), (DOOR, smoke))
    assert kinds.solid_codes.tolist() == [False, True, True, False, False, False]
    assert kinds.opaque_codes.tolist() == [False, True, True, False, False, True]
    assert kinds.opaque_tiles.tolist() == [False, True, False]


REFUSALS = {
    "two of three": (lambda: Kinds((FLOOR, WALL), (Kind("x", variants=3, solid=(True, False)),)),
        "'x' needs one `solid`, or one for each of its 3 variants, not 2"),
    "tile": (lambda: Kinds((FLOOR, Kind("door", "D", solid=(True,)))), "has no variants"),
    "twice": (lambda: Kinds((FLOOR, WALL), (Kind("x", ("A", "A"), variants=2),)), "character 'A'"),
    "long": (lambda: Kinds((FLOOR, WALL), (Kind("x", ("AB", None), variants=2),)), "not 'AB'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_used_is_refused_in_one_sentence(name):
    make, words = REFUSALS[name]
    with refused(words, KindError):
        make()


def test_texts_have_aliases_and_a_character_for_each_variant():
    layout = Layout.parse("X%#X#\nX1LOX\n#CKLX\nXXXXX", KINDS)
    assert layout.tiles.tolist() == [[1] * 5, [1, 0, 0, 0, 1], [1, 0, 0, 0, 1], [1] * 5]
    objects = [[0, LOCKED, OPEN], [CLOSED, KINDS.code("key"), LOCKED]]
    assert layout.start.cells.object[1:3, 1:4].tolist() == objects
    assert str(layout) == "#####\n#1LO#\n#CKL#\n#####"
    again = Layout.parse(str(layout), KINDS)
    assert (again.start.cells.object == layout.start.cells.object).all()


def test_a_legend_says_what_is_in_one_cell():
    kinds = dataclasses.replace(KINDS, tiles=(*KINDS.tiles, Kind("shelf", "S", solid=True)))
    legend = {"A": "1K", "B": "SK", "?": "O2"}
    layout = Layout.parse("#####\n#A?B#\n#####", kinds, legend=legend)
    assert layout.start.bodies.position.tolist() == [[1, 1], [1, 2]]
    key = kinds.code("key")
    assert layout.start.cells.object[1].tolist() == [0, key, OPEN, key, 0]
    assert layout.tiles[1].tolist() == [1, 0, 0, 2, 1]


@pytest.mark.parametrize(
    ("legend", "words"),
    [
        ({"K": "1K"}, "explains 'K', but must explain single characters"),
        ({"A": "KK"}, "room for one object"),
        ({"A": "1Z"}, "unknown character 'A' in row 2, column 2"),
    ],
)
def test_a_legend_that_cannot_be_read_is_refused(legend, words):
    with pytest.raises(LayoutError, match=words):
        Layout.parse("#####\n#A1 #\n#####", KINDS, legend=legend)
