"""Harvest and Cleanup: every step against plain Python, what is drawn, and what is refused."""

import os

import equinox as eqx
import jax
import jax.numpy as jnp
import naive_commons as naive
import numpy as np
import pytest
from commons_checks import cleanup_rules, compare, play, rules_of
from kitchen_checks import refused, unchecked

from eqgrid import make
from eqgrid.envs.commons import (
    CLEANING_BEAM,
    HARVEST_ACTIONS,
    KINDS,
    MEASURES,
    ORCHARDS,
    REGROWTH,
    ZAP_BEAM,
    Cleanup,
    Harvest,
    Regrow,
    count_near,
    polluted_share,
)
from eqgrid.grid import Layout, LayoutError, Stay, render

STEPS = int(os.environ.get("EQGRID_PARITY_STEPS", "400"))
"""How many steps are compared for each number of agents."""

ORCHARD = """
    ########
    #PP1   #
    #  A A2#
    # BAAA #
    #3P A  #
    ########"""
RIVER = """
    ########
    #HFHHFF#
    #HSF HH#
    #P 12 P#
    #BB PAB#
    ########"""
FAST = {"regrowth": (0.1, 0.3, 0.5)}
WIDE_BEAM = {"beam_length": 5, "beam_radius": 2}
CERTAIN_GROWTH = {"growth": 1.0, "restoration": 0.2, "depletion": 0.9}
CERTAIN_GROWTH |= {"cooldown": 1, "cleaning_cooldown": 0}
CASE = ("world", "layout", "agents", "options")


def play_as_in_plain_python(world, layout, agents, options, *, steps, radius):
    """Compares a game, and returns how often each event has happened."""
    env = world(layout, num_agents=agents, radius=radius, horizon=steps, **options)
    rules = cleanup_rules(options) if world is Cleanup else rules_of(REGROWTH, options)
    return compare(env, rules, steps, seed=agents, radius=radius)


@pytest.mark.parametrize(
    CASE,
    [
        (Harvest, ORCHARD, 1, {}),
        (Harvest, ORCHARD, 4, {"shared": True, "away": 2, "zap_cost": 0.5} | FAST),
        (Harvest, "small", 3, {"zapped_cost": 3.0, "cooldown": 0} | WIDE_BEAM),
        (Cleanup, RIVER, 1, {"delay": 20, "growth": 0.3}),
        (Cleanup, RIVER, 4, {"shared": True, "away": 3, "zapped_cost": 2.0} | CERTAIN_GROWTH),
    ],
)
def test_some_steps_are_as_in_plain_python(world, layout, agents, options):
    play_as_in_plain_python(world, layout, agents, options, steps=150, radius=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    CASE,
    [
        (Harvest, "open", 7, {}),
        (Harvest, "open", 12, {"shared": True, "regrowth": (0.05, 0.1, 0.2, 0.3)}),
        (Harvest, "small", 3, {"beam_radius": 0, "away": 1, "zap_cost": 1.0, "zapped_cost": 50.0}),
        (Harvest, "small", 8, {"away": 30, "cooldown": 0, "beam_length": 6, "beam_radius": 3}),
        (Cleanup, "river", 7, {}),
        (Cleanup, "river", 12, {"shared": True, "depletion": 0.9, "away": 5, "pollution": 0.05}),
        (Cleanup, "small", 3, {"pollution": 0.1, "delay": 0, "zap_cost": 1.0, "zapped_cost": 50.0}),
        (Cleanup, "small", 8, {"cooldown": 1, "cleaning_cooldown": 0} | WIDE_BEAM),
    ],
)
def test_every_step_is_as_in_plain_python(world, layout, agents, options):
    counts = play_as_in_plain_python(world, layout, agents, options, steps=STEPS, radius=5)
    assert world is Harvest or counts["clean"] > 0


@pytest.mark.parametrize("radius", [0, 9, 1.5])
def test_a_radius_of_regrowth_is_refused_that_cannot_be_counted(radius):
    with unchecked(), pytest.raises(ValueError, match="radius"):
        Regrow((0.1,), radius)


def test_apples_near_are_counted_in_a_disc():
    everywhere = count_near(jnp.ones((19, 19), bool), 8)
    assert everywhere[9, 9] == sum(
        0 < i * i + j * j <= 64 for i in range(-8, 9) for j in range(-8, 9)
    )


def test_every_clean_cell_is_polluted_as_often(key):
    text = "#######\n#P   F#\n#HHHHH#\n# BB  #\n#######"
    env = Cleanup(text, num_agents=1, pollution=1.0, delay=0)
    stay = jnp.asarray([0])
    first_step = eqx.filter_jit(
        eqx.filter_vmap(lambda key: env.step(key, env.layout.start, stay)[1])
    )
    objects = np.asarray(first_step(jax.random.split(key, 4000)).cells.object)
    shares = (objects[:, 2, 1:6] == KINDS.code("pollution")).mean(axis=0)
    np.testing.assert_allclose(shares, 0.2, atol=0.03)
    assert shares.sum() == pytest.approx(1.0)


def test_measures_are_those_of_a_plain_loop(key):
    env = Harvest("small", regrowth=(0.05,), horizon=200)
    _, world = eqx.filter_jit(env.reset)(key)
    assert [float(measure(world)) for measure in MEASURES.values()] == [0, 0, 0, 0]
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


@pytest.mark.parametrize(("name", "beam"), [("harvest", ZAP_BEAM), ("cleanup", CLEANING_BEAM)])
def test_a_picture_shows_a_beam(name, beam):
    layout = make(name, layout="small").layout
    shot = layout.with_start(cell_extra=layout.start.cells.extra.at[1, 1].set(beam)).start
    assert (render(layout, shot) != render(layout, layout.start)).any()


def test_agents_start_in_marked_cells(key):
    env = Harvest()
    assert REGROWTH == (0.0, 0.0025, 0.005, 0.025)  # as docs/harvest.md says
    assert (env.num_agents, env.shape, env.actions[0]) == (7, (18, 24), Stay())
    worlds = eqx.filter_jit(jax.vmap(lambda k: env.reset(k)[1]))(jax.random.split(key, 64))
    rows, cols = np.asarray(worlds.bodies.position).reshape(-1, 2).T
    assert (np.asarray(env.layout.tiles)[rows, cols] == KINDS.tile("start")).all()
    assert len(set(zip(rows.tolist(), cols.tolist(), strict=True))) > 30
    assert len(np.unique(worlds.bodies.direction)) == 4
    assert (np.asarray(worlds.cells.object[0]) > 0).sum() == ORCHARDS["open"].count("A")


def test_the_published_map_of_cleanup():
    env = Cleanup()
    assert (env.num_agents, env.shape) == (7, (21, 30))
    start, tiles = env.layout.start, np.asarray(env.layout.tiles)
    assert polluted_share(env.layout.tiles, start.cells.object) == pytest.approx(79 / 147)
    assert (tiles == KINDS.tile("orchard")).sum() == 122
    assert (np.asarray(start.cells.object) == KINDS.code("apple")).sum() == 0


def test_a_layout_may_be_a_file_or_a_layout(tmp_path):
    (tmp_path / "mine.txt").write_text(ORCHARD)
    env = Harvest(tmp_path / "mine.txt")
    assert env.num_agents == 3
    again = Harvest(env.layout)
    assert (again.layout.start.cells.object == env.layout.start.cells.object).all()


@pytest.mark.parametrize(
    ("world", "options", "words"),
    [
        (Harvest, {"layout": "####\n#PA#\n####", "num_agents": 2}, "room for 1 to 1 agents"),
        (Harvest, {"layout": "####\n#PB#\n####", "num_agents": 1}, "no apples"),
        (Harvest, {"observation": "features"}, "choose planes"),
        (Harvest, {"regrowth": (0.0, 1.5)}, "from 0 to 1"),
        (Harvest, {"beam_length": 0}, "length from 1 to 127"),
        (Harvest, {"zap_cost": float("inf")}, "finite cost"),
        (Cleanup, {"layout": "####\n#PB#\n####"}, "no river: mark its cells with H"),
        (Cleanup, {"layout": "####\n#PH#\n####"}, "no orchard: mark its cells with B"),
        (Cleanup, {"depletion": 0.2, "restoration": 0.2}, "threshold above the restoration"),
    ],
)
def test_refuses_in_one_sentence(world, options, words):
    with refused(words):
        world(**options)


def test_a_layout_of_another_game_or_another_team_is_refused():
    with pytest.raises(LayoutError, match="of another game"):
        Harvest(make("goals").layout)
    mine = Harvest("small").layout
    assert isinstance(mine, Layout)
    with pytest.raises(LayoutError, match="has 3 agents, not 4"):
        Harvest(mine, num_agents=4)


def test_worlds_that_differ_in_numbers_are_one_batch(key):
    envs = [
        Harvest(ORCHARD, regrowth=(0.1, p), away=a, cooldown=a) for p, a in ((0.2, 1), (0.9, 5))
    ]
    batch = jax.tree.map(lambda *x: jnp.stack(x), *envs)
    reset, keys = eqx.filter_jit(lambda env, k: env.reset(k)), jax.random.split(key, 2)
    together = eqx.filter_vmap(reset)(batch, keys)
    alone = [reset(env, k) for env, k in zip(envs, keys, strict=True)]
    assert eqx.tree_equal(together, jax.tree.map(lambda *x: jnp.stack(x), *alone))
