"""The collision rules against plain Python, for 1 to 12 bodies."""

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import naive_kitchen
import numpy as np
import pytest
from kitchen_checks import Action

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


def move_one(positions, headings, actions):
    """Where they are, and where they look."""
    after = moved(*arrays(positions, headings, actions))
    return after.position.tolist(), after.direction.tolist()


@pytest.mark.parametrize("count", range(1, 13))
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


def test_a_move_into_a_wall_only_turns():
    assert move_one([(1, 1)], [Direction.EAST], [Action.NORTH]) == ([[1, 1]], [Direction.NORTH])


@pytest.mark.parametrize("action", [Action.STAY, Action.INTERACT])
def test_staying_and_interacting_change_nothing(action):
    assert move_one([(1, 1)], [Direction.EAST], [action]) == ([[1, 1]], [Direction.EAST])


def test_following_into_a_cell_that_is_left_is_allowed():
    where, _ = move_one([(1, 1), (1, 2), (1, 3)], [0, 0, 0], [Action.EAST] * 3)
    assert where == [[1, 2], [1, 3], [1, 4]]


def test_a_ring_of_three_or_more_may_turn():
    where, _ = move_one(
        [(1, 4), (1, 5), (2, 5), (2, 4)],
        [0] * 4,
        [Action.EAST, Action.SOUTH, Action.WEST, Action.NORTH],
    )
    assert where == [[1, 5], [2, 5], [2, 4], [1, 4]]


@pytest.mark.parametrize(
    ("positions", "actions"),
    [
        ([(1, 1), (1, 3), (4, 1)], [Action.EAST, Action.WEST, Action.EAST]),  # to one cell
        ([(1, 1), (1, 2), (4, 1)], [Action.EAST, Action.WEST, Action.EAST]),  # swapping
        ([(1, 1), (1, 2), (4, 1)], [Action.EAST, Action.STAY, Action.EAST]),  # into one who stays
        ([(1, 1), (1, 2), (4, 1)], [Action.EAST, Action.NORTH, Action.EAST]),  # into one blocked
    ],
)
def test_a_collision_holds_bystanders_too_but_all_turn(positions, actions):
    where, looking = move_one(positions, [Direction.SOUTH] * 3, actions)
    assert where == [list(p) for p in positions]
    assert looking == [Direction.SOUTH if a == Action.STAY else a for a in actions]


def test_any_order_of_actions_turns_as_it_says():
    actions = (*MOVES, Stay(), Rotate("left"), Move(Direction.WEST))
    expected = [0, 1, 2, 3, 2, 0, 3]  # from east; a quarter to the left is north
    for shuffled in (range(7), (4, 6, 2, 0, 5, 1, 3), (0, 1, 2, 3, 4, 6)):
        count = len(shuffled)
        bodies = arrays(sorted(FLOOR)[:count], [Direction.EAST] * count, range(count))
        after = moved(*bodies, tuple(actions[i] for i in shuffled))
        assert after.direction.tolist() == [expected[i] for i in shuffled]


def move_by_local_rule(old, new, active):
    """Who enters a contested cell or swaps stays, and so does who follows one that stays."""
    agents = range(len(old))

    def others(i):
        return [j for j in agents if j != i and active[i] and active[j]]

    def stays(i, behind=()):
        if new[i] == old[i] or any(new[j] == new[i] for j in others(i)):
            return True
        ahead = [j for j in others(i) if old[j] == new[i]]
        if any(new[j] == old[i] for j in ahead):
            return True
        # A queue that bites its own tail turns.
        return any(j not in behind and stays(j, (*behind, i)) for j in ahead)

    return [old[i] if stays(i) else new[i] for i in agents]


@pytest.mark.parametrize("count", range(2, 8))
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
        cells = [[tuple(x) for x in where[i].tolist()] for where in (old, new, found)]
        assert cells[2] == move_by_local_rule(*cells[:2], active[i]), (cells, active[i])


@pytest.mark.parametrize("active", [None, [True] * 4], ids=["all", "listed"])
@pytest.mark.parametrize(
    ("old", "new", "moves"),
    [
        # The first one stays where it is, so the whole queue behind it does.
        ([(1, 4), (1, 3), (1, 2), (1, 1)], [(1, 4), (1, 4), (1, 3), (1, 2)], [0, 0, 0, 0]),
        # The first one goes on, and so does the queue.
        ([(1, 4), (1, 3), (1, 2), (1, 1)], [(1, 5), (1, 4), (1, 3), (1, 2)], [1, 1, 1, 1]),
        # The heads of two queues want one cell.
        ([(1, 3), (1, 2), (1, 5), (1, 6)], [(1, 4), (1, 3), (1, 4), (1, 5)], [0, 0, 0, 0]),
        # Two swap, so the queue behind them stays; the fourth has nothing to do with it.
        ([(1, 3), (1, 2), (1, 1), (4, 1)], [(1, 2), (1, 3), (1, 2), (4, 2)], [0, 0, 0, 1]),
        # Four that follow each other around a block turn.
        ([(1, 1), (1, 2), (2, 2), (2, 1)], [(1, 2), (2, 2), (2, 1), (1, 1)], [1, 1, 1, 1]),
    ],
)
def test_a_queue_moves_as_one(old, new, moves, active):
    old, new = jnp.asarray(old, jnp.int8), jnp.asarray(new, jnp.int8)
    after = LocalCollision()(old, new, None if active is None else jnp.asarray(active))
    expected = np.where(np.asarray(moves, bool)[:, None], new, old)
    np.testing.assert_array_equal(after, expected)


def test_a_body_that_is_away_holds_nobody_up():
    old = jnp.asarray([(1, 3), (1, 2), (1, 1)], jnp.int8)
    new = jnp.asarray([(1, 3), (1, 3), (1, 2)], jnp.int8)
    after = LocalCollision()(old, new, jnp.asarray([False, True, True]))
    assert after.tolist() == [[1, 3], [1, 3], [1, 2]]
