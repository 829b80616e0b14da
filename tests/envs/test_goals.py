"""Goal seeking against a plain Python loop, and what its agents learn from."""

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import assert_equal, refused
from naive_motion import settle

from eqgrid.envs.goals import KINDS, ROOMS, Goals
from eqgrid.grid import plane_names

WAYS = [(-1, 0), (1, 0), (0, 1), (0, -1), (0, 0)]
STEPS = 40


@eqx.filter_jit
def play(env, key, actions):
    """All states of one episode, the first included, and what each step told."""
    _, world = env.reset(key)

    def step(world, action):
        timestep, world = env.step(key, world, action)
        return world, (timestep, world)

    _, (timesteps, worlds) = jax.lax.scan(step, world, actions)
    worlds = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), world, worlds)
    return timesteps, worlds


def naive_step(state, actions):
    """Where everybody is after one step, who is still under way, and which flags are left."""
    walls, places, active, flags = state
    wishes = []
    for place, going, action in zip(places, active, actions, strict=True):
        target = (place[0] + WAYS[action][0], place[1] + WAYS[action][1])
        wishes.append(target if going and target not in walls else place)
    going = [i for i in range(len(places)) if active[i]]
    ends = list(places)
    moved = settle({i: places[i] for i in going}, {i: wishes[i] for i in going})
    for i, end in moved.items():
        ends[i] = end
    flags, arrived = dict(flags), []
    for agent, place in enumerate(ends):
        mine = active[agent] and flags.get(place) in ("any", agent)
        if mine:
            del flags[place]
        arrived.append(mine)
    active = [going and not there for going, there in zip(active, arrived, strict=True)]
    return (walls, ends, active, flags), arrived


def as_plain(layout, worlds, time):
    tiles, codes = np.asarray(layout.tiles), np.asarray(worlds.cells.object[time])
    flags = {}
    for place in map(tuple, np.argwhere(codes).tolist()):
        kind, variant = KINDS.read(int(codes[place]))
        flags[place] = "any" if kind.name == "flag" else variant
    places = [tuple(x) for x in worlds.bodies.position[time].tolist()]
    walls = {tuple(x) for x in np.argwhere(tiles == KINDS.tile("wall")).tolist()}
    return walls, places, worlds.bodies.active[time].tolist(), flags


@pytest.mark.parametrize(
    ("agents", "shared"),
    [
        (4, False),
        *(pytest.param(*x, marks=pytest.mark.slow) for x in ((1, False), (2, True), (7, True))),
    ],
)
@hypothesis.settings(max_examples=6, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32 - 1))
def test_every_step_is_as_in_plain_python(agents, shared, seed):
    env = Goals("rooms" if seed % 2 else "room", num_agents=agents, shared=shared, horizon=STEPS)
    actions = np.random.default_rng(seed).integers(0, 5, (STEPS, agents))
    timesteps, worlds = jax.tree.map(np.asarray, play(env, jax.random.key(seed), actions))
    state = as_plain(env.layout, worlds, 0)
    assert len(state[3]) == agents
    assert not set(state[1]) & set(state[3])
    for time in range(STEPS):
        was_active = state[2]
        state, arrived = naive_step(state, actions[time].tolist())
        # Where those are who have arrived means nothing.
        ours = as_plain(env.layout, worlds, time + 1)
        assert ours == (state[0], ours[1], state[2], state[3])
        assert [p for p, going in zip(ours[1], state[2], strict=True) if going] == [
            p for p, going in zip(state[1], state[2], strict=True) if going
        ]
        assert timesteps.terminated[time].tolist() == [not going for going in state[2]]
        assert timesteps.reward[time].tolist() == [float(x) for x in arrived]
        assert timesteps.info["events"][time, :, 0].tolist() == arrived
        assert not any(timesteps.reward[time][~np.asarray(was_active)])
        state = (state[0], ours[1], *state[2:])


def test_who_has_arrived_is_in_nobodys_way_and_is_not_seen():
    env = Goals("######\n#12  #\n######", observation="planes")
    _, world = env.reset(jax.random.key(1))
    gone = eqx.tree_at(
        lambda w: (w.bodies.position, w.bodies.active),
        world,
        (jnp.asarray([[1, 1], [1, 2]], jnp.int8), jnp.asarray([True, False])),
    )
    _, after = env.step(jax.random.key(1), gone, jnp.asarray([2, 3]))
    assert after.bodies.position.tolist() == [[1, 2], [1, 2]]
    other = plane_names(KINDS).index("other")
    assert env.observe(gone)[0, ..., other].sum() == 0
    assert env.observe(gone)[1, ..., other].sum() == 1


def test_what_an_agent_sees_points_to_its_own_flag():
    env = Goals("room")
    names = env.observation.names(env.layout)
    for seed in range(5):
        observation, world = env.reset(jax.random.key(seed))
        for agent in range(2):
            seen = dict(zip(names, observation[agent].tolist(), strict=True))
            (flag,) = np.argwhere(np.asarray(world.cells.object) == KINDS.code("own_flag", agent))
            delta = flag - np.asarray(world.bodies.position[agent])
            assert seen["flag_exists"] == 1
            assert (seen["flag_row"], seen["flag_col"]) == pytest.approx(tuple(delta / 5))


@pytest.mark.slow
def test_different_rooms_are_one_batch():
    envs = [Goals(text, num_agents=3) for text in ("room", ROOMS["room"].replace("#    ", "##   "))]
    batch = jax.tree.map(lambda *x: jnp.stack(x), *envs)
    actions = jax.random.randint(jax.random.key(0), (2, STEPS, 3), 0, 5)
    keys = jax.random.split(jax.random.key(1), 2)
    together = eqx.filter_vmap(play)(batch, keys, actions)
    alone = [play(*x) for x in zip(envs, keys, actions, strict=True)]
    assert_equal(together, jax.tree.map(lambda *x: jnp.stack(x), *alone))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layout": "###\n#1#\n###"}, "room for 1 to 0 agents"),
        ({"observation": "plains"}, "features or planes"),
    ],
)
def test_refuses_in_one_sentence(options, words):
    with refused(words):
        Goals(**options)


def test_it_has_a_picture():
    env = Goals("rooms", num_agents=4)
    _, world = env.reset(jax.random.key(0))
    before = env.render(world, cell_pixels=16)
    gone = eqx.tree_at(lambda w: w.bodies.active, world, jnp.asarray([False, True, True, True]))
    assert (env.render(gone, cell_pixels=16) != before).any()
