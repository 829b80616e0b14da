"""Cleanup: every step against plain Python, single rules by hand, and what is refused."""

import os

import equinox as eqx
import jax
import jax.numpy as jnp
import naive_commons as naive
import numpy as np
import pytest
from commons_checks import cleanup_rules as rules_of, compare, play
from kitchen_checks import unchecked

from eqgrid import make
from eqgrid.envs.commons import CLEANUP_ACTIONS, KINDS, MEASURES, Cleanup, polluted_share
from eqgrid.grid import Direction

STEPS = int(os.environ.get("EQGRID_PARITY_STEPS", "400"))
"""How many steps are compared for each number of agents."""

TEXT = """
    ########
    #HFHHFF#
    #HSF HH#
    #P 12 P#
    #BB PAB#
    ########"""


@pytest.mark.parametrize(
    ("agents", "options"),
    [
        (1, {"delay": 20, "growth": 0.3}),
        (4, {"shared": True, "away": 3, "zapped_cost": 2.0, "growth": 1.0, "restoration": 0.3}),
    ],
)
def test_some_steps_are_as_in_plain_python(agents, options):
    env = Cleanup(TEXT, num_agents=agents, radius=2, horizon=150, **options)
    compare(env, rules_of(options), 150, seed=agents, radius=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "agents", "options"),
    [
        ("river", 7, {}),
        ("river", 12, {"shared": True, "depletion": 0.9, "away": 5, "pollution": 0.05}),
        ("small", 3, {"pollution": 0.1, "delay": 0, "zap_cost": 1.0, "zapped_cost": 50.0}),
        ("small", 8, {"cooldown": 1, "cleaning_cooldown": 0, "beam_length": 5, "beam_radius": 2}),
    ],
)
def test_every_step_is_as_in_plain_python(layout, agents, options):
    env = Cleanup(layout, num_agents=agents, horizon=STEPS, **options)
    counts = compare(env, rules_of(options), STEPS, seed=agents, radius=5)
    assert counts["clean"] > 0


def world_of(text, agents, **options):
    """A world in which the agents stand in given `(place, facing)`."""
    env = Cleanup(text, num_agents=len(agents), radius=1, **options)
    places, facing = zip(*agents, strict=True)
    return env, eqx.tree_at(
        lambda w: (w.bodies.position, w.bodies.direction),
        env.layout.start,
        (jnp.asarray(places, jnp.int8), jnp.asarray(facing, jnp.int8)),
    )


def acts(env, world, *names):
    numbers = jnp.asarray([naive.__dict__[name] for name in names])
    return env.step(jax.random.key(0), world, numbers)


BANK = """
    #######
    #HHFHH#
    #FFFFF#
    #  P  #
    #BBPBB#
    #######"""


def dirty(world):
    return {tuple(x) for x in np.argwhere(np.asarray(world.cells.object) == 2).tolist()}


def test_each_ray_removes_the_first_pollution_that_it_meets():
    env, world = world_of(BANK, [((3, 3), Direction.NORTH)], delay=100)
    timestep, after = acts(env, world, "CLEAN")
    assert dirty(world) - dirty(after) == {(2, 2), (2, 3), (2, 4)}
    assert timestep.info["events"].tolist() == [[0, 0, 0, 1]]
    assert not timestep.reward.any()
    counts = []
    for _ in range(6):
        timestep, after = acts(env, after, "CLEAN")
        counts.append(int(timestep.info["events"][0, 3]))
    assert counts == [0, 0, 1, 0, 0, 0]  # after two steps it cleans again, and then hits nothing
    assert dirty(after) == {(2, 1), (2, 5)}


def test_a_cleaning_beam_sends_nobody_away_and_a_zapping_one_cleans_nothing():
    agents = [((4, 3), Direction.NORTH), ((3, 3), Direction.SOUTH)]
    env, world = world_of(BANK, agents, delay=100)
    _, after = acts(env, world, "CLEAN", "STAY")
    assert after.bodies.active.all()
    assert dirty(world) - dirty(after) == {(2, 2), (2, 3), (2, 4)}
    _, after = acts(env, world, "ZAP", "STAY")
    assert after.bodies.active.tolist() == [True, False]
    assert dirty(after) == dirty(world)


def test_agents_that_are_hit_while_they_clean_have_cleaned():
    agents = [((3, 3), Direction.NORTH), ((4, 3), Direction.NORTH)]
    env, world = world_of(BANK, agents, delay=100)
    timestep, after = acts(env, world, "CLEAN", "ZAP")
    assert after.bodies.active.tolist() == [False, True]
    assert timestep.info["events"][0].tolist() == [0, 0, 1, 1]
    assert len(dirty(world) - dirty(after)) == 3


@pytest.mark.parametrize(
    ("polluted", "chance"), [(0, 1.0), (2, 0.8), (5, 0.5), (10, 0.0), (8, 0.2)]
)
def test_growth_falls_linearly_with_the_polluted_share(polluted, chance):
    """A wide orchard beside a river of ten cells."""
    width = 100
    river = ("F" * polluted).ljust(10, "H")
    rows = ["#" * width, f"#P{river}{'':{width - 13}}#", f"#{'B' * (width - 2)}#", "#" * width]
    env = Cleanup("\n".join(rows), num_agents=1, growth=1.0, depletion=1.0, delay=100)
    assert polluted_share(env.layout.tiles, env.layout.start.cells.object) == polluted / 10
    keys = jax.random.split(jax.random.key(1), 40)
    grown = np.asarray(first_steps(env, keys).cells.object[:, 2, 1:-1])
    assert grown.mean() == pytest.approx(chance, abs=0.03)
    assert set(np.unique(grown)) <= {0, 1}


@eqx.filter_jit
def first_steps(env, keys):
    """The worlds after a first step in which the agent stays, one for each key."""
    return jax.vmap(lambda key: env.step(key, env.layout.start, jnp.asarray([0]))[1])(keys)


def test_pollution_comes_after_a_delay_and_one_by_one(key):
    env = Cleanup("######\n#P   #\n#HHHH#\n# BB #\n######", num_agents=1, pollution=1.0, delay=5)
    _, world = env.reset(key)
    _, worlds = play(env, world, jax.random.split(key, 12), jnp.zeros((12, 1), int))
    counts = (np.asarray(worlds.cells.object) == 2).sum(axis=(1, 2))
    assert counts.tolist() == [0, 0, 0, 0, 0, 1, 2, 3, 4, 4, 4, 4]


def test_every_clean_cell_is_polluted_as_often(key):
    env = Cleanup(
        "#######\n#P   F#\n#HHHHH#\n# BB  #\n#######", num_agents=1, pollution=1.0, delay=0
    )
    objects = np.asarray(first_steps(env, jax.random.split(key, 4000)).cells.object)
    shares = (objects[:, 2, 1:6] == 2).mean(axis=0)
    np.testing.assert_allclose(shares, 0.2, atol=0.03)
    assert shares.sum() == pytest.approx(1.0)


def test_measures_are_those_of_a_plain_loop(key):
    env = Cleanup("small", growth=0.5, depletion=1.0, away=9, horizon=200)
    _, world = env.reset(key)
    actions = jax.random.randint(key, (200, 3), 0, len(CLEANUP_ACTIONS))
    timesteps, worlds = play(env, world, jax.random.split(key, 200), actions)
    before = jnp.concatenate([jnp.ones((1, 3), bool), worlds.bodies.active[:-1]])
    trace = np.stack([timesteps.info["events"][..., 0], ~before], axis=-1).tolist()
    last = jax.tree.map(lambda x: x[-1], worlds)
    found = [float(measure(last)) for measure in MEASURES.values()]
    assert found == pytest.approx(naive.measure(trace), rel=1e-5)
    assert min(found) > 0


def test_a_picture_shows_a_beam(key):
    env = make("cleanup", layout="small")
    _, world = env.reset(key)
    plain = env.render(world, cell_pixels=16)
    shot = acts(env, world, "CLEAN", "CLEAN", "CLEAN")[1]
    assert (env.render(shot, cell_pixels=16) != plain).any()


def test_the_published_map():
    env = Cleanup()
    assert (env.num_agents, env.shape) == (7, (21, 30))
    start, tiles = env.layout.start, np.asarray(env.layout.tiles)
    assert polluted_share(env.layout.tiles, start.cells.object) == pytest.approx(79 / 147)
    assert (tiles == KINDS.tile("orchard")).sum() == 122
    assert (np.asarray(start.cells.object) == KINDS.code("apple")).sum() == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layout": "rivr"}, "did you mean river"),
        ({"layout": "####\n#PB#\n####"}, "no river: mark its cells with H"),
        ({"layout": "####\n#PH#\n####"}, "no orchard: mark its cells with B"),
        ({"layout": "####\n#BH#\n####"}, "no start"),
        ({"depletion": 0.2, "restoration": 0.2}, "depletion threshold above the restoration"),
        ({"growth": 2.0}, "growth rate and thresholds from 0 to 1"),
        ({"pollution": -0.1}, "probability from 0 to 1"),
        ({"delay": -1}, "steps from 0 to"),
        ({"cleaning_cooldown": 0.5}, "cooldown of a beam needs"),
        ({"observation": "rgb"}, "choose planes"),
    ],
)
def test_refuses_in_one_sentence(options, words):
    with unchecked(), pytest.raises(ValueError, match=words) as refusal:
        Cleanup(**options)
    assert "\n" not in str(refusal.value)
