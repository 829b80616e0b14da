"""The adapter from jumanji: the same episodes on both sides of it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pages import text_blocks

from eqgrid import Masked, check_env, interop
from eqgrid.interop._foreign import implicit_promotion

with implicit_promotion():
    jumanji = pytest.importorskip(
        "jumanji", reason="needs the [parity] extra: pip install -e '.[test,parity]'"
    )
    from jumanji.environments import Connector, JobShop, LevelBasedForaging, Snake, Tetris
    from jumanji.environments.packing.job_shop import generator as jobs
    from jumanji.environments.routing.connector import generator as wires
    from jumanji.environments.routing.lbf import generator as food
    from jumanji.wrappers import AutoResetWrapper

    from_jumanji = interop.from_jumanji
pytestmark = pytest.mark.parity


def wire_of_each(observation):
    """What an agent sees: everything, and which it is."""
    grids = jnp.broadcast_to(observation.grid.reshape(1, -1), (2, 16))
    return jnp.concatenate([grids.astype(float), jnp.eye(2)], axis=1)


@pytest.fixture(scope="module")
def theirs():
    with implicit_promotion():
        field = food.RandomGenerator(grid_size=5, fov=5, num_agents=2, num_food=1)
        return {
            "foraging": LevelBasedForaging(generator=field, time_limit=6),
            "connector": Connector(generator=wires.UniformRandomGenerator(4, 2), time_limit=8),
            "snake": Snake(num_rows=4, num_cols=4),
            "tetris": Tetris(num_rows=5, num_cols=4),
        }


OBSERVE = {"connector": wire_of_each, "tetris": lambda seen: (seen.grid, seen.tetromino)}
SEEN = {
    "foraging": lambda seen: seen.agents_view,
    "connector": wire_of_each,
    "snake": lambda seen: seen.grid[None],
    "tetris": lambda seen: (seen.grid[None], seen.tetromino[None]),
}


def their_action(name, action):
    """An action as jumanji takes it."""
    if name == "tetris":
        return np.array(np.unravel_index(int(action[0]), (4, 4)), np.int32)
    return action[0] if name == "snake" else action


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[pytest.mark.slow] * (x == "foraging")) for x in SEEN]
)
def test_episodes_are_the_same_through_the_adapter(theirs, name, key):
    env = from_jumanji(theirs[name], observe=OBSERVE.get(name))
    step, their_step = eqx.filter_jit(env.step), jax.jit(theirs[name].step)
    ends = set()
    for episode in range(3):
        observation, state = eqx.filter_jit(env.reset)(jax.random.key(episode))
        with implicit_promotion():
            world, expected = jax.jit(theirs[name].reset)(jax.random.PRNGKey(episode))
        over = np.zeros(env.num_agents, bool)
        for i in range(40):
            seen, mask = observation.observation, observation.action_mask
            jax.tree.map(np.testing.assert_array_equal, seen, SEEN[name](expected.observation))
            np.testing.assert_array_equal(mask.ravel(), expected.observation.action_mask.ravel())
            keys = jax.random.split(jax.random.fold_in(key, i), env.num_agents)
            action = jax.vmap(env.action_space.sample)(keys)
            timestep, state = step(key, state, action)
            with implicit_promotion():
                world, expected = their_step(world, their_action(name, action))
            observation = timestep.observation
            np.testing.assert_array_equal(timestep.reward, expected.reward + np.zeros(len(over)))
            over |= np.asarray(expected.discount) == 0
            np.testing.assert_array_equal(timestep.terminated, over)
            assert timestep.truncated == (expected.step_type == 2) & ~over.all()
            assert timestep.done == (expected.step_type == 2)
            if timestep.done:
                ends.add("cut" if timestep.truncated else "over")
                break
    assert ("cut" if name == "foraging" else "over") in ends


@pytest.mark.parametrize("name", ["connector", "snake"])
def test_they_are_environments_of_ours(theirs, name):
    env = from_jumanji(theirs[name], observe=OBSERVE.get(name))
    check_env(env, steps=20)
    plain = from_jumanji(theirs[name], observe=OBSERVE.get(name), mask=False)
    seen, state = eqx.filter_jit(plain.reset)(jax.random.key(0))
    assert not isinstance(seen, Masked)
    assert not isinstance(state.observation, Masked)


def test_what_does_not_fit_is_one_sentence(theirs):
    with pytest.raises(ValueError, match=r"of Tetris has the parts grid, .* observe=lambda"):
        from_jumanji(theirs["tetris"])
    with pytest.raises(ValueError, match="a row for each"):
        from_jumanji(theirs["connector"])
    with pytest.raises(ValueError, match="agents of Connector must have a row for each"):
        from_jumanji(theirs["connector"], observe=lambda seen: seen.grid)
    with implicit_promotion():
        factory, small = JobShop(), JobShop(generator=jobs.RandomGenerator(2, 2, 2, 2))
    with pytest.raises(ValueError, match="The actions of JobShop are not supported"):
        from_jumanji(factory)
    with pytest.raises(ValueError, match="does not fit its actions: set mask=False"):
        from_jumanji(small, observe=lambda seen: seen.ops_machine_ids)
    with pytest.raises(ValueError, match="leave out its AutoResetWrapper"):
        from_jumanji(AutoResetWrapper(theirs["snake"]))


@pytest.mark.slow
def test_the_page_tells_the_truth():  # and trains a team
    blocks = text_blocks("jumanji")
    assert len(blocks) == 2
    for block in blocks:
        exec(block, {})
