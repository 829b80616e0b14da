"""The initial state of a layout, changed in one call."""

import re

import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import assert_equal, refused
from small_worlds import BARE, FLOOR, WALL

from eqgrid.grid import Direction, Kind, Kinds, Layout, LayoutError, stack_layouts

KEY = Kind("key", "K", carryable=True)
KINDS = Kinds((FLOOR, WALL, Kind("lamp", "L", duration=lambda params, code: 5)), (KEY,))
ROOM = Layout.parse("######\n#12L #\n#    #\n######", KINDS)


def test_what_is_given_is_set_and_the_rest_stays():
    layout = ROOM.with_start(
        objects={(1, 1): KINDS.code("key")},
        timers={(1, 3): 5},
        directions=[Direction.EAST, Direction.WEST],
        held=[0, 1],
        cell_extra={"heat": np.ones((4, 6, 2), np.float32)},
        body_extra=jnp.zeros((2, 3)),
        extra=jnp.int32(7),
    )
    start = layout.start
    assert np.argwhere(np.asarray(start.cells.object)).tolist() == [[1, 1]]
    assert start.cells.timer[1, 3] == 5
    assert (np.asarray(start.cells.timer) == -1).sum() == 23
    assert start.bodies.direction.tolist() == [2, 3]
    assert start.bodies.held.tolist() == [0, 1]
    assert start.cells.extra["heat"].shape == (4, 6, 2)
    assert start.bodies.extra.shape == (2, 3)
    assert start.extra == 7
    assert_equal(layout.with_start(), layout)
    assert_equal(layout.with_start(held=[0, 0]).start.cells, start.cells)


REFUSALS = {
    "outside": ({"objects": {(4, 0): 1}}, "cell (4, 0) is not in the layout's (4, 6)"),
    "code": ({"objects": {(1, 1): 2}}, "object codes of this layout are from 0 to 1, but one is 2"),
    "held": ({"held": [0, 9]}, "held objects of this layout are from 0 to 1, but one is 9"),
    "few": ({"held": [0]}, "has 2 agents, but 1 held objects were given"),
    "direction": ({"directions": [0, 4]}, "directions of this layout are from 0 to 3"),
    "cells": ({"cell_extra": jnp.zeros((6, 4))}, "`cell_extra` must lead with (4, 6)"),
    "bodies": ({"body_extra": jnp.zeros(3)}, "`body_extra` must lead with (2,), but"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_does_not_fit_is_refused_in_one_sentence(name):
    given, words = REFUSALS[name]
    with refused(re.escape(words), LayoutError):
        ROOM.with_start(**given)


def test_only_single_layouts_are_changed():
    with pytest.raises(LayoutError, match="changes one layout: call it before they are stacked"):
        stack_layouts([ROOM, ROOM]).with_start(objects={(1, 1): 1})


def test_timers_need_a_kind_that_has_them():
    room = Layout.parse("####\n#1 #\n####", BARE)
    with pytest.raises(LayoutError, match="give a kind of tile a `duration`"):
        room.with_start(timers={(1, 1): 3})
