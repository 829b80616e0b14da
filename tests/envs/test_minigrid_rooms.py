"""The rooms of MiniGrid: teams against plain Python, what is drawn, and what is refused."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import refused
from naive_minigrid import COMPASS, look, step

from eqgrid import check_env, make
from eqgrid.envs.minigrid import COLOURS, KINDS, PLANE_NAMES, ROOMS, DoorKeyRoom, MiniGrid
from eqgrid.grid import Direction

STEPS, GAMES = 60, 12
NAMES = {Direction[name.upper()]: name for name in COMPASS}
ROOMY = {
    "empty": {"size": 5, "num_agents": 8},
    "fourrooms": {"size": 9, "num_agents": 4},
    "doorkey": {"size": 7, "num_agents": 3},
    "unlock": {"num_agents": 3},
    "keycorridor": {"size": 3, "num_agents": 3},
    "lavacrossing": {"size": 5, "num_agents": 2},
    "dynamicobstacles": {"size": 6, "num_agents": 3},
    "multiroom": {"rooms": 2, "size": 4, "num_agents": 7},
}
"""Narrow rooms, in which agents get in each other's way."""
MISSIONS = {"unlock": "unlock", "keycorridor": "fetch", "dynamicobstacles": "avoid"}


def furnish(rng, world, share, goals=0.0):
    """A world with keys, balls, boxes and doors in some free cells, and in some hands, and with
    goals in a share of these cells.
    """
    objects = np.array(world.cells.object)
    taken = {tuple(x) for x in np.asarray(world.bodies.position).tolist()}
    for place in map(tuple, np.argwhere(objects == 0).tolist()):
        if place not in taken and rng.random() < share:
            thing = rng.integers(KINDS.code("door"), KINDS.num_codes)
            objects[place] = KINDS.code("goal") if rng.random() < goals else thing
    held = rng.integers(KINDS.code("key"), KINDS.num_codes, world.num_agents)
    door, key = KINDS.code("door"), KINDS.code("key")
    doors = objects[(objects >= door) & (objects < key)]
    fitting = key + (int(doors[-1]) - door) // 3 if len(doors) else 0
    held = np.where(rng.random(world.num_agents) < 0.5, held, fitting)
    return eqx.tree_at(
        lambda w: (w.cells.object, w.bodies.held),
        world,
        (jnp.asarray(objects), jnp.asarray(held, jnp.uint8)),
    )


@eqx.filter_jit
def play(env, world, key, actions):
    """All states after the first one, and what each step told."""

    def go(world, told):
        action, key = told
        timestep, world = env.step(key, world, action)
        return world, (timestep, world)

    keys = jax.random.split(key, len(actions))
    return jax.lax.scan(go, world, (actions, keys))[1]


def as_thing(code):
    kind, variant = KINDS.read(int(code))
    if kind.name == "door":
        return ("door", *divmod(variant, 3))
    fixed = {"wall": 5, "goal": 1, "lava": 0}
    return kind.name, fixed.get(kind.name, variant), 0


def as_plain(world):
    codes, bodies = np.asarray(world.cells.object), world.bodies
    return {
        "things": {x: as_thing(codes[x]) for x in map(tuple, np.argwhere(codes).tolist())},
        "agents": [
            {
                "place": tuple(bodies.position[i].tolist()),
                "facing": NAMES[int(bodies.direction[i])],
                "holds": as_thing(bodies.held[i]) if bodies.held[i] else None,
                "active": bool(bodies.active[i]),
            }
            for i in range(world.num_agents)
        ],
        "balls": [] if world.extra is None else [tuple(x) for x in world.extra.tolist()],
        "time": int(world.time),
    }


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shared"), [(x, i % 2 == 0) for i, x in enumerate(ROOMS)])
def test_teams_play_as_in_plain_python(name, shared):
    env = MiniGrid(
        name,
        **ROOMY[name],
        observation="symbolic",
        horizon=STEPS,
        reward="shared" if shared else "individual",
    )
    check_games(env, name, shared)


def test_a_team_unlocks_as_in_plain_python():
    env = MiniGrid("unlock", size=4, num_agents=2, observation="symbolic", horizon=STEPS)
    check_games(env, "unlock", True)


def check_games(env, name, shared):
    mission, happened = MISSIONS.get(name, "goal"), 0
    see_through = name in ("empty", "dynamicobstacles")
    reset = eqx.filter_jit(env.reset)
    for game in range(GAMES):
        rng = np.random.default_rng(game)
        _, world = reset(jax.random.key(game))
        if mission != "avoid":
            world = furnish(rng, world, (0.0, 0.3)[game % 2], 0.3 * (mission == "goal"))
        count = env.action_space.n
        weights = np.asarray([1, 1, 5, 2, 1, 2, 0.2])[:count]
        actions = rng.choice(count, (STEPS, env.num_agents), p=weights / weights.sum())
        told = play(env, world, jax.random.key(game), jnp.asarray(actions, jnp.int32))
        timesteps, worlds = jax.tree.map(np.asarray, told)
        room = as_plain(jax.tree.map(np.asarray, world))
        for time in range(STEPS):
            ours = as_plain(jax.tree.map(lambda x, time=time: x[time], worlds))
            room, paid, done = step(
                room, actions[time], mission, STEPS, shared=shared, balls=ours["balls"]
            )
            assert ours == room
            np.testing.assert_allclose(timesteps.reward[time], paid, atol=1e-6)
            assert timesteps.terminated[time].tolist() == done
            assert timesteps.truncated[time] == (time == STEPS - 1)
            for viewer, seen in enumerate(timesteps.observation[time]):
                assert seen.tolist() == [
                    [list(cell) for cell in column]
                    for column in look(room, viewer, env.shape, see_through=see_through)
                ]
            happened += any(done)
    assert happened


@pytest.mark.slow
@pytest.mark.parametrize("name", ROOMS)
def test_rooms_of_a_batch_differ_and_have_what_they_need(name):
    env = MiniGrid(name, **ROOMY[name], random_start=name == "empty")
    keys = jax.random.split(jax.random.key(0), 64)
    _, worlds = eqx.filter_jit(eqx.filter_vmap(env.reset))(keys)
    grids, places = np.asarray(worlds.cells.object), np.asarray(worlds.bodies.position)
    states = {(x.tobytes(), y.tobytes()) for x, y in zip(grids, places, strict=True)}
    assert len(states) > 5
    for grid, cells in zip(grids, places, strict=True):
        assert len({tuple(x) for x in cells.tolist()}) == env.num_agents
        assert (grid[cells[:, 0], cells[:, 1]] == 0).all()
        goals = (grid == KINDS.code("goal")).sum()
        assert goals == (name not in ("unlock", "keycorridor"))


def test_planes_say_what_numbers_say():
    env = MiniGrid("keycorridor", size=4, num_agents=2)
    numbers = env.with_observation(MiniGrid("keycorridor", observation="symbolic").observation)
    world = eqx.filter_jit(env.reset)(jax.random.key(0))[1]
    world = furnish(np.random.default_rng(1), world, 0.4)
    position = jnp.asarray([[5, 5], [7, 5]], jnp.int8)
    bodies = dataclasses.replace(
        world.bodies, position=position, direction=jnp.asarray([1, 0], jnp.int8)
    )
    objects = world.cells.object.at[6:9, 5].set(jnp.uint8(0))
    objects = objects.at[6, 4].set(jnp.uint8(KINDS.code("key", 3)))
    objects = objects.at[7, 4].set(jnp.uint8(KINDS.code("ball", 2)))
    objects = objects.at[8, 4].set(jnp.uint8(KINDS.code("door", 3)))
    cells = dataclasses.replace(world.cells, object=objects)
    world = dataclasses.replace(world, cells=cells, bodies=bodies)
    seen = np.asarray(eqx.filter_jit(env.observe)(world))
    planes = dict(zip(PLANE_NAMES, np.moveaxis(seen, -1, 0), strict=True))
    image = np.swapaxes(np.asarray(eqx.filter_jit(numbers.observe)(world)), 1, 2)
    kind, colour, state = np.moveaxis(image, -1, 0)
    alone = kind != 10
    for name, number in {"wall": 2, "goal": 8, "door": 4, "key": 5, "ball": 6, "box": 7}.items():
        np.testing.assert_array_equal(planes[name][alone] == 1, kind[alone] == number)
    np.testing.assert_array_equal(planes["unseen"] == 1, kind == 0)
    np.testing.assert_array_equal(planes["locked"] == 1, (kind == 4) & (state == 2))
    np.testing.assert_array_equal(planes["open"] == 1, (kind == 4) & (state == 0))
    np.testing.assert_array_equal(planes["other"] == 1, kind == 10)
    coloured = alone & np.isin(kind, (4, 5, 6, 7))
    for number, name in enumerate(COLOURS):
        np.testing.assert_array_equal(
            planes[name][alone] == 1, (coloured & (colour == number))[alone]
        )
    assert {4, 5, 6, 10} <= set(kind.ravel().tolist())


@pytest.mark.slow
@pytest.mark.parametrize("name", ROOMS)
def test_it_keeps_the_protocol_with_a_team(name):
    check_env(MiniGrid(name, **ROOMY[name], horizon=10), steps=12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layout": "doorkey", "size": 4}, "from 5 to 127, not 4"),
        ({"layout": "doorkey", "size": 5, "num_agents": 3}, "2 agents at most"),
        ({"layout": "doorkey", "rooms": 2}, "no option 'rooms': it has size"),
        ({"layout": "fourrooms", "size": 8}, "an odd number from 5"),
        ({"layout": "lavacrossing", "crossings": 7}, "from 1 to 6 crossings"),
        ({"layout": "dynamicobstacles", "obstacles": -1}, "at least 1"),
        ({"layout": "keycorridor", "rows": 200}, "longest side"),
        ({"layout": DoorKeyRoom(), "size": 5}, "leave out size"),
        ({"view": 6}, "an odd number of cells"),
    ],
)
def test_refuses_in_one_sentence(options, words):
    with refused(words):
        make("minigrid", **options)
