"""The adapter from Brax and MuJoCo Playground: the same steps on both sides of it."""

import equinox as eqx
import jax
import numpy as np
import pytest
from pages import text_blocks

from eqgrid import TimeLimit, check_env, interop
from eqgrid.interop._foreign import implicit_promotion

with implicit_promotion():
    pytest.importorskip("brax", reason="needs the [parity] extra: pip install -e '.[test,parity]'")
    from brax import envs
    from brax.envs.fast import Fast
    from brax.envs.wrappers.training import EpisodeWrapper

    from_brax = interop.from_brax
pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:Brax System, piplines and environments:UserWarning"),
    pytest.mark.filterwarnings("ignore:Accessing .* directly from:DeprecationWarning"),
]
STEPS = 12


def episodes_of_both(theirs, scripts, key):
    """For each script of actions, the timesteps of ours and the states of theirs, compared."""
    env = from_brax(theirs)
    step, their_step = eqx.filter_jit(env.step), jax.jit(theirs.step)
    observation, first = eqx.filter_jit(env.reset)(key)
    with implicit_promotion():
        start = jax.jit(theirs.reset)(jax.random.key_data(key))
    np.testing.assert_array_equal(observation[0], start.obs)
    episodes = []
    for script in scripts:
        state, world, episode = first, start, []
        for action in np.asarray(script, np.float32).reshape(-1, 1, 1):
            timestep, state = step(key, state, action)
            with implicit_promotion():
                world = their_step(world, action[0])
            np.testing.assert_array_equal(timestep.observation[0], world.obs)
            np.testing.assert_array_equal(env.observe(state)[0], world.obs)
            assert timestep.reward[0] == world.reward
            assert set(timestep.info) == set(world.metrics)
            assert timestep.done == bool(world.done)
            episode.append((timestep, world))
        episodes.append(episode)
    return episodes


@pytest.mark.slow
def test_a_pendulum_is_the_same_through_the_adapter(key):
    with implicit_promotion():
        theirs = envs.get_environment("inverted_pendulum", backend="spring")
        theirs = EpisodeWrapper(theirs, STEPS, 1)
    gentle, rough = episodes_of_both(theirs, [np.zeros(STEPS), np.ones(STEPS)], key)
    last, world = gentle[-1]
    assert world.info["truncation"] == 1
    assert last.truncated
    assert not last.terminated.any()
    fell = next(timestep for timestep, world in rough if world.done)
    assert fell.terminated.all()
    assert not fell.truncated


def test_a_body_of_playground_is_the_same_through_the_adapter(key):
    with implicit_promotion():
        playground = pytest.importorskip("mujoco_playground", reason="pip install playground")
        theirs = playground.registry.load("CartpoleBalance", config_overrides={"impl": "jax"})
    (episode,) = episodes_of_both(theirs, [np.sin(np.arange(STEPS))], key)
    assert len(episode) == STEPS


@pytest.fixture(scope="module")
def fast():
    with implicit_promotion():
        return Fast()


def test_it_is_an_environment_of_ours(fast):
    check_env(TimeLimit(from_brax(fast), 5), steps=12)


def test_of_a_dict_the_state_is_seen(key):
    with implicit_promotion():
        both = Fast(obs_mode="dict_pixels_state")
        pictures = Fast(obs_mode="dict_pixels")
    seen, _ = from_brax(both).reset(key)
    chosen, _ = from_brax(pictures, observe=lambda shown: shown["pixels/view_0"]).reset(key)
    assert seen.shape[0] == chosen.shape[0] == 1
    assert seen.ndim < chosen.ndim
    with pytest.raises(ValueError, match=r"Fast is a dict of .*pixels.* observe=lambda"):
        from_brax(pictures)


def test_what_does_not_fit_is_one_sentence(fast):
    with implicit_promotion():
        resets = envs.create("fast", episode_length=5)
    with pytest.raises(ValueError, match="leave out its AutoResetWrapper"):
        from_brax(resets)


def test_the_page_tells_the_truth():  # and trains an agent
    blocks = text_blocks("Brax and MuJoCo Playground")
    assert len(blocks) == 1
    for block in blocks:
        exec(block, {})
