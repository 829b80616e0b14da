"""The state of the world, for critics: complete, seen from every agent, and for no actor."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import eqgrid
from agents import MLP, PPO, GlobalState, actor_critic, init_train_state, train
from eqgrid import AutoReset, LogEpisodes, ObservationAndState, Vectorize
from eqgrid.grid import AbstractGridWorld, Planes, StatePlanes, WithState, plane_names


def play(env: AbstractGridWorld, steps: int):
    """The states of an episode with random actions."""

    def step(state, key):
        action = jax.random.randint(key, (env.num_agents,), 0, len(env.actions))
        _, state = env.step(key, state, action)
        return state, state

    _, first = env.reset(jax.random.key(0))
    return jax.lax.scan(step, first, jax.random.split(jax.random.key(1), steps))[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", eqgrid.ENVIRONMENTS)
def test_different_worlds_have_different_states(name: str):
    env = eqgrid.make(name, horizon=150)
    states = eqx.filter_jit(play)(env, 150)
    planes = np.asarray(jax.vmap(env.with_observation(StatePlanes()).observe)(states))
    assert planes.shape[:4] == (150, env.num_agents, *env.shape)
    assert np.isfinite(planes).all()
    texts = [
        b"".join(np.asarray(leaf)[i].tobytes() for leaf in jax.tree.leaves(states))
        for i in range(150)
    ]
    for agent in range(env.num_agents):
        seen = [planes[i, agent].tobytes() for i in range(150)]
        assert len(set(seen)) == len(set(texts))


@pytest.mark.slow
def test_states_are_seen_from_every_agent():
    env = eqgrid.make("foraging", size=8, num_agents=3, num_food=3)
    _, state = env.reset(jax.random.key(3))
    planes = np.asarray(env.with_observation(StatePlanes()).observe(state))
    names = plane_names(env.layout.kinds)
    everywhere = planes[:, :, :, len(names) : len(names) + 2]
    np.testing.assert_array_equal(
        planes[..., : len(names)], Planes()(env.layout, state, jnp.asarray(1))
    )
    for agent in range(3):
        for other in (1, 2):
            place = np.argwhere(everywhere[agent, :, :, other - 1])
            expected = np.asarray(state.bodies.position)[(agent + other) % 3]
            np.testing.assert_array_equal(place, expected[None])


def build(seed: int = 0):
    one = eqgrid.make("goals", horizon=20)
    one = one.with_observation(WithState(one.observation))
    return Vectorize(AutoReset(LogEpisodes(one)), 8), jax.random.key(seed)


@pytest.mark.slow
def test_actors_see_no_state():
    env, key = build()
    policy = actor_critic(env, key, network=MLP, critic_input=GlobalState())
    observation, _ = env.reset(key)
    one = jax.tree.map(lambda x: x[0], observation)
    assert isinstance(one, ObservationAndState)
    distribution, value, _ = policy(one, None)
    changed = eqx.tree_at(lambda x: x.state, one, one.state + 1.0)
    blind = eqx.tree_at(lambda x: x.local, one, one.local + 1.0)
    np.testing.assert_array_equal(distribution.logits, policy(changed, None)[0].logits)
    assert (value != policy(changed, None)[1]).all()
    np.testing.assert_array_equal(value, policy(blind, None)[1])
    assert (distribution.logits != policy(blind, None)[0].logits).any()


@pytest.mark.slow
def test_critics_learn_from_the_state():
    env, key = build()
    ppo = PPO(rollout_length=16)
    state = init_train_state(ppo, env, key, network=MLP, critic_input=GlobalState())
    done = train(ppo, env, state, num_updates=4, updates_per_block=4)
    assert np.isfinite(np.asarray(done.metrics.scalars["value_loss"])).all()
