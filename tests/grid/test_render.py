"""Pictures: the right things change, in the right cells."""

import functools
import io
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import holds
from PIL import Image

from eqgrid.envs.overcooked import Item, encode, parse_kitchen
from eqgrid.grid import (
    IDLE,
    Direction,
    Kind,
    Kinds,
    Layout,
    Overlay,
    bare_looks,
    draw_look,
    draw_over_look,
    look_codes,
    look_png,
    looks,
    render,
    render_episode,
)

CRAMPED = parse_kitchen("XXPXX\nO  2O\nX1  X\nXDXSX")
CELL = 32


def edit(world, **changes):
    """A copy of a world with entries of leaves changed: `object=((0, 3), Item.DISH)`."""
    world = jax.tree.map(np.array, world)
    leaves = {
        "object": world.cells.object,
        "timer": world.cells.timer,
        "direction": world.bodies.direction,
        "position": world.bodies.position,
        "held": world.bodies.held,
        "time": world.time,
    }
    for name, (index, value) in changes.items():
        leaves[name][index] = value
    return jax.tree.map(jnp.asarray, world)


def draw(world, layout=CRAMPED):
    return render(layout, world, cell_pixels=CELL)


def changed_cells(before, after, layout=CRAMPED):
    """The cells in which two pictures differ; the bar below must not."""
    height, width = layout.tiles.shape
    differs = (before != after).any(axis=-1)
    assert not differs[height * CELL :].any()
    cells = differs[: height * CELL].reshape(height, CELL, width, CELL).any(axis=(1, 3))
    return {(int(row), int(col)) for row, col in np.argwhere(cells)}


def soup(timer, onions=3, tomatoes=0):
    pot = (0, 2)
    return edit(
        CRAMPED.start,
        object=(pot, encode(Item.SOUP.value, np.asarray([onions, tomatoes]))),
        timer=(pot, timer),
    )


@pytest.mark.parametrize("cell_pixels", [16, 33, 64])
def test_size_is_the_grid_and_a_slim_bar(cell_pixels):
    picture = render(CRAMPED, CRAMPED.start, cell_pixels=cell_pixels)
    assert picture.dtype == np.uint8
    assert picture.shape[1:] == (5 * cell_pixels, 3)
    assert 14 < picture.shape[0] - 4 * cell_pixels < max(cell_pixels, 24)


@pytest.mark.parametrize("cell", [(2, 2), (1, 3)], ids=["floor", "shelf"])
def test_an_object_shows_wherever_it_lies(cell):
    """Of kinds without a sprite, and also on tiles that do not say that objects may lie there."""
    pictures = []
    for says in (False, True):
        floor, wall = Kind("floor", " ", holds=says), Kind("wall", "#", solid=True)
        shelf = Kind("shelf", "S", solid=True, holds=says)
        kinds = Kinds((floor, wall, shelf), (Kind("box", "B", solid=True),))
        room = Layout.parse("#####\n#1 S#\n#   #\n#####", kinds)
        world = edit(room.start, object=(cell, kinds.code("box")))
        pictures.append(draw(world, room))
        assert changed_cells(draw(room.start, room), pictures[-1], room) == {cell}
    np.testing.assert_array_equal(*pictures)


def test_what_a_tile_draws_itself_is_drawn_once():
    drawn = []
    kinds = Kinds(
        (
            Kind("floor", " ", draws_object=True, sprite=lambda pen, look: None),
            Kind("wall", "#", solid=True),
        ),
        (Kind("box", "B", sprite=lambda pen, *where: drawn.append(where)),),
    )
    room = Layout.parse("####\n#1B#\n####", kinds)
    draw(room.start, room)
    assert not drawn


def test_all_headings_with_all_that_is_held_differ():
    held = [holds(item) for item in list(Item)[:4]]
    held += [holds(Item.SOUP, contents) for contents in ((3, 0), (0, 3), (2, 1), (1, 0))]
    pictures = [
        draw(edit(CRAMPED.start, direction=(1, heading), held=(1, thing)))
        for heading in Direction
        for thing in held
    ]
    for one, other in itertools.combinations(pictures, 2):
        assert changed_cells(one, other) == {(1, 3)}


def test_a_step_changes_both_cells():
    after = edit(CRAMPED.start, position=(0, (2, 2)))
    assert changed_cells(draw(CRAMPED.start), draw(after)) == {(2, 1), (2, 2)}


def test_pot_contents_and_countdown_show_in_the_pot_only():
    states = [CRAMPED.start]
    states += [soup(IDLE, *contents) for contents in ((1, 0), (0, 1), (2, 0), (1, 1), (3, 0))]
    states += [soup(timer) for timer in (20, 19, 9, 1, 0)]
    for one, other in itertools.combinations(map(draw, states), 2):
        assert changed_cells(one, other) == {(0, 2)}


def test_cooks_are_told_apart():
    cells = [(row, col) for row in range(1, 4) for col in range(1, 5)]
    layout = parse_kitchen("XXXXXX\nX    X\nX    X\nX    X\nXXXXXX", starts=cells)
    picture = draw(layout.start, layout)
    tiles = {
        picture[r * CELL : (r + 1) * CELL, c * CELL : (c + 1) * CELL].tobytes() for r, c in cells
    }
    assert len(tiles) == 12


def test_the_bar_shows_time_and_caption():
    plain = render(CRAMPED, CRAMPED.start, cell_pixels=CELL)
    scored = render(CRAMPED, CRAMPED.start, cell_pixels=CELL, caption="score 20")
    later = edit(CRAMPED.start, time=((), 7))
    bar = slice(4 * CELL, None)
    for other in (scored, render(CRAMPED, later, cell_pixels=CELL)):
        np.testing.assert_array_equal(plain[: 4 * CELL], other[: 4 * CELL])
        assert (plain[bar] != other[bar]).any()


def test_a_long_caption_is_shortened():
    picture = render(CRAMPED, CRAMPED.start, cell_pixels=16, caption="a very long caption " * 9)
    assert picture.shape[1] == 5 * 16


def video(count):
    """Worlds in which the first cook turns and a soup cooks, with a leading time axis."""
    worlds = [soup(count - 1 - t) for t in range(count)]
    worlds = [edit(world, direction=(0, t % 4), time=((), t)) for t, world in enumerate(worlds)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *worlds)


def test_a_video_decodes_to_its_pictures():
    worlds, captions = video(9), [f"score {t}" for t in range(9)]
    gif = Image.open(
        io.BytesIO(
            render_episode(
                CRAMPED, worlds, cell_pixels=CELL, frames_per_second=4, captions=captions
            )
        )
    )
    assert (gif.format, gif.n_frames, gif.info["duration"], gif.info["loop"]) == ("GIF", 9, 250, 0)
    for t in range(9):
        gif.seek(t)
        world = jax.tree.map(lambda leaf, t=t: leaf[t], worlds)
        picture = render(CRAMPED, world, cell_pixels=CELL, caption=captions[t])
        error = np.abs(np.asarray(gif.convert("RGB")).astype(int) - picture)
        assert error.mean() < 4
        assert error.max() < 64


def test_a_video_of_one_world():
    gif = Image.open(io.BytesIO(render_episode(CRAMPED, video(1), cell_pixels=CELL)))
    assert getattr(gif, "n_frames", 1) == 1


render_one = functools.partial(render, CRAMPED)
render_many = functools.partial(render_episode, CRAMPED)
REFUSED = {
    "small cells": (
        lambda: render_one(CRAMPED.start, cell_pixels=15),
        "`cell_pixels` must be at least 16",
    ),
    "another kitchen": (
        lambda: render_one(parse_kitchen("XXX\nX1X\nXXX").start),
        "must have the layout's grid",
    ),
    "one world": (lambda: render_many(CRAMPED.start), "a leading time axis"),
    "outside": (
        lambda: render_one(edit(CRAMPED.start, position=(0, (4, 1)))),
        "outside of the layout's grid",
    ),
    "no world": (
        lambda: render_many(jax.tree.map(lambda x: x[:0], video(1))),
        "at least one world",
    ),
    "no speed": (
        lambda: render_many(video(1), frames_per_second=0.0),
        "`frames_per_second` must be",
    ),
    "few captions": (lambda: render_many(video(2), captions=["one"]), "give one for each"),
}


@pytest.mark.parametrize(("draw_it", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_drawn_is_refused(draw_it, words):
    with pytest.raises(ValueError, match=words):
        draw_it()


def beam(layout, world):
    return world.extra * 2


def draw_beam(pen, number):
    assert number == 2
    pen.box(0, 0.4, 1, 0.6, fill="#FF0000")


def test_an_overlay_is_drawn_over_its_cells_for_as_long_as_it_is_there():
    tiles = (Kind("floor", " "), Kind("wall", "#", solid=True))
    plain = Layout.parse("#####\n#1 2#\n#####", Kinds(tiles))
    marks = np.zeros((2, *plain.tiles.shape), bool)
    marks[1, 1, 2:4] = True
    kinds = Kinds(tiles, overlay=Overlay(beam, draw_beam))
    layout = Layout.parse(str(plain), kinds).with_start(extra=marks[0])
    fired = layout.with_start(extra=marks[1]).start
    before, during = draw(layout.start, layout), draw(fired, layout)
    assert changed_cells(before, during, layout) == {(1, 2), (1, 3)}
    assert (before == draw(plain.start, plain)).all()
    worlds = jax.tree.map(lambda *x: jnp.stack(x), layout.start, fired, layout.start)
    video = Image.open(io.BytesIO(render_episode(layout, worlds, cell_pixels=CELL)))
    frames = [np.asarray(video.seek(i) or video.convert("RGB")) for i in range(video.n_frames)]
    assert (frames[0] != frames[1]).any()
    broken = Layout.parse(str(plain), Kinds(tiles, overlay=Overlay(lambda *_: 1, draw_beam)))
    with pytest.raises(ValueError, match="must return an array of shape"):
        render(broken, broken.start)


def test_a_picture_is_made_of_the_pictures_of_its_cells():
    height, width = CRAMPED.tiles.shape
    cells = [draw_look(CRAMPED.kinds, look, CELL) for look in looks(CRAMPED, CRAMPED.start)]
    grid = np.stack(cells).reshape(height, width, CELL, CELL, 3).swapaxes(1, 2)
    picture = draw(CRAMPED.start)[: height * CELL]
    np.testing.assert_array_equal(grid.reshape(picture.shape), picture)
    file = io.BytesIO(look_png(CRAMPED.kinds, looks(CRAMPED, CRAMPED.start)[0], CELL))
    np.testing.assert_array_equal(np.asarray(Image.open(file)), cells[0])
    with pytest.raises(ValueError, match="at least 16"):
        draw_look(CRAMPED.kinds, looks(CRAMPED, CRAMPED.start)[0], 8)


def test_the_picture_of_a_cell_is_its_bare_tile_and_what_is_over_it():
    world = edit(CRAMPED.start, held=(0, Item.DISH), object=((3, 0), Item.ONION))
    bare = bare_looks(CRAMPED)
    for look, under in zip(looks(CRAMPED, world), bare, strict=True):
        assert (under.agent, under.lying, under.timer) == (None, 0, IDLE)
        over = draw_over_look(CRAMPED.kinds, look, CELL)
        share = over[..., 3:] / 255
        joined = draw_look(CRAMPED.kinds, under, CELL) * (1 - share) + over[..., :3] * share
        assert np.abs(joined - draw_look(CRAMPED.kinds, look, CELL)).mean() < 2
    assert not draw_over_look(CRAMPED.kinds, bare[0], CELL).any()
    with pytest.raises(ValueError, match="at least 16"):
        draw_over_look(CRAMPED.kinds, bare[0], 8)


def test_what_is_drawn_is_computed_in_a_traced_program_too():
    world = edit(CRAMPED.start, held=(0, Item.DISH), object=((3, 0), Item.ONION))
    plain = look_codes(CRAMPED, world)
    traced = jax.jit(lambda world: look_codes(CRAMPED, world))(world)
    for own, other in zip(jax.tree.leaves(plain), jax.tree.leaves(traced), strict=True):
        np.testing.assert_array_equal(own, other)
    assert plain.lying.tolist().index(int(Item.ONION)) == 15
    assert plain.place.tolist() == [11, 8]
