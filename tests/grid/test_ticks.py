"""Ticks that see the cells beside a cell, and draw at random: a fire against a plain loop."""

import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from small_worlds import FLOOR, WALL, small_world

from eqgrid.grid import IDLE, AbstractTick, Kind, Kinds, Layout, Tick

KINDS = Kinds(
    (FLOOR, WALL),
    (Kind("tree", "T", solid=True), Kind("fire", "F", solid=True)),
)
TREE, FIRE = KINDS.code("tree"), KINDS.code("fire")
FOREST = Layout.parse(
    "\n".join(["#" * 12, "#1FTTTTTTTT#", *["#TTTTTTTTTT#"] * 4, "#TTT TTTTTT#", "#" * 12]), KINDS
)


@final
class Spread(AbstractTick):
    """A tree catches fire from each burning neighbour with a probability."""

    def __call__(self, spot):
        burning = (spot.next_cells.object == FIRE).sum()
        chance = 1 - (1 - spot.params) ** burning.astype(jnp.float32)
        catches = (spot.cell.object == TREE) & jax.random.bernoulli(spot.key, chance)
        code = jnp.where(catches, jnp.uint8(FIRE), spot.cell.object)
        return dataclasses.replace(spot.cell, object=code)


@final
class Sum(AbstractTick):
    """Keeps what is beside a cell, to see that all of it is there."""

    def __call__(self, spot):
        extra = jnp.append(spot.next_cells.extra[:, 0], spot.next_tiles.astype(jnp.int32))
        return dataclasses.replace(spot.cell, extra=extra)


def world_of(layout, *rules):
    return small_world(layout, phases=(Tick(rules),))


def burning(world):
    return np.asarray(world.cells.object) == FIRE


def test_a_fire_spreads_to_neighbours_at_its_rate():
    layout = dataclasses.replace(FOREST, params=jnp.float32(0.25))
    env = world_of(layout, Spread())
    step = eqx.filter_jit(
        eqx.filter_vmap(
            lambda key, world: env.step(key, world, jnp.asarray([4]))[1], in_axes=(0, None)
        )
    )
    world, caught, exposed = layout.start, 0.0, 0.0
    for number in range(12):
        keys = jax.random.split(jax.random.key(number), 64)
        after = step(keys, world)
        now, fire = burning(world), np.pad(burning(world), 1)
        beside = fire[:-2, 1:-1] * 1 + fire[2:, 1:-1] + fire[1:-1, 2:] + fire[1:-1, :-2]
        tree = np.asarray(world.cells.object) == TREE
        new = np.asarray(after.cells.object == FIRE)
        assert (new | ~now[None]).all()
        assert not new[:, ~now & (~tree | (beside == 0))].any()
        chance = 1 - 0.75 ** beside[tree & (beside > 0)]
        caught += new[:, tree & (beside > 0)].sum()
        exposed += 64 * chance.sum()
        world = jax.tree.map(lambda x: x[0], after)
    assert abs(caught / exposed - 1) < 0.05


def test_cells_and_rules_draw_independently():
    layout = dataclasses.replace(FOREST, params=jnp.float32(0.5))
    _, once = world_of(layout, Spread()).step(jax.random.key(1), layout.start, jnp.asarray([4]))
    _, twice = world_of(layout, Spread(), Spread()).step(
        jax.random.key(1), layout.start, jnp.asarray([4])
    )
    assert (burning(twice) | ~burning(once)).all()
    many = [
        burning(
            world_of(layout, Spread()).step(jax.random.key(i), layout.start, jnp.asarray([4]))[1]
        )
        for i in range(40)
    ]
    right, below = (np.asarray([fire[place] for fire in many]) for place in ((1, 3), (2, 2)))
    assert 0 < (right & below).sum() < right.sum()


def test_neighbours_are_north_south_east_and_west():
    kept = np.zeros((*FOREST.tiles.shape, 8), np.int32)
    kept[..., 0] = np.arange(FOREST.tiles.size).reshape(FOREST.tiles.shape) + 1
    cells = dataclasses.replace(FOREST.start.cells, extra=jnp.asarray(kept))
    start = dataclasses.replace(FOREST.start, cells=cells)
    layout = dataclasses.replace(FOREST, start=start)
    _, world = world_of(layout, Sum()).step(jax.random.key(0), start, jnp.asarray([4]))
    found = np.asarray(world.cells.extra)
    ids, tiles = (
        np.pad(x, 1, constant_values=fill)
        for x, fill in ((kept[..., 0], 0), (np.asarray(FOREST.tiles), KINDS.wall))
    )
    for row, col in np.ndindex(*FOREST.tiles.shape):
        beside = [(row, col + 1), (row + 2, col + 1), (row + 1, col + 2), (row + 1, col)]
        assert found[row, col].tolist() == [*(ids[x] for x in beside), *(tiles[x] for x in beside)]


def test_timers_beside_a_cell_are_idle_beyond_the_edge():
    kinds = dataclasses.replace(
        KINDS, tiles=(*KINDS.tiles, Kind("clock", "C", solid=True, duration=lambda params, code: 9))
    )
    layout = Layout.parse("###\n#1#\n#C#", kinds)

    @final
    class Look(AbstractTick):
        def __call__(self, spot):
            return dataclasses.replace(spot.cell, timer=spot.next_cells.timer.min())

    timer = jnp.full((3, 3), 5, jnp.int16)
    cells = dataclasses.replace(layout.start.cells, timer=timer)
    start = dataclasses.replace(layout.start, cells=cells)
    layout = dataclasses.replace(layout, start=start)
    _, world = world_of(layout, Look()).step(jax.random.key(0), start, jnp.asarray([4]))
    seen = np.asarray(world.cells.timer)
    assert seen[1, 1] == 5
    assert (np.delete(seen.reshape(-1), 4) == IDLE).all()


@final
class Reseed(AbstractTick):
    """A rule of a game that keeps a random key in every cell."""

    def __call__(self, spot):
        return dataclasses.replace(spot.cell, extra=jax.random.fold_in(spot.next_cells.extra[0], 1))


def test_keys_in_cells_have_neighbours_too():
    room = Layout.parse("#####\n#1  #\n#   #\n#####", KINDS)
    keys = jax.random.split(jax.random.key(0), (4, 5))
    env = world_of(room.with_start(cell_extra=keys), Reseed())
    _, world = env.reset(jax.random.key(1))
    _, world = env.step(jax.random.key(2), world, jnp.zeros(1, int))
    expected = jax.random.fold_in(keys[1, 2], 1)
    np.testing.assert_array_equal(
        jax.random.key_data(world.cells.extra[2, 2]), jax.random.key_data(expected)
    )
