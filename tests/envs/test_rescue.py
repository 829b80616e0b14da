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
from kitchen_checks import Blind, assert_equal, at_step, stack, unchecked

from eqgrid.envs.rescue import (
    EVENT_NAMES,
    KINDS,
    PLANE_NAMES,
    SHAPING,
    SITES,
    Rescue,
    Role,
    Thing,
    Tile,
    find_obstacle,
    load_site,
    parse_site,
    rescue_features,
    victims_left,
    with_roles,
)
from eqgrid.grid import Direction, LayoutError, RandomDirections, render

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
THINGS = {thing.name.lower(): int(thing) for thing in Thing}
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


def rescue(text, *scripts, roles=None, facing=None):
    """Plays scripts from a text, without anything to see: the timesteps and the worlds."""
    site = parse_site(text, roles).pad(*PADDED)
    if facing is not None:
        faces = jnp.asarray([FACING[way] for way in facing], jnp.int8)
        site = eqx.tree_at(lambda x: x.start.bodies.direction, site, faces)
    env = Rescue(site, observation=Blind())
    return play(env, env.layout.start, script(*scripts))


def things(world, step=-1):
    """What lies where after a step, by its name."""
    return as_naive(at_step(world, step))["things"]


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


# Rules, one by one


@pytest.mark.parametrize(
    ("role", "hand", "there", "moves", "left", "held", "happened"),
    [
        ("medic", 0, "G", "P", None, "green_victim", ["victim_pickup"]),
        ("engineer", 0, "G", "P", None, "green_victim", ["victim_pickup"]),
        ("medic", 0, "G", "T", "green_victim", None, []),
        ("medic", 0, "(", "P", None, "purple_key", ["key_pickup"]),
        ("medic", 0, "(", "T", "purple_key", None, []),
        ("medic", Thing.BLUE_KEY, "(", "P", "purple_key", "blue_key", []),
        ("medic", 0, "Y", "P", "yellow_victim", None, []),
        ("medic", 0, "Y", "T", "green_victim", None, ["healing"]),
        ("medic", 0, "Y", "TT", "green_victim", None, ["healing"]),
        ("medic", Thing.BLUE_KEY, "Y", "T", "green_victim", "blue_key", ["healing"]),
        ("engineer", 0, "Y", "T", "yellow_victim", None, []),
        ("engineer", 0, ".", "T", None, None, ["clearing"]),
        ("engineer", 0, ":", "T", "rubble", None, ["clearing"]),
        ("engineer", 0, ":", "TTT", None, None, ["clearing", "clearing"]),
        ("engineer", 0, ".", "P", "rubble", None, []),
        ("engineer", Thing.GREEN_VICTIM, ".", "T", None, "green_victim", ["clearing"]),
        ("medic", 0, ".", "T", "rubble", None, []),
        ("medic", 0, "R", "PT", "red_victim", None, []),
        ("engineer", 0, ")", "T", "purple_door", None, []),
        ("engineer", Thing.PURPLE_KEY, ")", "P", "purple_door", "purple_key", []),
        ("engineer", Thing.PURPLE_KEY, ")", "TT", "open_door", "purple_key", ["opening"]),
        ("medic", Thing.BLUE_KEY, ")", "T", "purple_door", "blue_key", []),
        ("medic", Thing.BLUE_KEY, "]", "T", "open_door", "blue_key", ["opening"]),
        ("medic", Thing.ORANGE_KEY, ">", "T", "open_door", "orange_key", ["opening"]),
        ("medic", Thing.ORANGE_KEY, " ", "P", "orange_key", None, ["key_drop"]),
        ("medic", Thing.GREEN_VICTIM, " ", "P", "green_victim", None, ["victim_drop"]),
        ("medic", Thing.GREEN_VICTIM, "|", "P", "open_door", "green_victim", []),
        ("medic", Thing.GREEN_VICTIM, "2", "P", None, "green_victim", []),
        ("medic", Thing.GREEN_VICTIM, "#", "P", None, "green_victim", []),
        ("medic", Thing.GREEN_VICTIM, "E", "P", None, None, ["carrying_out"]),
        ("medic", Thing.GREEN_VICTIM, "E", "T", None, "green_victim", []),
        ("medic", Thing.ORANGE_KEY, "E", "P", None, "orange_key", []),
        ("medic", 0, "E", "PT", None, None, []),
    ],
)
def test_what_one_does_to_what_it_faces(role, hand, there, moves, left, held, happened):
    text = f"#####\n#1{there}G#\n#####"
    roles = [role] * text.count("1") + [role] * text.count("2")
    site = parse_site(text, roles).pad(*PADDED)
    site = eqx.tree_at(
        lambda x: (x.start.bodies.direction, x.start.bodies.held),
        site,
        (jnp.full(len(roles), Direction.EAST, jnp.int8), site.start.bodies.held.at[0].set(hand)),
    )
    env = Rescue(site, observation=Blind())
    timesteps, worlds = play(env, env.layout.start, script(moves, "")[:, : len(roles)])
    world = as_naive(at_step(worlds, -1))
    assert world["things"].get((1, 2)) == left
    assert world["rescuers"][0]["carries"] == held
    assert events(timesteps)[0] == {name: happened.count(name) for name in happened}


@pytest.mark.parametrize("there", list("GYR.:)]>(["))
def test_nobody_walks_over_what_is_solid(there):
    _, worlds = rescue(f"#####\n#1{there}G#\n#####", "FF", facing=["east"])
    assert worlds.bodies.position[-1].tolist() == [[1, 1]]


def test_an_open_door_is_walked_through():
    _, worlds = rescue("######\n#1| G#\n######", "FF", facing=["east"])
    assert worlds.bodies.position[:2].tolist() == [[[1, 2]], [[1, 3]]]


def test_turning_goes_round():
    _, worlds = rescue("####\n#1G#\n####", "LLLLRRRR")
    ways = [Direction(x).name[0] for x in worlds.bodies.direction[:, 0]]
    assert "".join(ways) == "WSENESWN"


TWO = "#####\n#1R2#\n#G  #\n#####"


@pytest.mark.parametrize(
    ("moves", "when"),
    [
        (("P", "P"), 1),
        (("T", "P"), 1),
        (("T", "T"), 1),
        (("P.", ".P"), None),
        (("P", ""), None),
        (("PP", ".P"), 2),
        (("P", "L"), None),
    ],
)
def test_two_lift_in_the_same_step(moves, when):
    timesteps, worlds = rescue(TWO, *moves, facing=["east", "west"])
    rescued = np.flatnonzero(timesteps.reward[:, 0])
    assert rescued.tolist() == ([] if when is None else [when - 1])
    assert ((1, 2) in things(worlds)) == (when is None)
    if when is not None:
        assert timesteps.reward[when - 1].tolist() == [1.0, 1.0], "one victim, whoever lifts"
        assert [x["lifting"] for x in events(timesteps)] == [1, 1]


def test_who_lifts_has_empty_hands():
    text = "######\n#1R2G#\n#G   #\n######"
    timesteps, worlds = rescue(text, "PP", "RRPLLP", facing=["east", "west"])
    assert not timesteps.reward.any()
    assert things(worlds)[1, 2] == "red_victim"


def test_three_lift_one_victim_and_a_fourth_looks_on():
    text = "#####\n# 1 #\n#2R3#\n# 4G#\n#####"
    facing = ["south", "east", "west", "north"]
    timesteps, _ = rescue(text, "P", "T", "P", ".", facing=facing)
    assert timesteps.reward[0].tolist() == [1.0] * 4
    assert [x.get("lifting", 0) for x in events(timesteps)] == [1, 1, 1, 0]


def test_two_pairs_lift_two_victims_at_once():
    text = "########\n#1R23R4#\n#G     #\n########"
    timesteps, _ = rescue(text, *"PPPP", facing=["east", "west", "east", "west"])
    assert timesteps.reward[0].tolist() == [2.0] * 4


def test_neighbours_of_two_victims_do_not_help_each_other():
    timesteps, _ = rescue("######\n#1RR2#\n######", "P", "P", facing=["east", "west"])
    assert not timesteps.reward.any()


def test_two_engineers_clear_high_rubble_at_once():
    text, roles = TWO.replace("R", ":"), ["engineer"] * 2
    timesteps, worlds = rescue(text, "T", "T", roles=roles, facing=["east", "west"])
    assert (1, 2) not in things(worlds)
    assert events(timesteps) == [{"clearing": 1}] * 2


def test_the_first_one_takes_what_two_want():
    _, worlds = rescue(TWO.replace("R", "G"), "P", "P", facing=["east", "west"])
    assert worlds.bodies.held[-1].tolist() == [Thing.GREEN_VICTIM, Thing.NOTHING]


def test_what_is_put_down_bars_the_way_in_the_same_step():
    text = "#######\n#1(2G #\n#######"
    _, worlds = rescue(text, "PFP", ".LF", facing=["east", "north"])
    assert worlds.bodies.position[-1].tolist() == [[1, 2], [1, 3]]
    _, worlds = rescue(text, "P.P", "L.F", facing=["east", "north"])
    assert things(worlds)[1, 2] == "purple_key"
    assert worlds.bodies.position[-1].tolist() == [[1, 1], [1, 3]]


def test_nothing_is_earned_in_circles():
    timesteps, _ = rescue("####\n#1G#\n####", "PP" * 10, facing=["east"])
    assert timesteps.info["shaped_reward"].sum() == pytest.approx(0, abs=1e-6)
    timesteps, _ = rescue("####\n#1R#\n####", "RL" * 10, facing=["north"])
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


def test_victims_are_never_made_and_all_that_leave_are_paid():
    env = Rescue("small", observation=Blind(), horizon=10_000)
    actions = random_actions(np.random.default_rng(0), 1500, 2)
    timesteps, worlds = play(env, env.layout.start, actions)
    left = np.asarray(jax.vmap(victims_left)(worlds))
    assert (np.diff(left) <= 0).all()
    np.testing.assert_array_equal(np.cumsum(timesteps.reward[:, 0]), 4 - left)
    keys = np.asarray(worlds.cells.object == Thing.PURPLE_KEY).sum(axis=(1, 2))
    assert (keys + (worlds.bodies.held == Thing.PURPLE_KEY).sum(axis=1) == 1).all()


@pytest.mark.slow
def test_a_batch_of_different_sites_is_a_loop_over_them():
    texts = [f"######\nE1{x}2Y#\n#G :R#\n#  .)#\n######" for x in "GR.|"]
    roles = [("medic", "engineer"), ("engineer", "medic"), ("engineer",) * 2, ("medic",) * 2]
    sites = [parse_site(*x).pad(*PADDED) for x in zip(texts, roles, strict=True)]
    envs = [Rescue(site, observation=Blind()) for site in sites]
    actions = random_actions(np.random.default_rng(3), len(envs), CHUNK, 2)
    _, rest = eqx.partition(envs[0], eqx.is_array)
    batch = eqx.combine(stack([eqx.filter(env, eqx.is_array) for env in envs]), rest)
    together = eqx.filter_vmap(play_compiled)(batch, batch.layout.start, actions)
    alone = [play(env, env.layout.start, x) for env, x in zip(envs, actions, strict=True)]
    assert_equal(together, stack(alone))
    assert together[0].reward.any()


def test_a_padded_site_is_played_alike():
    text = "#####\n#1R2#\nEG  #\n#####"
    actions = random_actions(np.random.default_rng(5), 3, CHUNK, 2)
    for rows, cols in (PADDED, (9, 9)):
        env = Rescue(parse_site(text).pad(rows, cols), observation=Blind())
        told = [play(env, env.layout.start, x)[0] for x in actions]
        if (rows, cols) == PADDED:
            first = told
    assert_equal(told, first)


# What is seen


def test_the_planes_say_who_has_which_role():
    observation, _ = Rescue("#####\n#12G#\n#####", radius=1).reset(jax.random.key(0))
    medic, engineer = (PLANE_NAMES.index(role) for role in ("medic", "engineer"))
    assert observation[0, 1, :, medic].tolist() == [0, 1, 0]
    assert observation[0, 1, :, engineer].tolist() == [0, 0, 1]
    assert observation[1, 1, :, medic].tolist() == [1, 0, 0]
    assert observation[1, 1, :, engineer].tolist() == [0, 1, 0]


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


# Pictures


def test_every_kind_looks_different():
    pictures = []
    site = parse_site("#####\n#1 G#\n#####")
    for code in range(len(Thing)):
        there = eqx.tree_at(
            lambda x, code=code: x.start.cells.object,
            site,
            site.start.cells.object.at[1, 2].set(code),
        )
        pictures.append(render(there, there.start, cell_pixels=32))
    for i, one in enumerate(pictures):
        for other in pictures[:i]:
            differs = (one != other).any(axis=-1)[:96].reshape(3, 32, 5, 32).any(axis=(1, 3))
            assert np.argwhere(differs).tolist() == [[1, 2]]


@pytest.mark.parametrize("way", list(Direction))
def test_roles_and_what_is_carried_show(way):
    pictures = []
    for role in ("medic", "engineer"):
        for held in (Thing.NOTHING, Thing.GREEN_VICTIM, Thing.BLUE_KEY):
            site = eqx.tree_at(
                lambda x: (x.start.bodies.direction, x.start.bodies.held),
                parse_site("#####\n#1 G#\n#####", [role]),
                (jnp.asarray([way], jnp.int8), jnp.asarray([held], jnp.uint8)),
            )
            pictures.append(render(site, site.start, cell_pixels=32).tobytes())
    assert len(set(pictures)) == 6


# Whether all can be rescued


@pytest.mark.parametrize("name", SITES)
def test_nothing_is_in_the_way_in_our_sites(name):
    assert find_obstacle(load_site(name)) is None


@pytest.mark.parametrize(
    ("text", "roles", "words"),
    [
        ("#####\nE1 G#\n#####", "m", None),
        (
            "#####\n#1 G#\n#####",
            "m",
            "carry the green victim at row 2, column 4 to an exit and there",
        ),
        ("#####\n#1R2#\n#####", "me", None),
        ("#####\nE1 R#\n#####", "m", "no two rescuers can stand next to the red victim"),
        ("#####\nE12R#\n#####", "me", "no two rescuers can stand next to the red victim"),
        ("#####\n#12R#\n##  #\n#####", "me", None),
        ("#####\nE1 Y#\n#####", "m", None),
        ("#####\nE1 Y#\n#####", "e", "no medic can heal the yellow victim at row 2, column 4."),
        ("#####\nE1.G#\n#####", "e", None),
        ("#####\nE1:G#\n#####", "m", "no engineer can clear the high rubble at row 2, column 3"),
        ("#######\nE1()G #\n#######", "m", None),
        ("#######\nE1[)G #\n#######", "m", "no rescuer can bring its key to the purple door"),
        ("#######\nE1)(G #\n#######", "m", "no rescuer can bring its key to the purple door"),
        ("########\nE1)G2( #\n########", "mm", None),
        ("########\nE1.G2  #\n########", "mm", "no engineer can clear the rubble"),
        ("########\nE1.G2  #\n########", "me", None),
        ("########\nE1Y2G  #\n########", "em", None),
        ("########\nE1Y2G  #\n########", "me", None),
        ("########\nE1Y2G  #\n########", "ee", "no medic can heal"),
        ("########\nE1R2G  #\n########", "ee", None),
        ("######\nE1 #G#\n######", "e", "no rescuer can carry the green victim at row 2, column 5"),
        ("#####E\n#1 #G#\n######", "e", "no rescuer can carry"),
    ],
)
def test_what_is_in_the_way_is_named(text, roles, words):
    names = {"m": "medic", "e": "engineer"}
    said = find_obstacle(parse_site(text, [names[role] for role in roles]))
    if words is None:
        assert said is None
    else:
        assert words in said
        assert said.startswith("Some victim cannot be rescued: ")
        assert said.endswith(".")


def test_what_is_carried_counts():
    site = parse_site("######\nE1 )G#\n######")
    assert "purple door" in find_obstacle(site)
    held = jnp.asarray([Thing.PURPLE_KEY], jnp.uint8)
    assert find_obstacle(eqx.tree_at(lambda x: x.start.bodies.held, site, held)) is None


@pytest.mark.slow
def test_an_obstacle_is_never_overcome():
    """Whoever is rescued at random, the search has seen no obstacle where all are."""
    rng = np.random.default_rng(0)
    env = Rescue(free_site((5, 5), 2), observation=Blind(), horizon=1000)
    tiles, starts = random_worlds(rng, env, 200)
    told, _ = play_all(env, tiles, starts, random_actions(rng, 200, 200, 2))
    done = np.asarray(told.terminated).any(axis=(1, 2)).tolist()
    said = []
    for game in range(200):
        start = at_step(starts, game)
        site = eqx.tree_at(lambda x: (x.tiles, x.start), env.layout, (tiles[game], start))
        said.append(find_obstacle(site))
        assert not (done[game] and said[-1])
    assert sum(done) > 10
    assert sum(x is not None for x in said) > 20


# Options


def test_roles_are_given():
    assert load_site("small").start.bodies.extra.tolist() == [Role.MEDIC, Role.ENGINEER]
    env = Rescue("small", roles=("engineer", "engineer"))
    assert env.layout.start.bodies.extra.tolist() == [Role.ENGINEER, Role.ENGINEER]
    assert "no medic can heal" in find_obstacle(env.layout)
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
        ({"layout": "smal"}, "There is no layout 'smal'; did you mean small?"),
        ({"layout": "#####\n#1  #\n#####"}, "The layout has no victim: put a G, Y or R"),
        ({"layout": "#####\n#1zG#\n#####"}, "no start 2"),
        ({"layout": "#####\n#1xG\n#####"}, "ragged"),
        ({"roles": ("medic",)}, "There are 1 roles for 2 rescuers: give one for each."),
        ({"roles": ("medic", "cook")}, "There is no role 'cook': choose medic or engineer."),
        ({"observation": "pixels"}, "no observation 'pixels': choose planes or features."),
        ({"radius": 0}, "A window needs a radius of at least 1"),
        ({"horizon": 0}, "a horizon from 1 to"),
        ({"shaping": {"resting": 1.0}}, "There is no event 'resting'"),
    ],
)
def test_wrong_options_are_refused(options, words):
    with unchecked(), pytest.raises(ValueError, match=words.replace("?", ".")):
        Rescue(**options)


def test_sites_that_cannot_be_are_refused():
    with pytest.raises(LayoutError, match="cannot start in row 2, column 3"):
        parse_site("#####\n# GR#\n#####", starts=[(1, 2)])
