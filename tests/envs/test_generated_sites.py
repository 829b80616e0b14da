"""Sites that are drawn, the proof that all victims can be rescued, and the plan itself, played."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import at_step, refused
from rescue_plan import STAY, Planner

from eqgrid import check_env
from eqgrid.envs.rescue import (
    SITES,
    GeneratedSites,
    Rescue,
    Role,
    Thing,
    Tile,
    can_rescue,
    find_obstacle,
    load_site,
    parse_site,
    victims_left,
)
from eqgrid.grid import Layout, RandomLayouts, draw_layouts

COUNT = 120
prove = jax.jit(can_rescue)
THINGS = (
    Thing.RED_VICTIM,
    Thing.GREEN_VICTIM,
    Thing.YELLOW_VICTIM,
    Thing.RUBBLE,
    Thing.HIGH_RUBBLE,
)
DOORS = (Thing.PURPLE_DOOR, Thing.BLUE_DOOR, Thing.ORANGE_DOOR)
KEYS = (Thing.PURPLE_KEY, Thing.BLUE_KEY, Thing.ORANGE_KEY)
MANY = {"green": (2, 3), "yellow": (1, 2), "red": (1, 2), "rubble": (2, 3), "doors": (2, 3)}
OPTIONS = {
    "few": {},
    "many": {**MANY, "high_rubble": (1, 2)},
    "only red": {"green": (0, 0), "yellow": (0, 0), "red": (1, 3), "loops": 1.0},
    "a tree": {"red": (0, 0), "loops": 0.0, "doors": (3, 3), "hall": 2},
    "engineers": {"yellow": (0, 0), "roles": ["engineer"] * 2, "rubble": (4, 6)},
    "crowded": {"red": (0, 0), "loops": 0.0, "rubble": (22, 22), "high_rubble": (2, 3)},
    "medics": {"yellow": (2, 3), "roles": ["medic"] * 2},
}


@eqx.filter_jit
def play(env, layouts, actions):
    """What everybody earns, and the last state, of each of a batch of layouts."""

    def one(layout, actions):
        world = env.with_layout(layout)

        def step(state, action):
            timestep, state = world.step(jax.random.key(0), state, action)
            return state, timestep.reward[0]

        state, rewards = jax.lax.scan(step, world.reset(jax.random.key(0))[1], actions)
        return rewards.sum(), state

    return jax.vmap(one)(layouts, actions)


SLOW = ("few", "only red", "a tree", "engineers", "medics")


@pytest.fixture(
    scope="module",
    params=[pytest.param(x, marks=[pytest.mark.slow] * (x in SLOW)) for x in OPTIONS],
)
def drawn(request) -> tuple[GeneratedSites, Layout]:
    sites = GeneratedSites(**OPTIONS[request.param])
    return sites, jax.tree.map(np.asarray, draw_layouts(sites, jax.random.key(5), COUNT))


def test_sites_are_what_was_asked_for(drawn):
    sites, layouts = drawn
    for number in range(COUNT):
        layout = at_step(layouts, number)
        assert find_obstacle(layout) is None
        objects = np.asarray(layout.start.cells.object)
        doors, keys = ([int((objects == x).sum()) for x in kinds] for kinds in (DOORS, KEYS))
        assert doors == keys
        assert max(doors) <= 1
        counts = [*((objects == thing).sum() for thing in THINGS), sum(doors)]
        assert (np.asarray(sites.fewest) <= counts).all()
        assert (counts <= np.asarray(sites.most)).all()
        assert (np.asarray(layout.tiles) == Tile.EXIT).sum() == 1
        for row, col in np.argwhere(np.isin(objects, DOORS)).tolist():
            assert (np.asarray(layout.tiles)[row - 1 : row + 2, col] == Tile.FLOOR).sum() + (
                np.asarray(layout.tiles)[row, col - 1 : col + 2] == Tile.FLOOR
            ).sum() == 4  # the door's own cell is counted twice
        roles = [Role(x).name.lower() for x in np.asarray(layout.start.bodies.extra)]
        assert eqx.tree_equal(parse_site(str(layout), roles), layout)
    assert len({str(at_step(layouts, number)) for number in range(COUNT)}) > 0.95 * COUNT


def test_everybody_is_rescued_in_every_site(drawn):
    sites, layouts = drawn
    count = 20
    plans = [Planner(at_step(layouts, number)) for number in range(count)]
    assert all(plan.plan() for plan in plans)
    actions = np.full((count, 1024, 2), STAY, np.int32)
    for number, plan in enumerate(plans):
        actions[number, : len(plan.actions)] = plan.actions
    layouts = jax.tree.map(lambda x: x[:count], layouts)
    earned, state = play(Rescue(sites.example, horizon=1024), layouts, actions)
    np.testing.assert_array_equal(earned, jax.vmap(victims_left)(layouts.start))
    assert not jax.vmap(victims_left)(state).any()


def random_sites(count: int) -> Layout:
    """Any sites at all, most of which cannot be solved, of a medic and an engineer."""
    rng = np.random.default_rng(0)
    shape = (count, 6, 7)
    inner = np.zeros(shape, bool)
    inner[:, 1:-1, 1:-1] = True
    floor = inner & (rng.random(shape) < 0.9)
    exits = ~inner & (rng.random(shape) < 0.1)
    tiles = np.select([floor, exits], [Tile.FLOOR, Tile.EXIT], Tile.WALL).astype(np.uint8)
    lies = floor & (rng.random(shape) < 0.3)
    objects = np.where(lies, rng.integers(1, len(Thing), shape), Thing.NOTHING).astype(np.uint8)
    score = np.where(floor, rng.random(shape), 2.0).reshape(count, -1)
    position = np.stack(np.divmod(np.argsort(score, axis=1)[:, :2], shape[2]), axis=-1)
    for homes, things in zip(position, objects, strict=True):
        things[tuple(homes.T)] = Thing.NOTHING
    one = load_site("small")
    one = jax.tree.map(lambda x: np.broadcast_to(x, (count, *x.shape)), one)
    return eqx.tree_at(
        lambda x: (x.tiles, x.start.cells.object, x.start.bodies.position),
        one,
        (tiles, objects, position.astype(np.int8)),
    )


def test_the_proof_is_the_plan():
    count = 2000
    layouts = random_sites(count)
    proved = np.asarray(jax.jit(jax.vmap(can_rescue))(layouts))
    assert proved.sum() > 100
    for number in range(count):
        layout = at_step(layouts, number)
        assert Planner(layout).plan() == proved[number]
        if proved[number]:
            assert find_obstacle(layout) is None


@pytest.mark.parametrize("name", SITES)
def test_a_plan_is_found_for_the_known_sites(name):
    assert prove(load_site(name))


@pytest.mark.parametrize(
    ("text", "roles", "found"),
    [
        ("########\nE  G   #\n#1  2  #\n########", ["medic", "medic"], True),
        ("########\nE  Y   #\n#1  2  #\n########", ["engineer", "medic"], True),
        ("########\nE  Y   #\n#1  2  #\n########", ["engineer", "engineer"], False),
        ("########\nE  :.G##\n#1  2###\n########", ["medic", "engineer"], True),
        ("########\nE  :.G##\n#1  2###\n########", ["medic", "medic"], False),
        ("########\nE  R   #\n#1  2  #\n########", ["medic", "medic"], True),
        ("########\nE  R   #\n#1     #\n########", ["medic"], False),
        ("########\nE    ###\n#1  2R##\n########", ["medic", "medic"], False),  # one beside it
        ("########\nE    R##\n#12   ##\n########", ["medic", "medic"], True),
        ("########\nE    )G#\n#12( ###\n########", ["medic", "medic"], True),
        ("########\nE    ]G#\n#12( ###\n########", ["medic", "medic"], False),
        ("########\nE    )G#\n#12  #(#\n########", ["medic", "medic"], False),  # shut in
        ("########\nE   (G##\n#12 ####\n########", ["medic", "medic"], False),  # the key stays
        ("########\nE   |G##\n#12 ####\n########", ["medic", "medic"], True),
        ("########\nE12 G  #\n########", ["medic", "medic"], False),  # in the way of each other
        ("########\nE    G##\n#####1##\n####2 ##\n########", ["medic", "medic"], False),
        ("########\nE  G   #\n#1####2#\n########", ["medic", "medic"], False),  # not together
        ("########\n#  G   #\n#1  2  #\n########", ["medic", "medic"], False),  # no exit
    ],
)
def test_a_plan_is_found_where_there_is_one(text, roles, found):
    site = parse_site(text, roles)
    assert bool(prove(site)) == found
    assert Planner(site).plan() == found
    if found:
        assert find_obstacle(site) is None


def test_full_hands_are_no_start():
    site = load_site("small")
    held = site.start.bodies.held.at[0].set(jnp.uint8(Thing.BLUE_KEY))
    assert not prove(eqx.tree_at(lambda x: x.start.bodies.held, site, held))


@pytest.mark.slow
def test_worlds_with_many_sites_keep_the_protocol():
    sites = GeneratedSites()
    check_env(RandomLayouts(Rescue(sites.example, horizon=20), sites), steps=50)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"height": 4}, "5 to 127 rows"),
        ({"width": 129}, "5 to 127 rows"),
        ({"num_agents": 0}, "at least 1 rescuer"),
        ({"hall": 0}, "at least 1 cell"),
        ({"loops": 1.5}, "between 0 and 1"),
        ({"rubble": (2, 1)}, r"rubble must be a minimum and a maximum.* not \(2, 1\)"),
        ({"doors": (-1, 1)}, "doors must be a minimum and a maximum"),
        ({"doors": (0, 4)}, "doors of 3 colours"),
        ({"green": (0, 0), "yellow": (0, 0), "red": (0, 0)}, "needs a victim"),
        ({"roles": ["engineer", "engineer"]}, "Only a medic heals"),
        ({"num_agents": 1}, "Only two rescuers lift"),
        ({"roles": ["medic"]}, "1 roles for 2 rescuers"),
        ({"rubble": (50, 50)}, "room for 48 rescuers and things at most, not for 53"),
        ({"rubble": (40, 40)}, "ask for larger sites"),
    ],
)
def test_impossible_sites_are_refused(options, said):
    with refused(said):
        GeneratedSites(**options)
