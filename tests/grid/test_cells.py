"""Free cells: of a step, of a grid, and where something is placed at random."""

import dataclasses
import functools
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_worlds import small_world

from eqgrid.grid import (
    MOVES,
    AbstractFeature,
    Around,
    FacedAgent,
    Features,
    Kind,
    Kinds,
    Layout,
    LayoutError,
    Move,
    OwnPosition,
    Planes,
    RandomPositions,
    Rotate,
    Stay,
    Step,
    Use,
    WithProbability,
    free_cells,
    occupied_cells,
)


@final
class Season(AbstractFeature):
    """What the game keeps for the world, and the time."""

    def names(self, kinds, num_agents):
        return ("warmth", "rain", "time")

    def __call__(self, sight):
        return jnp.append(sight.world.extra, sight.world.time.astype(jnp.float32))


KINDS = Kinds(
    (Kind("floor", " "), Kind("wall", "#", solid=True), Kind("grass", "G")),
    (Kind("rock", "R", solid=True), Kind("leaf", "L")),
)
LAYOUT = Layout.parse("######\n#1RG2#\n#3 L #\n######", KINDS)
ACTIONS = (*MOVES, Stay(), Use("take"), Use("drop"), Rotate("left"))


def step_of(action, active=None):
    bodies = dataclasses.replace(LAYOUT.start.bodies, active=active)
    world = dataclasses.replace(LAYOUT.start, bodies=bodies)
    return Step(LAYOUT, jnp.asarray(action), jax.random.key(0), world, world, ACTIONS)


def test_cells_are_free_and_occupied_as_in_a_plain_loop():
    active = np.asarray([True, False, True])
    step = step_of([4, 4, 4], jnp.asarray(active))
    places = np.asarray([(row, col) for row in range(-1, 5) for col in range(-1, 7)])
    free, occupied = (
        np.asarray(f(jnp.asarray(places, jnp.int32))) for f in (step.is_free, step.occupied)
    )
    text = str(LAYOUT).splitlines()
    agents = {(1, 1), (2, 1)}
    for (row, col), is_free, is_occupied in zip(places.tolist(), free, occupied, strict=True):
        inside = 0 <= row < 4 and 0 <= col < 6
        assert is_free == (inside and text[row][col] not in "#R")
        assert is_occupied == ((row, col) in agents)
        if inside:
            assert free_cells(LAYOUT, step.world)[row, col] == (is_free and not is_occupied)
            assert occupied_cells(step.world)[row, col] == is_occupied


def test_steps_say_who_chose_what():
    step = step_of([0, 5, 7])
    assert step.chose(Move).tolist() == [True, False, False]
    assert step.chose(Use("take"), Rotate).tolist() == [False, True, True]
    assert step.chose(Use("drop")).tolist() == [False, False, False]
    assert step.uses().tolist() == step.chose(Use).tolist() == [False, True, False]


@pytest.mark.parametrize(
    "starts", [(RandomPositions(),), (WithProbability(0.5, (RandomPositions(),)),)]
)
def test_too_little_room_is_refused_when_a_world_is_built(starts):
    full = Layout.parse("####\n#12#\n####", KINDS)
    too_full = Layout.parse("#####\n#R12#\n#####", KINDS)
    env = small_world(full, starts=starts)
    assert {tuple(x) for x in env.reset(jax.random.key(0))[1].bodies.position.tolist()} == {
        (1, 1),
        (1, 2),
    }
    assert small_world(too_full, starts=starts).num_agents == 2
    cramped = eqx.tree_at(lambda x: x.tiles, full, full.tiles.at[1, 1].set(KINDS.tile("grass")))
    words = "1 free cells, which is too few to place 2 agents"
    with pytest.raises(LayoutError, match=words):
        small_world(cramped, starts=starts)
    with pytest.raises(LayoutError, match=words):
        env.with_layout(cramped)


def test_agents_that_are_not_active_are_not_seen():
    layout = Layout.parse("#####\n#12 #\n#####", KINDS)
    east = jnp.full(2, 2, jnp.int8)
    for active, seen in ((jnp.asarray([True, True]), 1.0), (jnp.asarray([True, False]), 0.0)):
        bodies = dataclasses.replace(layout.start.bodies, active=active, direction=east)
        world = dataclasses.replace(layout.start, bodies=bodies)
        numbers = Features((FacedAgent(), Around()))(layout, world, jnp.int32(9))[0]
        around = Features((Around(),)).names(layout)
        assert numbers[0] == seen
        assert numbers[1 + around.index("east_agent")] == seen
        assert numbers[1 + around.index("east_free")] == 1.0 - seen


def warm(sight):
    return sight.world.cells.extra


def late(sight):
    return (sight.world.time > 3).astype(jnp.uint8)


def mine(sight):
    return (sight.nearness < sight.nearness.size).astype(bool)


def with_heat(heat, time=0):
    """The world with a number in each cell."""
    cells = dataclasses.replace(LAYOUT.start.cells, extra=jnp.asarray(heat))
    return dataclasses.replace(LAYOUT.start, cells=cells, time=jnp.int32(time))


def look(world, **options):
    return np.asarray(Planes(**options)(LAYOUT, world, jnp.int32(9)))


def windows(picture, world, radius):
    """What the agents see of a picture of the grid, beyond which there is nothing."""
    padded = np.pad(picture, ((radius, radius), (radius, radius), (0, 0)))
    side = 2 * radius + 1
    return [padded[row : row + side, col : col + side] for row, col in world.bodies.position]


def test_layers_show_what_a_game_keeps():
    heat = np.arange(24, dtype=np.uint8).reshape(4, 6)
    world = with_heat(heat, time=5)
    whole = look(world, layers=(warm, late, mine))
    assert (whole[..., :-3] == look(world)).all()
    assert (whole[..., -3] == heat).all()
    assert (whole[..., -2] == 1).all()
    for agent, place in enumerate(world.bodies.position.tolist()):
        assert np.argwhere(whole[agent, ..., -1]).tolist() == [place]


def bit(number, sight):
    return (sight.world.cells.extra >> number) % 2 == 1


@pytest.mark.parametrize("radius", [None, 2])
def test_any_number_of_layers_is_shown_in_order(radius):
    """Also of so many that the table of appearances has no room for all of them."""
    heat = np.random.default_rng(0).integers(0, 256, (4, 6), dtype=np.uint8)
    world = with_heat(heat)
    bits = tuple(functools.partial(bit, n) for n in range(8))
    layers = (*bits[:3], warm, *bits, warm, *bits)
    seen = look(world, radius=radius, layers=layers)
    assert (seen[..., : -len(layers)] == look(world, radius=radius)).all()
    one = [(heat >> n) % 2 for n in range(8)]
    expected = np.stack([*one[:3], heat, *one, heat, *one], axis=-1)
    each = [expected] * 3 if radius is None else windows(expected, world, radius)
    assert (seen[..., -len(layers) :] == np.stack(each)).all()


def ending(views):
    return views.last_steps


@pytest.mark.parametrize("left", [4, 5])
def test_layers_and_the_last_steps_share_a_table(left):
    heat = np.random.default_rng(0).integers(0, 256, (4, 6), dtype=np.uint8)
    world = with_heat(heat)
    first, second = (functools.partial(bit, n) for n in (0, 7))
    planes = Planes((ending,), last_steps=5, layers=(first, second, warm))
    seen = np.asarray(planes(LAYOUT, world, jnp.int32(left)))
    expected = np.stack([np.full((4, 6), left < 5), heat % 2, heat >> 7, heat], axis=-1)
    assert (seen == expected).all()


def test_a_layer_of_other_numbers_is_refused():
    env = small_world(LAYOUT, observation=Planes(layers=(lambda sight: sight.nearness,)))
    with pytest.raises(ValueError, match=r"must give booleans or uint8, but .* gives int32"):
        env.reset(jax.random.key(0))


def test_features_see_the_whole_world():
    extra = jnp.asarray([7.0, 8.0])
    world = dataclasses.replace(LAYOUT.start, extra=extra, time=jnp.int32(5))
    seen = Features((OwnPosition(), Season()))(LAYOUT, world, jnp.int32(9))
    assert seen[:, 2:].tolist() == [[7.0, 8.0, 5.0]] * 3
