"""Egocentric planes against a rotation in NumPy, and the line of sight against a plain loop."""

import dataclasses

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest

from eqgrid.grid import (
    Direction,
    Egocentric,
    Kind,
    Kinds,
    Layout,
    Planes,
    plane_names,
    visible_cells,
)

KINDS = Kinds(
    tiles=(
        Kind("floor", " ", holds=True),
        Kind("wall", "#", solid=True),
        Kind("glass", "G", solid=True, opaque=False),
    ),
    objects=(
        Kind("door", ("C", "O"), variants=2, solid=(True, False)),
        Kind("rock", "R", solid=True),
    ),
)
LAYOUT = Layout.parse(
    """
    ##########
    #1  #   C#
    # R #  2 #
    #   O    #
    # G #  3 #
    #4  ##C###
    #    R   #
    ##########""",
    KINDS,
)
NAMES = plane_names(KINDS)
TURNS = {Direction.NORTH: 0, Direction.EAST: 1, Direction.SOUTH: 2, Direction.WEST: 3}


def world_of(seed):
    """The layout with agents on other cells, that face other ways, and numbers in its cells."""
    rng = np.random.default_rng(seed)
    floor = np.argwhere(
        (np.asarray(LAYOUT.tiles) == 0) & (np.asarray(LAYOUT.start.cells.object) == 0)
    )
    bodies = dataclasses.replace(
        LAYOUT.start.bodies,
        position=jnp.asarray(rng.permutation(floor)[:4], jnp.int8),
        direction=jnp.asarray(rng.integers(0, 4, 4), jnp.int8),
        active=jnp.asarray([True, True, seed % 2 == 0, True]),
    )
    cells = dataclasses.replace(
        LAYOUT.start.cells, extra=jnp.asarray(rng.integers(1, 255, LAYOUT.tiles.shape), jnp.uint8)
    )
    return dataclasses.replace(LAYOUT.start, bodies=bodies, cells=cells)


def heat(sight):
    return sight.world.cells.extra


def hot(sight):
    return heat(sight) > 100


def naive_window(picture, position, heading, radius, ahead):
    """The window of the picture of the whole grid, turned."""
    edge = 2 * radius
    padded = np.pad(picture, [(edge, edge), (edge, edge), (0, 0)])
    dy, dx = {0: (-1, 0), 1: (1, 0), 2: (0, 1), 3: (0, -1)}[heading]
    row, col = position[0] + edge + ahead * dy, position[1] + edge + ahead * dx
    window = padded[row - radius : row + radius + 1, col - radius : col + radius + 1]
    return np.rot90(window, TURNS[Direction(heading)])


def naive_directions(window, heading):
    """Exchanges the planes of directions: what goes with the heading goes up."""
    turned = window.copy()
    clockwise = list(TURNS)
    for who in ("own", "other"):
        for place, absolute in enumerate(clockwise):
            relative = clockwise[(place - TURNS[Direction(heading)]) % 4]
            to, of = (NAMES.index(f"{who}_{x.name.lower()}") for x in (relative, absolute))
            turned[..., to] = window[..., of]
    return turned


@eqx.filter_jit
def observe(observation, world):
    return observation(LAYOUT, world, jnp.int32(9))


@pytest.mark.parametrize(("radius", "ahead"), [(1, 0), (3, 0), (3, 3), (2, 1)])
@pytest.mark.parametrize("seed", range(2))
def test_windows_are_turned_as_in_numpy(radius, ahead, seed):
    world = world_of(seed)
    whole = np.asarray(observe(Planes(layers=(heat, hot)), world))
    seen = observe(Egocentric(Planes(radius=radius, layers=(heat, hot)), ahead), world)
    for agent in range(4):
        heading = int(world.bodies.direction[agent])
        position = world.bodies.position[agent].tolist()
        window = naive_window(whole[agent], position, heading, radius, ahead)
        assert (seen[agent] == naive_directions(window, heading)).all()
        if world.bodies.active[agent]:
            own = np.argwhere(np.asarray(seen[agent, ..., NAMES.index("own_north")]))
            assert own.tolist() == [[radius + ahead, radius]]


def naive_sight(opaque, row, col):
    """MiniGrid's rule as two plain loops, and the same downwards."""
    lit = np.zeros(opaque.shape, bool)
    lit[row, col] = True
    height, width = opaque.shape
    for step, rows in ((-1, range(row, -1, -1)), (1, range(row, height))):
        for y in rows:
            for cols, side in ((range(width - 1), 1), (range(width - 1, 0, -1), -1)):
                for x in cols:
                    if lit[y, x] and not opaque[y, x]:
                        lit[y, x + side] = True
                        if 0 <= y + step < height:
                            lit[y + step, x] = lit[y + step, x + side] = True
    return lit


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(
    seed=st.integers(0, 2**32 - 1), share=st.floats(0, 0.7), radius=st.sampled_from([1, 3])
)
def test_light_spreads_as_in_plain_loops(seed, share, radius):
    rng = np.random.default_rng(seed)
    opaque = rng.random((2 * radius + 1,) * 2) < share
    for row in {radius, 2 * radius}:
        seen = visible_cells(jnp.asarray(opaque), row=row, col=radius)
        assert (np.asarray(seen) == naive_sight(opaque, row, radius)).all()


@pytest.mark.parametrize("ahead", [0, 3])
@pytest.mark.parametrize("seed", range(2))
def test_walls_and_closed_doors_hide_what_is_behind(ahead, seed):
    world = world_of(seed)
    planes = Planes(radius=3, layers=(heat, hot))
    seen, masked = (
        np.asarray(observe(Egocentric(planes, ahead, line_of_sight=x), world))
        for x in (False, True)
    )
    code = np.asarray(world.cells.object)
    closed = (code == KINDS.code("door")) | (code == KINDS.code("rock"))
    opaque = (np.asarray(LAYOUT.tiles) == KINDS.tile("wall")) | closed
    for agent in range(4):
        heading, position = (
            int(world.bodies.direction[agent]),
            world.bodies.position[agent].tolist(),
        )
        clear = naive_window(~opaque[..., None], position, heading, 3, ahead)[..., 0]
        visible = naive_sight(~clear, 3 + ahead, 3)
        assert not visible.all()
        assert (masked[agent] == np.where(visible[..., None], seen[agent], 0)).all()


@pytest.mark.parametrize(
    ("planes", "ahead", "words"),
    [(Planes(), 0, "give Planes a `radius`"), (Planes(radius=2), 3, "from 0 to the radius, 2")],
)
def test_what_has_no_window_is_refused(planes, ahead, words):
    with pytest.raises(ValueError, match=words):
        Egocentric(planes, ahead)
