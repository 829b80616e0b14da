"""Harvest: every step against plain Python, single rules by hand, and what is refused."""

import os

import equinox as eqx
import jax
import jax.numpy as jnp
import naive_commons as naive
import numpy as np
import pytest
from commons_checks import compare, play, rules_of
from kitchen_checks import unchecked

from eqgrid import make
from eqgrid.envs.commons import (
    HARVEST_ACTIONS,
    KINDS,
    MEASURES,
    ORCHARDS,
    REGROWTH,
    Harvest,
    Regrow,
    count_near,
)
from eqgrid.grid import Direction, Layout, LayoutError, Stay

STEPS = int(os.environ.get("EQGRID_PARITY_STEPS", "400"))
"""How many steps are compared for each number of agents."""

TEXT = """
    ########
    #PP1   #
    #  A A2#
    # BAAA #
    #3P A  #
    ########"""


@pytest.mark.parametrize(
    ("layout", "agents", "options"),
    [
        (TEXT, 1, {}),
        (TEXT, 4, {"shared": True, "regrowth": (0.1, 0.3, 0.5), "away": 2, "zap_cost": 0.5}),
        ("small", 3, {"beam_length": 5, "beam_radius": 2, "cooldown": 0, "zapped_cost": 3.0}),
    ],
)
def test_some_steps_are_as_in_plain_python(layout, agents, options):
    env = Harvest(layout, num_agents=agents, radius=2, horizon=150, **options)
    compare(env, rules_of(REGROWTH, options), 150, seed=agents, radius=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "agents", "options"),
    [
        ("open", 7, {}),
        ("open", 12, {"shared": True, "regrowth": (0.05, 0.1, 0.2, 0.3)}),
        ("small", 3, {"beam_radius": 0, "away": 1, "zap_cost": 1.0, "zapped_cost": 50.0}),
        ("small", 8, {"away": 30, "cooldown": 0, "beam_length": 6, "beam_radius": 3}),
    ],
)
def test_every_step_is_as_in_plain_python(layout, agents, options):
    env = Harvest(layout, num_agents=agents, horizon=STEPS, **options)
    compare(env, rules_of(REGROWTH, options), STEPS, seed=agents, radius=5)


def world_of(text, agents, **options):
    """A world in which the agents stand in given `(place, facing)`."""
    env = Harvest(text, num_agents=len(agents), radius=1, regrowth=(0.0,), **options)
    places, facing = zip(*agents, strict=True)
    return env, eqx.tree_at(
        lambda w: (w.bodies.position, w.bodies.direction),
        env.layout.start,
        (jnp.asarray(places, jnp.int8), jnp.asarray(facing, jnp.int8)),
    )


def acts(env, world, *names):
    numbers = jnp.asarray([naive.__dict__[name] for name in names])
    return env.step(jax.random.key(0), world, numbers)


ROOM = """
    ########
    #PPPPPP#
    #PPPPPP#
    #PPPAPP#
    ########"""


def test_a_beam_covers_nine_cells_and_stops_at_who_is_hit():
    agents = [((3, 1), Direction.NORTH), ((1, 6), Direction.NORTH)]
    env, world = world_of(ROOM, agents)
    timestep, after = acts(env, world, "ZAP", "STAY")
    lit = {tuple(x) for x in np.argwhere(np.asarray(after.cells.extra)).tolist()}
    assert lit == {(1, 1), (2, 1), (1, 2), (2, 2), (3, 2)}  # left of it is a wall
    assert timestep.info["events"].tolist() == [[0, 1, 0], [0, 0, 0]]
    agents = [((2, 2), Direction.EAST), ((2, 3), Direction.WEST), ((2, 4), Direction.WEST)]
    env, world = world_of(ROOM, agents)
    timestep, after = acts(env, world, "ZAP", "ZAP", "STAY")
    assert after.bodies.active.tolist() == [False, False, True]  # both, and nobody behind them
    assert timestep.info["events"][:, 2].tolist() == [1, 1, 0]


def test_an_agent_that_is_hit_is_away_for_some_steps():
    agents = [((2, 2), Direction.EAST), ((2, 4), Direction.NORTH)]
    env, world = world_of(ROOM, agents, away=3)
    _, world = acts(env, world, "ZAP", "STAY")
    active = []
    for _ in range(4):
        _, world = acts(env, world, "STAY", "FORWARD")
        active.append(bool(world.bodies.active[1]))
    assert active == [False, False, True, True]
    row, col = world.bodies.position[1].tolist()
    assert env.layout.tiles[row, col] == KINDS.tile("start")


def test_a_beam_cools_down():
    env, world = world_of(ROOM, [((2, 2), Direction.EAST)], cooldown=2)
    shots = []
    for _ in range(7):
        timestep, world = acts(env, world, "ZAP")
        shots.append(int(timestep.info["events"][0, 1]))
    assert shots == [1, 0, 0, 1, 0, 0, 1]


def test_who_walks_onto_an_apple_is_paid():
    agents = [((3, 3), Direction.EAST), ((1, 1), Direction.EAST)]
    for shared, paid in ((False, [1, 0]), (True, [1, 1])):
        env, world = world_of(ROOM, agents, shared=shared)
        timestep, after = acts(env, world, "FORWARD", "STAY")
        assert timestep.reward.tolist() == paid
        assert after.cells.object.sum() == 0
        assert timestep.info["events"].tolist() == [[1, 0, 0], [0, 0, 0]]
        assert not acts(env, after, "STAY", "STAY")[0].reward.any()


def test_a_shot_and_a_hit_cost():
    agents = [((2, 2), Direction.EAST), ((2, 4), Direction.EAST)]
    env, world = world_of(ROOM, agents, zap_cost=1.0, zapped_cost=50.0)
    assert acts(env, world, "ZAP", "STAY")[0].reward.tolist() == [-1, -50]


def test_apples_near_are_counted_in_a_disc():
    marked = np.zeros((7, 7), bool)
    marked[3, 3] = True
    count = np.asarray(count_near(jnp.asarray(marked), 2))
    expected = [[0 < (i - 3) ** 2 + (j - 3) ** 2 <= 4 for j in range(7)] for i in range(7)]
    assert count.tolist() == np.asarray(expected, int).tolist()
    assert count.sum() == 12


@pytest.mark.parametrize("radius", [0, 9, 1.5])
def test_a_radius_of_regrowth_is_refused_that_cannot_be_counted(radius):
    with unchecked(), pytest.raises(ValueError, match="radius"):
        Regrow((0.1,), radius)
    everywhere = count_near(jnp.ones((19, 19), bool), 8)
    assert everywhere[9, 9] == sum(
        0 < i * i + j * j <= 64 for i in range(-8, 9) for j in range(-8, 9)
    )


def test_nothing_grows_where_no_apple_is_left(key):
    """The default probabilities, for a patch that was eaten and one with a single apple."""
    env = Harvest("######\n#P   #\n#BBBB#\n#    #\n#   B#\n#A   #\n######", num_agents=1)
    _, world = env.reset(key)
    _, worlds = play(env, world, jax.random.split(key, 400), jnp.zeros((400, 1), int))
    objects = np.asarray(worlds.cells.object)
    assert not objects[-1][2, 1:5].any()
    assert objects[-1][5, 1] == KINDS.code("apple")


def test_measures_are_those_of_a_plain_loop(key):
    env = Harvest("small", regrowth=(0.05,), horizon=200)
    _, world = env.reset(key)
    actions = jax.random.randint(key, (200, 3), 0, len(HARVEST_ACTIONS))
    timesteps, worlds = play(env, world, jax.random.split(key, 200), actions)
    before = jnp.concatenate([jnp.ones((1, 3), bool), worlds.bodies.active[:-1]])
    trace = np.stack([timesteps.info["events"][..., 0], ~before], axis=-1).tolist()
    expected = naive.measure(trace)
    last = jax.tree.map(lambda x: x[-1], worlds)
    for (name, measure), number in zip(MEASURES.items(), expected, strict=True):
        assert number > 0
        assert float(measure(last)) == pytest.approx(number, rel=1e-5)
        assert float(timesteps.info[name].sum()) == pytest.approx(number, rel=1e-3)


def test_measures_of_nothing_are_zero_but_peace():
    env, world = world_of(ROOM, [((1, 1), Direction.NORTH), ((1, 3), Direction.NORTH)])
    _, after = acts(env, world, "STAY", "STAY")
    assert [float(measure(after)) for measure in MEASURES.values()] == [0, 0, 0, 2]
    assert [float(measure(world)) for measure in MEASURES.values()] == [0, 0, 0, 0]
    assert naive.measure([[(False, False), (False, False)]]) == (0, 0, 0, 2)


def test_a_picture_shows_a_beam(key):
    env = make("harvest", layout="small")
    _, world = env.reset(key)
    plain = env.render(world, cell_pixels=16)
    shot = acts(env, world, "ZAP", "ZAP", "ZAP")[1]
    assert (env.render(shot, cell_pixels=16) != plain).any()


def test_agents_start_in_marked_cells(key):
    env = Harvest()
    assert (env.num_agents, env.shape, env.actions[0]) == (7, (18, 24), Stay())
    worlds = jax.vmap(lambda k: env.reset(k)[1])(jax.random.split(key, 64))
    rows, cols = np.asarray(worlds.bodies.position).reshape(-1, 2).T
    assert (np.asarray(env.layout.tiles)[rows, cols] == KINDS.tile("start")).all()
    assert len(set(zip(rows.tolist(), cols.tolist(), strict=True))) > 30
    assert len(np.unique(worlds.bodies.direction)) == 4
    assert (np.asarray(worlds.cells.object[0]) > 0).sum() == ORCHARDS["open"].count("A")


def test_a_layout_may_be_a_file_or_a_layout(tmp_path):
    (tmp_path / "mine.txt").write_text(TEXT)
    env = Harvest(tmp_path / "mine.txt")
    assert env.num_agents == 3
    again = Harvest(env.layout)
    assert (again.layout.start.cells.object == env.layout.start.cells.object).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layout": "opn"}, "did you mean open"),
        ({"layout": "####\n#PA#\n####", "num_agents": 2}, "room for 1 to 1 agents"),
        ({"num_agents": 0}, "room for 1 to 35 agents"),
        ({"layout": "####\n#A #\n####"}, "no start: mark the cells"),
        ({"layout": "####\n#PB#\n####", "num_agents": 1}, "no apples"),
        ({"layout": "####\n#PX#\n####"}, "unknown character 'X'"),
        ({"layout": "####\n#PA#\n# ##"}, "no border"),
        ({"observation": "features"}, "choose planes"),
        ({"regrowth": (0.0, 1.5)}, "from 0 to 1"),
        ({"regrowth": ()}, "at least one probability"),
        ({"beam_length": 0}, "length from 1 to 127"),
        ({"beam_radius": 1.5}, "`beam_radius` must be a whole number"),
        ({"cooldown": -1}, "steps from 0 to"),
        ({"away": 0}, "steps from 1 to"),
        ({"zap_cost": float("inf")}, "finite cost"),
        ({"radius": 0}, "radius of at least 1"),
        ({"horizon": 0}, "a horizon from 1 to"),
    ],
)
def test_refuses_in_one_sentence(options, words):
    with unchecked(), pytest.raises(ValueError, match=words) as refusal:
        Harvest(**options)
    assert "\n" not in str(refusal.value)


def test_a_layout_of_another_game_or_another_team_is_refused():
    other = make("goals").layout
    with pytest.raises(LayoutError, match="of another game"):
        Harvest(other)
    mine = Harvest("small").layout
    assert isinstance(mine, Layout)
    with pytest.raises(LayoutError, match="has 3 agents, not 4"):
        Harvest(mine, num_agents=4)


def test_worlds_that_differ_in_numbers_are_one_batch(key):
    envs = [Harvest(TEXT, regrowth=(0.1, p), away=a, cooldown=a) for p, a in ((0.2, 1), (0.9, 5))]
    batch = jax.tree.map(lambda *x: jnp.stack(x), *envs)
    keys = jax.random.split(key, 2)
    together = eqx.filter_vmap(lambda env, k: env.reset(k))(batch, keys)
    alone = [env.reset(k) for env, k in zip(envs, keys, strict=True)]
    assert eqx.tree_equal(together, jax.tree.map(lambda *x: jnp.stack(x), *alone))
