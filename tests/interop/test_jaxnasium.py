"""The adapter to jaxnasium: equal trajectories on both sides, in both directions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxnasium
import numpy as np
import pytest
from cart_pole import CartPole
from learners import Clock

from agents import PPO, evaluate, init_train_state, train
from eqgrid import (
    AutoReset,
    Discrete,
    LogEpisodes,
    MultiDiscrete,
    TimeLimit,
    Vectorize,
    check_env,
    make,
    unwrap_state,
)
from eqgrid.interop import from_jaxnasium, to_jaxnasium

pytestmark = pytest.mark.slow


class Odd(jaxnasium.Space):
    """A space that eqgrid does not know."""

    shape = ()
    dtype = int

    def sample(self, rng):
        return jnp.asarray(0)


class Race(jaxnasium.Environment):
    """Agents of jaxnasium that see vectors of different lengths, one of them with a mask. The agent
    `a_2` finishes with the second step, and everybody is cut with the fourth.
    """

    _multi_agent: bool = eqx.field(static=True, default=True)
    names: tuple = eqx.field(static=True, default=("a_10", "a_2"))

    def reset_env(self, key):
        return self.look(jnp.array(0)), jnp.array(0)

    def step_env(self, key, state, action):
        state = state + 1
        reward = {name: 1.0 * action[name] * state for name in self.names}
        over = {"a_10": state > 9, "a_2": state >= 2}
        return jaxnasium.TimeStep(
            self.look(state), reward, over, dict.fromkeys(over, state >= 4), {}
        ), state

    def look(self, time):
        short = jaxnasium.AgentObservation(jnp.full(2, 1.0 * time), jnp.ones(3, bool))
        return {"a_10": short, "a_2": jnp.full(3, 2.0 * time)}

    @property
    def action_space(self):
        return dict.fromkeys(self.names, jaxnasium.Discrete(3))

    @property
    def observation_space(self):
        return {"a_10": jaxnasium.Box(0, 1, (2,)), "a_2": jaxnasium.Box(0, 1, (3,))}


@pytest.fixture
def as_jaxnasium_wants_it():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def wrapped_pole():
    return jaxnasium.FrameStackWrapper(jaxnasium.make("CartPole-v1", max_episode_steps=12), 2)


@pytest.mark.parametrize("steps", [3, 100])
def test_a_cart_pole_of_jaxnasium_is_the_same_behind_the_adapter(steps, key, as_jaxnasium_wants_it):
    theirs = jaxnasium.make("CartPole-v1", max_episode_steps=steps)
    env = from_jaxnasium(theirs)
    check_env(env, steps=20)
    bare = theirs._env
    _, state = env.reset(key)
    seen, world = bare.reset_env(key)
    step, their_step = eqx.filter_jit(env.step), eqx.filter_jit(bare.step_env)
    for _ in range(20):
        np.testing.assert_array_equal(env.observe(state)[0], seen)
        (seen, reward, over, cut, _), world = their_step(key, world, jnp.array(1))
        timestep, state = step(key, state, jnp.array([1]))
        np.testing.assert_array_equal(timestep.observation[0], seen)
        assert timestep.reward[0] == reward
        assert (timestep.terminated[0], timestep.truncated) == (over, cut)
        if timestep.done:
            break
    assert cut == (steps == 3)
    assert over == (steps == 100)


def test_a_wrapper_of_jaxnasium_shows_what_the_last_step_led_to(key, as_jaxnasium_wants_it):
    theirs = wrapped_pole()
    env = from_jaxnasium(theirs)
    check_env(env, steps=20)
    seen, state = env.reset(key)
    first, world = theirs.reset(key)
    np.testing.assert_array_equal(seen[0], first)
    step, their_step = eqx.filter_jit(env.step), eqx.filter_jit(theirs.step)
    for _ in range(12):
        timestep, state = step(key, state, jnp.array([1]))
        expected, world = their_step(key, world, jnp.array(1))
        last = expected.info[jaxnasium.ORIGINAL_OBSERVATION_KEY]
        np.testing.assert_array_equal(timestep.observation[0], last)
        if timestep.done:
            break
    assert timestep.done
    assert abs(timestep.observation[0, -1]).max() > abs(expected.observation[-1]).max()


def test_several_agents_are_padded_in_the_order_of_the_tree(key):
    env = from_jaxnasium(Race(), pad=True)
    check_env(env, steps=10)
    seen, state = env.reset(key)
    assert seen.shape == (2, 3)
    for time in range(1, 5):
        timestep, state = env.step(key, state, jnp.array([1, 2]))
        np.testing.assert_array_equal(timestep.observation, [[time, time, 0], [2 * time] * 3])
        np.testing.assert_array_equal(timestep.reward, [time, 2 * time])
        np.testing.assert_array_equal(timestep.terminated, [False, time >= 2])
        assert timestep.truncated == timestep.done == (time == 4)


class UnevenRace(Race):
    """A race in which the second agent has two actions more than the first."""

    @property
    def action_space(self):
        return {"a_10": jaxnasium.Discrete(3), "a_2": jaxnasium.Discrete(5)}


def test_agents_with_fewer_actions_get_a_mask(key):
    env = from_jaxnasium(UnevenRace(), pad=True)
    check_env(env, steps=10)
    assert env.action_space == Discrete(5)
    seen, state = env.reset(key)
    np.testing.assert_array_equal(seen.action_mask.sum(axis=1), [3, 5])
    timestep, _ = env.step(key, state, jnp.array([4, 4]))
    np.testing.assert_array_equal(timestep.reward, [2, 4])  # action 2 is the first agent's last
    assert eqx.tree_equal(timestep.observation.action_mask, seen.action_mask)
    with pytest.raises(ValueError, match="have different actions: set pad=True"):
        from_jaxnasium(UnevenRace())


def test_several_choices_in_one_action_are_the_same_on_both_sides():
    ours = from_jaxnasium(to_jaxnasium(make("overcooked")))
    theirs = to_jaxnasium(eqx.tree_at(lambda e: e.action_space, ours, MultiDiscrete((2, 3))))
    assert from_jaxnasium(theirs).action_space == MultiDiscrete((2, 3))


def test_ours_with_ends_of_all_kinds_is_the_same_through_the_adapter(key, as_jaxnasium_wants_it):
    env = Clock(12)
    theirs = to_jaxnasium(env)
    seen, state = theirs.reset(key)
    expected, own = env.reset(key)
    step = eqx.filter_jit(theirs.step_env)
    for i in range(9):
        np.testing.assert_array_equal(seen["agent_10"], expected[10])
        action = theirs.sample_action(jax.random.fold_in(key, i))
        (seen, reward, over, cut, _), state = step(key, state, action)
        stacked = jnp.stack([action[f"agent_{j}"] for j in range(12)])
        timestep, own = env.step(key, own, stacked)
        expected = timestep.observation
        assert reward["agent_2"] == timestep.reward[2]
        assert [over["agent_0"], over["agent_10"]] == list(timestep.terminated[jnp.array([0, 10])])
        assert set(map(bool, cut.values())) == {bool(timestep.truncated)}
        if timestep.done:
            break
    assert timestep.done
    assert eqx.tree_equal(unwrap_state(state), own)


def test_one_agent_has_no_dicts_and_its_step_resets(key, as_jaxnasium_wants_it):
    env = jaxnasium.LogWrapper(to_jaxnasium(TimeLimit(CartPole(), 3)))
    assert not env.multi_agent
    assert (env.action_space.n, env.observation_space.shape) == (2, (4,))
    _, state = env.reset(jax.random.PRNGKey(0))
    for _ in range(3):
        (seen, reward, _, cut, info), state = env.step(key, state, env.sample_action(key))
    assert cut
    assert (reward, info["returned_episode_returns"], info["shaped_reward"].shape) == (1, 3, ())
    assert (seen != info[jaxnasium.ORIGINAL_OBSERVATION_KEY]).all()


def test_real_valued_actions_keep_their_bounds():
    ours = from_jaxnasium(jaxnasium.make("Pendulum-v1"))
    theirs = to_jaxnasium(ours).action_space
    assert (theirs.shape, theirs.low.tolist(), theirs.high.tolist()) == ((1,), [-2], [2])


def test_its_own_ppo_learns_in_a_world_of_ours(key, as_jaxnasium_wants_it):
    algorithms = pytest.importorskip("jaxnasium.algorithms")
    env = to_jaxnasium(make("goals"))
    ppo = algorithms.PPO(total_timesteps=512, num_envs=4, num_steps=32, warmup_steps=32)
    agents, metrics = ppo.train(key, env)
    observation, _ = env.reset(key)
    assert set(agents.get_action(key, observation)) == {"agent_0", "agent_1"}
    assert all(np.shape(x)[0] == 4 for x in jax.tree.leaves(metrics))


@pytest.mark.learning
def test_our_ppo_learns_its_cart_pole(key):
    one = AutoReset(LogEpisodes(from_jaxnasium(jaxnasium.make("CartPole-v1"))))
    env, ppo = Vectorize(one, 16), PPO(rollout_length=64, num_epochs=6, learning_rate=1.5e-3)
    done = train(ppo, env, init_train_state(ppo, env, key), num_updates=40)
    result = evaluate(done.state.policy, Vectorize(one, 32), key)
    assert np.mean(result.episode_return) > 100, "it falls after 20 steps without learning"


class Grids(Race):
    """Each agent sees a grid of integers and a number, as in adapted jumanji environments."""

    def look(self, time):
        parts = {"grid": jnp.arange(4).reshape(2, 2), "time": time}
        return {"a_10": jaxnasium.AgentObservation(parts, jnp.ones(3, bool)), "a_2": parts}


def test_several_arrays_become_one_vector(key):
    env = from_jaxnasium(Grids())
    check_env(env, steps=5)
    _, state = env.reset(key)
    timestep, _ = env.step(key, state, jnp.array([0, 0]))
    np.testing.assert_array_equal(timestep.observation, [[0, 1, 2, 3, 1]] * 2)


class OddRace(Race):
    @property
    def action_space(self):
        return dict.fromkeys(self.names, Odd())


def test_what_does_not_fit_is_one_sentence():
    with pytest.raises(ValueError, match=r"see \(2,\), \(3,\): set pad=True"):
        from_jaxnasium(Race())
    with pytest.raises(ValueError, match=r"of a Odd are not supported.*FlattenAct"):
        from_jaxnasium(OddRace())
    with pytest.raises(ValueError, match="leave out the VecEnvWrapper"):
        from_jaxnasium(jaxnasium.VecEnvWrapper(jaxnasium.make("CartPole-v1")))
    with pytest.raises(TypeError, match="environment of jaxnasium, but got a CartPole"):
        from_jaxnasium(CartPole())
    with pytest.raises(ValueError, match="AutoReset starts the next one"):
        to_jaxnasium(AutoReset(CartPole()))
