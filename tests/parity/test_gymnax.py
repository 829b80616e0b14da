"""The adapter to gymnax, before and since 1.0: equal trajectories on both sides, in both ways."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cart_pole import CartPole
from masked_world import Trapdoors
from pages import text_blocks
from rooms import WithRooms, WithRoomsByAgent

from eqgrid import AutoReset, TimeLimit, check_env, interop, make

gymnax = pytest.importorskip(
    "gymnax", reason="needs the [parity] extra: pip install -e '.[test,parity]'"
)
from gymnax.environments.environment import Environment  # noqa: E402
from gymnax.wrappers import purerl  # noqa: E402

from_gymnax, to_gymnax = interop.from_gymnax, interop.to_gymnax
pytestmark = [
    pytest.mark.parity,
    # Of gymnax before 1.0.
    pytest.mark.filterwarnings("ignore:Explicitly requested dtype:UserWarning"),
    pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types:FutureWarning"),
]
TELLS_CUTS = hasattr(Environment, "is_truncated")


@pytest.fixture(autouse=True)
def as_gymnax_wants_it():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def play(name, key, steps, **params):
    """The steps of an environment through the adapter, each with what gymnax says of it."""
    theirs, settings = gymnax.make(name)
    settings = settings.replace(**params)
    env = from_gymnax(theirs, settings)
    _, state = env.reset(key)
    seen, world = theirs.reset_env(key, settings)
    step = eqx.filter_jit(env.step)
    their_step = jax.jit(lambda *inputs: theirs.step_env(*inputs, settings))
    np.testing.assert_array_equal(env.observe(state)[0], seen)
    for i in range(steps):
        step_key, action_key = jax.random.split(jax.random.fold_in(key, i))
        action = env.action_space.sample(action_key)
        seen, world, reward, done, _ = their_step(step_key, world, action)
        timestep, state = step(step_key, state, action[None])
        np.testing.assert_array_equal(timestep.observation[0], seen)
        np.testing.assert_array_equal(timestep.reward[0], reward)
        yield timestep, done, world


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "DiscountingChain-bsuite"])
def test_an_environment_of_gymnax_is_the_same_through_the_adapter(name, key):
    check_env(from_gymnax(*gymnax.make(name)), steps=20)
    for timestep, done, _ in play(name, key, 60):
        assert (timestep.terminated[0] if TELLS_CUTS else timestep.done) == done
        if timestep.done:
            break


@pytest.mark.parametrize("name", ["CartPole-v1", "Breakout-MinAtar"])
def test_the_end_of_the_time_is_a_cut(name, key):
    *before, (last, done, world) = play(name, key, 4, max_steps_in_episode=4)
    assert not any(timestep.done for timestep, *_ in before)
    assert last.truncated
    assert not last.terminated.any()
    assert world.time == 4
    assert done == (not TELLS_CUTS)


def test_a_pole_that_falls_is_no_cut(key):
    theirs, _ = gymnax.make("CartPole-v1")
    env = from_gymnax(theirs)
    _, state = env.reset(key)
    step = eqx.filter_jit(env.step)
    for i in range(20):  # noqa: B007
        timestep, state = step(key, state, jnp.array([1]))
        if timestep.done:
            break
    assert timestep.terminated.all()
    assert not timestep.truncated
    shorter = from_gymnax(theirs, theirs.default_params.replace(max_steps_in_episode=i + 1))
    timestep, _ = shorter.step(key, eqx.tree_at(lambda s: s.world.time, state, i), jnp.array([1]))
    assert timestep.terminated.all(), "it falls in the last step that it has"


def our_world():
    return TimeLimit(CartPole(), 7)


def test_one_of_ours_is_the_same_through_the_adapter(key):
    env = our_world()
    theirs = to_gymnax(env)
    params = theirs.default_params
    seen, state = theirs.reset(key, params)
    expected, own = env.reset(key)
    step, their_step = eqx.filter_jit(env.step), jax.jit(theirs.step_env)
    for i in range(7):
        np.testing.assert_array_equal(seen, expected[0])
        action = jnp.array(i % 2)
        seen, state, reward, done, info = their_step(key, state, action, params)
        timestep, own = step(key, own, action[None])
        expected = timestep.observation
        assert reward == timestep.reward[0]
        assert info["shaped_reward"] == timestep.info["shaped_reward"][0]
        assert theirs.is_terminated(state, params) == timestep.terminated[0]
        assert theirs.is_truncated(state, params) == timestep.truncated == (i == 6)
        assert done == (timestep.terminated[0] if TELLS_CUTS else timestep.done)
    assert eqx.tree_equal(state.world, own)
    np.testing.assert_array_equal(theirs.get_obs(state), expected[0])
    assert theirs.observation_space(params).shape == (4,)
    assert (theirs.action_space(params).n, theirs.num_actions) == (2, 2)
    assert theirs.is_truncated(state, params.replace(max_steps_in_episode=3))


def test_its_own_wrappers_reset_it_with_keys_of_plain_numbers():
    world = make("goals", num_agents=1)
    env = purerl.LogWrapper(purerl.FlattenObservationWrapper(to_gymnax(TimeLimit(world, 3))))
    params, key = env.default_params, jax.random.PRNGKey(0)
    size = env.observation_space(params).shape
    first, state = env.reset(key, params)
    assert first.shape == size
    for _ in range(3):
        action = env.action_space(params).sample(key)
        seen, state, _, *ends, info = env.step(key, state, action, params)
    assert any(ends)
    assert info["returned_episode_lengths"] == 3
    assert seen.shape == size


def test_the_page_tells_the_truth():
    ours, theirs, line_of_purejaxrl = text_blocks("gymnax")
    assert line_of_purejaxrl.startswith("env = to_gymnax(")
    for block in (ours, theirs):
        exec(block, {})


def test_what_does_not_fit_is_one_sentence():
    theirs, params = gymnax.make("CartPole-v1")
    with pytest.raises(ValueError, match="got a LogWrapper: leave the wrapper out"):
        from_gymnax(purerl.LogWrapper(theirs), params)
    with pytest.raises(TypeError, match="environment of gymnax, but got a CartPole"):
        from_gymnax(CartPole())
    with pytest.raises(ValueError, match="has 2: use to_jaxmarl or to_jaxnasium"):
        to_gymnax(make("overcooked"))
    with pytest.raises(ValueError, match="AutoReset starts the next one"):
        to_gymnax(AutoReset(our_world()))
    with pytest.raises(ValueError, match="Trapdoors have an action mask, but gymnax has no conv"):
        to_gymnax(Trapdoors(1))


def test_an_entry_of_info_is_split_by_declaration(key):
    for wrapper, steps in ((WithRooms, (1,)), (WithRoomsByAgent, ())):
        env = to_gymnax(wrapper(make("goals", num_agents=1)))
        _, state = env.reset_env(key, env.default_params)
        *_, info = env.step_env(key, state, jnp.asarray(4), env.default_params)
        assert (info["rooms"].shape, info["steps"].shape) == ((1,), steps)
        assert info["shaped_reward"].shape == ()
