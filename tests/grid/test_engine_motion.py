"""The collision rule against a plain Python loop, for 1 to 12 bodies."""

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
    Move,
    Rotate,
    Stay,
    Step,
    _actions,
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


def moved(positions, headings, actions):
    """The bodies after one move, from arrays."""
    start = empty_world(KINDS, FIXTURES.shape, np.zeros((len(headings), 2), np.int8))
    held = jnp.zeros(headings.shape, jnp.uint8)
    world = eqx.tree_at(lambda w: w.bodies, start, Bodies(positions, headings, held))
    layout = Layout(jnp.asarray(FIXTURES), start, None, KINDS)
    step = Step(layout, actions, jax.random.key(0), world, world, ACTIONS)
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
        chosen = tuple(actions[i] for i in shuffled)
        turned = _actions.turned(
            chosen, jnp.arange(len(chosen)), jnp.full(len(chosen), Direction.EAST, jnp.int8)
        )
        np.testing.assert_array_equal(turned, [expected[i] for i in shuffled])
