"""Steps to the side and back, and further entries of `info`."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import unchecked
from small_worlds import BARE, small_world

from eqgrid import LogEpisodes
from eqgrid.grid import Direction, Forward, Layout, Rotate, Stay, Strafe
from eqgrid_play.games import controls_of

ROOM = Layout.parse("#######\n#     #\n#  1  #\n#    2#\n#######", BARE)
ACTIONS = (
    Stay(),
    Forward(),
    Strafe("back"),
    Strafe("left"),
    Strafe("right"),
    Rotate("left"),
    Rotate("right"),
)
COMPASS = (Direction.NORTH, Direction.EAST, Direction.SOUTH, Direction.WEST)
DELTAS = {0: (-1, 0), 1: (1, 0), 2: (0, 1), 3: (0, -1)}
TURNS = {1: 0, 2: 2, 3: -1, 4: 1}
"""By how many quarters to the right of where it faces an agent goes, for each action."""


def rows(step):
    return step.world.bodies.position[:, 0].astype(jnp.int32)


def world_of(**parts):
    return small_world(ROOM, actions=ACTIONS, horizon=4, **parts)


@pytest.fixture(scope="module")
def step():
    return eqx.filter_jit(world_of().step)


@pytest.mark.parametrize("action", range(len(ACTIONS)))
@pytest.mark.parametrize("facing", range(4))
def test_an_agent_goes_to_its_side_and_faces_the_same_way(step, action, facing):
    env = world_of()
    _, world = env.reset(jax.random.key(0))
    world = eqx.tree_at(lambda w: w.bodies.direction, world, jnp.asarray([facing, 0], jnp.int8))
    _, after = step(jax.random.key(0), world, jnp.asarray([action, 0]))
    number = COMPASS.index(facing)
    row, col = 0, 0
    if action in TURNS:
        row, col = DELTAS[COMPASS[(number + TURNS[action]) % 4]]
    turn = {5: -1, 6: 1}.get(action, 0)
    assert after.bodies.position[0].tolist() == [2 + row, 3 + col]
    assert after.bodies.direction[0] == COMPASS[(number + turn) % 4]


def test_a_wall_stops_a_step_to_the_side():
    env = world_of()
    _, world = env.reset(jax.random.key(0))
    for action, expected in ((4, [3, 5]), (2, [3, 5]), (3, [3, 4]), (1, [2, 4])):
        _, world = env.step(jax.random.key(0), world, jnp.asarray([0, action]))
        assert world.bodies.position[1].tolist() == expected


def test_several_choices_may_have_steps_to_the_side():
    both = small_world(ROOM, actions=(ACTIONS[:3], (Stay(), Rotate("right"))))
    _, world = both.reset(jax.random.key(0))
    _, world = both.step(jax.random.key(0), world, jnp.asarray([[2, 1], [0, 0]]))
    assert world.bodies.position[0].tolist() == [2, 2]
    assert world.bodies.direction.tolist() == [Direction.EAST, Direction.NORTH]


def test_every_action_has_its_own_keys():
    controls = controls_of(ACTIONS)
    assert {"step back", "step left", "step right"} < {control.name for control in controls}
    keys = [key for control in controls for key in control.keys]
    assert len(set(keys)) == len(keys)


def test_a_game_adds_entries_of_info_that_are_summed():
    env = world_of(info={"rows": rows})
    logged = LogEpisodes(env, totals=("rows",))
    _, state = logged.reset(jax.random.key(0))
    found = []
    for _ in range(4):
        timestep, state = logged.step(jax.random.key(0), state, jnp.asarray([1, 1]))
        found.append(timestep.info["rows"])
    assert np.asarray(found).tolist() == [[1, 2], [1, 1], [1, 1], [1, 1]]
    assert timestep.info["episode_rows"].tolist() == [4, 5]


def test_an_entry_that_every_world_has_is_refused():
    with unchecked(), pytest.raises(ValueError, match="has the entry 'events' of info already"):
        world_of(info={"events": rows})
