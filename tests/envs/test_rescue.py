"""Search and rescue: every step against plain Python, plans that bring everybody out, and the
rest."""

import os
from collections import Counter

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import naive_rescue as naive
import numpy as np
import pytest
from kitchen_checks import Blind, assert_equal, at_step, unchecked

from eqgrid.envs.rescue import (
    EVENT_NAMES,
    KINDS,
    PLANE_NAMES,
    SHAPING,
    Rescue,
    Role,
    Thing,
    Tile,
    load_site,
    parse_site,
    rescue_features,
    victims_left,
    with_roles,
)
from eqgrid.grid import LayoutError, RandomDirections

STEPS = int(os.environ.get("EQGRID_PARITY_STEPS", "1000"))
"""How many steps are compared for each number of rescuers."""

EPISODE, WORLDS = 5, 40
"""How many steps are played from one random world, and how many such worlds at once."""

LETTERS = "LRF.PT"
"""Turn left, turn right, forward, stay, pick up, toggle: what scripts are written in."""

SMALL_PLAN = (
    "RFFRFPLLFRTRPLFFFFRPFFRFLFFLTPLLFFFRFLFFP",
    "FFRFFTFFFLTTFFFR...P....LFLFFFFLFLLFRFFFFRFFFFFFLPLFFLFFFFFPLFFLFPLFFLFP",
)
LARGE_PLAN = (
    "FRFPRFRFFP.....LL.LFRFFLFFLFTPLLFRFFFRFFPLLFFLFFFFFLFPLLFRF..FFFFRFFP.LLFFFFFFFFRFFFFFFRPR..LF"
    "LLFLFFFFFFLFFFFFFFFP",
    "RFL...LFLLFLFFTLLFLFFFFLFTFFFRFFTTFFFFL...........................PLFFFFFFLFFFLFRFFL..FRFFFFRF"
    "FFFTTFFRFLFR.LL......................P",
    "........RFFFRFLLRF....P...LL.FRFFFFRFTPLLFLFFFRFFLFRFFFFPRFRFFFFFFFFFFFRFTPLL..FL.FFFFFFFLFRFF"
    "FFP............RRFFLFRFFFFRL..FFRFFFFFFLFFLFFRFPRFFRFFFRFFFFFFLFFFFLFRFFFFP",
    "RFLFRFFFFTLLFLFFLFRTLLP...LLFFFFLTL..FFFFL....RFLFFRFFFFFRFFFFLFRFP................................"
    "R...FRFFFFFLFFFLFFRFFFFFFRFFFFFFP",
)

FACING = {"north": 0, "south": 1, "east": 2, "west": 3}
CASES = [((5, 5), 2, 3), ((6, 5), 3, None), ((5, 6), 4, 1)]
"""Shape, rescuers, and how far they see."""

PADDED = (5, 8)
"""The size of small sites that share a program."""

CHUNK = 30
"""How many steps are played in one program."""


def script(*letters):
    """The actions `[steps, agents]` of one script per rescuer; shorter ones go on staying."""
    steps = max(map(len, letters))
    columns = [[LETTERS.index(letter) for letter in x.ljust(steps, ".")] for x in letters]
    return jnp.asarray(np.asarray(columns).T, jnp.int32)


@eqx.filter_jit
def play_compiled(env, world, actions):
    def step(world, action):
        timestep, world = env.step(jax.random.key(0), world, action)
        return world, (timestep, world)

    return jax.lax.scan(step, world, actions)[1]


def play(env, world, actions):
    """Every timestep and every state after it, as NumPy arrays."""
    steps, told = len(actions), []
    rest = jnp.full((-steps % CHUNK, env.num_agents), LETTERS.index("."), jnp.int32)
    for chunk in jnp.split(jnp.concatenate([actions, rest]), (steps + len(rest)) // CHUNK):
        told.append(jax.tree.map(np.asarray, play_compiled(env, world, chunk)))
        world = at_step(told[-1][1], -1)
    return jax.tree.map(lambda *x: np.concatenate(x)[:steps], *told)


def rescue(text, *scripts, facing, roles=None):
    """Plays scripts in a site, without anything to see: the timesteps."""
    site = parse_site(text, roles).pad(*PADDED)
    faces = jnp.asarray([FACING[way] for way in facing], jnp.int8)
    site = eqx.tree_at(lambda x: x.start.bodies.direction, site, faces)
    env = Rescue(site, observation=Blind())
    return play(env, env.layout.start, script(*scripts))[0]


def events(timesteps):
    """How often each event has happened to each rescuer, without those that never have."""
    counts = np.asarray(timesteps.info["events"]).sum(axis=0)
    return [{name: int(n) for name, n in zip(EVENT_NAMES, row, strict=True) if n} for row in counts]


# Every step against plain Python


def as_naive(world):
    """A world as the plain rules have it."""
    ways = {number: way for way, number in FACING.items()}
    bodies = jax.tree.map(np.asarray, world.bodies)
    objects = np.asarray(world.cells.object)
    names = [thing.name.lower() for thing in Thing]
    over = bodies.active is not None and not bodies.active.any()
    assert bodies.active is None or over or bodies.active.all()
    return {
        "things": {place: names[code] for place, code in np.ndenumerate(objects) if code},
        "rescuers": [
            {
                "place": tuple(map(int, bodies.position[i])),
                "facing": ways[int(bodies.direction[i])],
                "carries": names[bodies.held[i]] if bodies.held[i] else None,
                "role": Role(int(bodies.extra[i])).name.lower(),
            }
            for i in range(len(bodies.held))
        ],
        "over": bool(over),
    }


def random_worlds(rng, env, count):
    """Tiles, and any worlds on them, `[count, ...]`: a closed border, and anything inside."""
    start = env.layout.start
    worlds = [random_world(rng, env.layout.tiles.shape, env.num_agents) for _ in range(count)]
    tiles, objects, positions, directions, held, roles = map(np.stack, zip(*worlds, strict=True))
    start = jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), start)
    leaves = (objects, positions, directions, held, roles)
    return jnp.asarray(tiles), eqx.tree_at(
        lambda x: (
            x.cells.object,
            x.bodies.position,
            x.bodies.direction,
            x.bodies.held,
            x.bodies.extra,
        ),
        start,
        tuple(map(jnp.asarray, leaves)),
    )


def random_world(rng, shape, agents):
    """Any world, with more keys in front of their doors, and more hands at red victims, than
    chance alone brings about."""
    tiles = rng.choice([Tile.WALL, Tile.EXIT], shape).astype(np.uint8)
    inside = np.s_[1:-1, 1:-1]
    tiles[inside] = rng.choice([0, 0, 0, 0, 0, 0, 0, Tile.WALL, Tile.EXIT], tiles[inside].shape)
    places = rng.permutation(np.argwhere(np.pad(np.ones(tiles[inside].shape, bool), 1)))[:agents]
    tiles[tuple(places.T)] = Tile.FLOOR
    objects = rng.integers(0, len(Thing), shape).astype(np.uint8)
    objects[(tiles != Tile.FLOOR) | (rng.random(shape) < 0.4)] = Thing.NOTHING
    objects[(objects != 0) & (rng.random(shape) < 0.2)] = Thing.RED_VICTIM
    objects[tuple(places.T)] = rng.choice([0, 0, 0, Thing.OPEN_DOOR], agents)
    directions = rng.integers(0, 4, agents).astype(np.int8)
    portable = [0, 0, 0, Thing.GREEN_VICTIM, Thing.PURPLE_KEY, Thing.BLUE_KEY, Thing.ORANGE_KEY]
    held = rng.choice(portable, agents).astype(np.uint8)
    for agent, (row, col) in enumerate(places):
        for way, (down, right) in enumerate([(-1, 0), (1, 0), (0, 1), (0, -1)]):
            faced = objects[row + down, col + right]
            is_door = Thing.PURPLE_DOOR <= faced <= Thing.ORANGE_DOOR
            if (is_door or faced == Thing.RED_VICTIM) and rng.random() < 0.5:
                directions[agent] = way
                held[agent] = faced + 4 if is_door else 0
    roles = rng.integers(0, 2, agents).astype(np.uint8)
    return tiles, objects, places.astype(np.int8), directions, held, roles


def random_actions(rng, *shape):
    """Any, with many that do something, and some that no action has."""
    share = [0.09, 0.09, 0.2, 0.04, 0.27, 0.27, 0.02, 0.02]
    return jnp.asarray(rng.choice([0, 1, 2, 3, 4, 5, 6, -1], shape, p=share), jnp.int32)


def free_site(shape, agents):
    """A site of floor alone, with a victim in its last corner."""
    rows = np.full(shape, "#")
    rows[1:-1, 1:-1] = " "
    rows[-2, -2] = "G"
    starts = [(1 + i // (shape[1] - 2), 1 + i % (shape[1] - 2)) for i in range(agents)]
    return parse_site("\n".join("".join(row) for row in rows), starts=starts)


@eqx.filter_jit
def play_all(env, tiles, worlds, actions):
    """Many worlds, each on tiles of its own."""

    def play_one(tiles, world, actions):
        return play_compiled(eqx.tree_at(lambda x: x.layout.tiles, env, tiles), world, actions)

    return jax.vmap(play_one)(tiles, worlds, actions)


def seen_as_naive(window):
    places = np.argwhere(window).tolist()
    return {(row, col, PLANE_NAMES[p]): int(window[row, col, p]) for row, col, p in places}


def compare(seed, shape, agents, radius):
    """Plays random worlds both ways.

    **Returns:** how often each event has happened.
    """
    rng = np.random.default_rng(seed)
    env = Rescue(free_site(shape, agents), radius=radius, horizon=EPISODE - 1)
    tiles, starts = random_worlds(rng, env, WORLDS)
    actions = random_actions(rng, WORLDS, EPISODE, agents)
    told = jax.tree.map(np.asarray, play_all(env, tiles, starts, actions))
    games = jax.tree.map(np.asarray, (tiles, starts, actions))
    counts = Counter()
    for game in range(WORLDS):
        here = jax.tree.map(lambda x, game=game: x[game], (*games, told))
        counts += compare_one(*here, radius)
    return counts


def compare_one(tiles, start, actions, told, radius):
    """Plays one world by the plain rules, and compares every step."""
    counts, world = Counter(), as_naive(start)
    site = {place: Tile(x).name.lower() for place, x in np.ndenumerate(tiles)}
    for t, action in enumerate(actions.tolist()):
        world, reward, shaped, happened = naive.step(site, world, action)
        timestep, ours = jax.tree.map(lambda x, t=t: x[t], told)
        assert as_naive(ours) == world
        assert timestep.reward.tolist() == reward
        np.testing.assert_allclose(timestep.info["shaped_reward"], shaped, atol=1e-6)
        for row, names in zip(timestep.info["events"], happened, strict=True):
            assert {name for name, n in zip(EVENT_NAMES, row, strict=True) if n} == names
            counts.update(names)
        assert timestep.terminated.tolist() == [world["over"]] * len(action)
        assert bool(timestep.truncated) == (t + 1 >= EPISODE - 1)
        for viewer, window in enumerate(timestep.observation):
            wanted = naive.look(site, world, viewer, radius, PLANE_NAMES)
            assert seen_as_naive(window) == wanted
        counts["end"] += world["over"]
    return counts


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "agents", "radius"), CASES)
@hypothesis.settings(
    max_examples=max(1, STEPS // (EPISODE * WORLDS)), deadline=None, derandomize=True
)
@hypothesis.given(seed=st.integers(0, 2**32 - 1))
def test_every_step_is_that_of_the_plain_rules(shape, agents, radius, seed):
    compare(seed, shape, agents, radius)


def test_the_comparison_sees_every_event():
    counts = sum((compare(seed, *CASES[-1]) for seed in range(3)), Counter())
    assert min(counts[name] for name in (*EVENT_NAMES, "end")) >= 3, counts


# Rules that random games rarely meet

TWO = "#####\n#1R2#\n#G  #\n#####"
INWARDS = ["east", "west"]
LIFTS = {
    # the site, how rescuers face, their scripts -> what each is paid, and how often each lifts
    "two in one step": (TWO, INWARDS, ("P", "P"), 1, [1, 1]),
    "one toggles": (TWO, INWARDS, ("T", "P"), 1, [1, 1]),
    "both toggle": (TWO, INWARDS, ("T", "T"), 1, [1, 1]),
    "one waits for the other": (TWO, INWARDS, ("PP", ".P"), 1, [1, 1]),
    "in different steps": (TWO, INWARDS, ("P.", ".P"), 0, [0, 0]),
    "one alone": (TWO, INWARDS, ("P", ""), 0, [0, 0]),
    "one turns": (TWO, INWARDS, ("P", "L"), 0, [0, 0]),
    "full hands": ("######\n#1R2G#\n#G   #\n######", INWARDS, (".....P", "RRPLLP"), 0, [0, 0]),
    "next to different victims": ("######\n#1RR2#\n######", INWARDS, ("P", "P"), 0, [0, 0]),
    "three, and one looks on": (
        *("#####\n# 1 #\n#2R3#\n# 4G#\n#####", ["south", "east", "west", "north"]),
        *(("P", "T", "P", "."), 1, [1, 1, 1, 0]),
    ),
    "two pairs": (
        *("########\n#1R23R4#\n#G     #\n########", INWARDS * 2),
        *(("P",) * 4, 2, [1, 1, 1, 1]),
    ),
}


@pytest.mark.parametrize(("text", "facing", "scripts", "paid", "lifts"), LIFTS.values(), ids=LIFTS)
def test_rescuers_lift_together(text, facing, scripts, paid, lifts):
    timesteps = rescue(text, *scripts, facing=facing)
    assert timesteps.reward.sum(axis=0).tolist() == [paid] * len(lifts)
    assert [x.get("lifting", 0) for x in events(timesteps)] == lifts


@pytest.mark.parametrize(
    ("thing", "letter", "happened"),
    [(":", "T", [{"clearing": 1}] * 2), ("G", "P", [{"victim_pickup": 1}, {}])],
)
def test_two_act_on_one_thing_in_their_order(thing, letter, happened):
    site, roles = TWO.replace("R", thing), ["engineer", "engineer"]
    timesteps = rescue(site, letter, letter, facing=INWARDS, roles=roles)
    assert events(timesteps) == happened


def test_nothing_is_earned_in_circles():
    timesteps = rescue("####\n#1G#\n####", "PP" * 10, facing=["east"])
    assert timesteps.info["shaped_reward"].sum() == pytest.approx(0, abs=1e-6)
    timesteps = rescue("####\n#1R#\n####", "RL" * 10, facing=["north"])
    assert events(timesteps) == [{"red_reach": 10, "red_leave": 10}]
    assert timesteps.info["shaped_reward"].sum() == pytest.approx(0, abs=1e-6)


# Whole episodes


@pytest.mark.parametrize(
    ("name", "plan", "victims"), [("small", SMALL_PLAN, 4), ("large", LARGE_PLAN, 10)]
)
def test_a_plan_brings_everybody_out(name, plan, victims):
    env = Rescue(name, observation=Blind())
    actions = script(*plan)
    timesteps, worlds = play(env, env.layout.start, actions)
    assert len(actions) < 0.7 * int(env.horizon)
    assert timesteps.reward.sum(axis=0).tolist() == [victims] * env.num_agents
    assert timesteps.terminated[-1].all()
    assert not timesteps.terminated[:-1].any()
    assert not timesteps.truncated.any()
    assert int(victims_left(at_step(worlds, -1))) == 0
    assert set().union(*events(timesteps)) >= {"carrying_out", "lifting", "healing", "clearing"}


def test_a_padded_site_is_played_alike():
    site = parse_site("#####\n#1R2#\nEG  #\n#####")
    actions = random_actions(np.random.default_rng(5), CHUNK, 2)
    envs = [Rescue(site.pad(*size), observation=Blind()) for size in (PADDED, (9, 9))]
    one, other = (play(env, env.layout.start, actions)[0] for env in envs)
    assert one.info["events"].any()
    assert_equal(one, other)


# What is seen


def seen_by_name(env):
    """What each rescuer sees at the start, by the names of the features."""
    names = rescue_features().names(env.layout)
    seen, _ = env.reset(jax.random.key(0))
    assert len(set(names)) == len(names)
    return [dict(zip(names, each, strict=True)) for each in np.asarray(seen).tolist()]


def test_the_features_say_who_has_which_role():
    medic, engineer, other = seen_by_name(
        Rescue(
            "######\n#123G#\n######", roles=("medic", "engineer", "medic"), observation="features"
        )
    )
    roles = [f"{who}_{x}" for who in ("own", "other_1", "other_2") for x in ("medic", "engineer")]
    assert [medic[name] for name in roles] == [1, 0, 0, 1, 1, 0]
    assert [engineer[name] for name in roles] == [0, 1, 1, 0, 1, 0]
    assert [other[name] for name in roles] == [1, 0, 1, 0, 0, 1]


def test_the_features_show_the_way_to_everything():
    text = "########\n#1 G G #\nE  )   #\n#  :Y (#\n########"
    (seen,) = seen_by_name(Rescue(text, observation="features"))
    ways = {name.removesuffix("_exists") for name in seen if name.endswith("_exists")}
    found = {
        name: [round(5 * seen[f"{name}_{axis}"]) for axis in ("row", "col")]
        for name in ways
        if seen[f"{name}_exists"]
    }
    assert found == {
        "exit": [1, -1],
        "green_victim_1": [0, 2],
        "green_victim_2": [0, 4],
        "yellow_victim_1": [2, 3],
        "high_rubble": [2, 2],
        "purple_door": [1, 2],
        "purple_key": [2, 5],
    }
    absent = ways - set(found)
    assert {"red_victim_1", "yellow_victim_2", "rubble", "orange_key", "blue_door"} <= absent
    assert all(seen[f"{name}_row"] == seen[f"{name}_col"] == 0 for name in absent)


def test_names_and_numbers_agree():
    assert [kind.name.upper() for kind in KINDS.tiles] == [tile.name for tile in Tile]
    assert ["NOTHING", *(kind.name.upper() for kind in KINDS.objects)] == [x.name for x in Thing]
    assert len(set(PLANE_NAMES)) == len(PLANE_NAMES)


def test_starts_and_observations_of_ones_own():
    env = Rescue("large", starts=(RandomDirections(),), observation=Blind())
    observation, world = env.reset(jax.random.key(1))
    assert observation.shape == (4, 1)
    assert len(set(world.bodies.direction.tolist())) > 1


# Options


def test_roles_are_given():
    env = Rescue("small", roles=("engineer", "engineer"))
    assert env.layout.start.bodies.extra.tolist() == [Role.ENGINEER, Role.ENGINEER]
    site = with_roles(load_site("large"), ["medic", "medic", "engineer", "engineer"])
    assert Rescue(site).layout.start.bodies.extra.tolist() == [0, 0, 1, 1]


def test_shaping_is_given():
    site = parse_site("#####\n#1YG#\n#####")
    assert SHAPING["healing"] == 0.2
    for shaping, paid in ((SHAPING, 0.2), ({"healing": 3}, 3.0), ({}, 0.0)):
        env = Rescue(site, shaping=shaping, observation=Blind())
        timesteps, _ = play(env, env.layout.start, script("RT"))
        assert timesteps.info["shaped_reward"].sum() == pytest.approx(paid)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layout": "#####\n#1  #\n#####"}, "The layout has no victim: put a G, Y or R"),
        ({"roles": ("medic",)}, "There are 1 roles for 2 rescuers: give one for each."),
        ({"roles": ("medic", "cook")}, "There is no role 'cook': choose medic or engineer."),
    ],
)
def test_wrong_options_are_refused(options, words):
    with unchecked(), pytest.raises(ValueError, match=words.replace("?", ".")):
        Rescue(**options)


def test_sites_that_cannot_be_are_refused():
    with pytest.raises(LayoutError, match="cannot start in row 2, column 3"):
        parse_site("#####\n# GR#\n#####", starts=[(1, 2)])
