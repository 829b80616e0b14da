"""The collision rules against plain Python, for 1 to 12 bodies."""

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import naive_kitchen
import numpy as np
import pytest
from naive_motion import settle

from eqgrid.envs.overcooked import ACTIONS, KINDS, Tile
from eqgrid.grid import (
    MOVES,
    Bodies,
    Direction,
    Go,
    JointCollision,
    Layout,
    LocalCollision,
    Move,
    Rotate,
    Stay,
    Step,
    empty_world,
)

FIXTURES = np.asarray(
    [
        [Tile.FLOOR if x == " " else Tile.COUNTER for x in row]
        for row in (
            "XXXXXXX",
            "X     X",
            "X X   X",
            "X   X X",
            "X     X",
            "XXXXXXX",
        )
    ],
    np.uint8,
)
FLOOR = {(int(row), int(col)) for row, col in np.argwhere(FIXTURES == Tile.FLOOR)}
CASES = 60


def moved(positions, headings, chosen, actions=ACTIONS):
    """The bodies after one move, from arrays."""
    start = empty_world(KINDS, FIXTURES.shape, np.zeros((len(headings), 2), np.int8))
    held = jnp.zeros(headings.shape, jnp.uint8)
    world = eqx.tree_at(lambda w: w.bodies, start, Bodies(positions, headings, held))
    layout = Layout(jnp.asarray(FIXTURES), start, None, KINDS)
    step = Step(layout, chosen, jax.random.key(0), world, world, actions)
    return Go(JointCollision())(step).world.bodies


move_many = eqx.filter_jit(eqx.filter_vmap(moved))


def arrays(positions, headings, actions):
    return (
        jnp.asarray(positions, jnp.int8),
        jnp.asarray(headings, jnp.int8),
        jnp.asarray(actions, jnp.int32),
    )


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 12])
@hypothesis.settings(max_examples=5, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32 - 1), calm=st.floats(0, 0.95))
def test_is_as_in_a_plain_loop(count, seed, calm):
    rng = np.random.default_rng(seed)
    places = np.asarray(sorted(FLOOR))
    positions = np.stack([rng.permutation(places)[:count] for _ in range(CASES)])
    headings = rng.integers(0, 4, (CASES, count))
    actions = np.where(rng.random((CASES, count)) < calm, 4, rng.integers(0, 6, (CASES, count)))
    after = move_many(*arrays(positions, headings, actions))
    for i in range(CASES):
        where, looking = naive_kitchen.move(
            FLOOR, [tuple(p) for p in positions[i].tolist()], headings[i].tolist(), actions[i]
        )
        assert [tuple(p) for p in after.position[i].tolist()] == where
        assert after.direction[i].tolist() == list(looking)
        assert len(set(where)) == count
        assert set(where) <= FLOOR


def test_any_order_of_actions_turns_as_it_says():
    actions = (*MOVES, Stay(), Rotate("left"), Move(Direction.WEST))
    expected = [0, 1, 2, 3, 2, 0, 3]  # from east; a quarter to the left is north
    for shuffled in (range(7), (4, 6, 2, 0, 5, 1, 3), (0, 1, 2, 3, 4, 6)):
        count = len(shuffled)
        bodies = arrays(sorted(FLOOR)[:count], [Direction.EAST] * count, range(count))
        after = moved(*bodies, tuple(actions[i] for i in shuffled))
        assert after.direction.tolist() == [expected[i] for i in shuffled]


@pytest.mark.parametrize("count", [2, 3, 5, 7])
def test_local_collisions_are_as_in_plain_python(count):
    """Bodies in 3 by 3 cells, where queues are long; some are away in half of the cases."""
    rng = np.random.default_rng(count)
    old = np.stack([rng.permutation(9)[:count] for _ in range(500)])
    old = np.stack([old // 3, old % 3], axis=-1)
    steps = np.array([(0, 0), (0, 1), (1, 0), (0, -1), (-1, 0)])
    new = old + steps[rng.integers(0, 5, (500, count))]
    new = np.where(((new < 0) | (new > 2)).any(axis=-1, keepdims=True), old, new)
    active = rng.random((500, count)) < np.repeat([1.0, 0.7], 250)[:, None]
    rule = eqx.filter_jit(jax.vmap(LocalCollision()))
    found = rule(jnp.asarray(old, jnp.int8), jnp.asarray(new, jnp.int8), jnp.asarray(active))
    for i in range(500):
        before, wanted, after = (
            {j: tuple(where[i, j].tolist()) for j in np.flatnonzero(active[i])}
            for where in (old, new, found)
        )
        assert after == settle(before, wanted)
