"""A partner in the place of one agent: who acts, who is told what, and that the others learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learners import Clock

from agents import PPO, init_train_state, train
from eqgrid import (
    AutoReset,
    Discrete,
    LogEpisodes,
    RandomPartner,
    RecordedPartner,
    StayPartner,
    Vectorize,
    WithPartners,
    check_env,
)


@pytest.mark.parametrize("seat", [0, 1, 2])
def test_the_others_keep_their_order(key, seat):
    env = WithPartners(Clock(3), [StayPartner(2)], seats=[seat])
    others = [i for i in range(3) if i != seat]
    observation, state = env.reset(key)
    assert env.num_agents == 2
    assert observation[:, 0].tolist() == others
    timestep, after = env.step(key, state, jnp.array([0, 1]))
    actions = np.zeros(3, int)
    actions[others] = [0, 1]
    actions[seat] = 2
    expected, _ = Clock(3).step(key, state.env_state, jnp.asarray(actions))
    np.testing.assert_array_equal(timestep.reward, np.asarray(expected.reward)[others])
    np.testing.assert_array_equal(timestep.terminated, np.asarray(expected.terminated)[others])
    np.testing.assert_array_equal(timestep.observation, np.asarray(expected.observation)[others])
    np.testing.assert_array_equal(env.observe(after), timestep.observation)


def test_partners_and_seats_are_drawn_anew_and_what_they_remember_begins_anew(key):
    recording = jnp.tile(jnp.array([[0], [1], [2]]), (1, 2))
    partners = [RecordedPartner(recording, then=0), StayPartner(1), RandomPartner(Discrete(3))]
    env = AutoReset(WithPartners(Clock(), partners))
    _, state = env.reset(key)

    def step(state, key):
        timestep, after = env.step(key, state, jnp.array([0]))
        return after, (state.partner, state.seat, state.carry, timestep.done)

    keys = jax.random.split(key, 400)
    _, (partner, seat, carry, done) = jax.jit(lambda s: jax.lax.scan(step, s, keys))(state)
    ends = np.flatnonzero(done)
    assert set(zip(partner.tolist(), seat.tolist(), strict=True)) == {
        (i, j) for i in range(3) for j in range(2)
    }
    for array in (partner, seat):  # they change nowhere but at the beginning of an episode
        assert set(np.flatnonzero(np.diff(np.asarray(array)))) <= set(ends)
    (remembers,) = jax.tree.leaves(carry)
    assert (np.asarray(remembers)[ends[:-1] + 1] == 0).all()
    first = np.arange(ends[0] + 1)
    assert partner[0] != 0 or remembers[: len(first)].tolist() == first.tolist()


@pytest.mark.slow
def test_agents_learn_with_partners(key):
    env = WithPartners(Clock(), [StayPartner(1), RandomPartner(Discrete(3))])
    check_env(env)
    many = Vectorize(AutoReset(LogEpisodes(env)), 4)
    ppo = PPO(rollout_length=8, num_minibatches=1, num_epochs=1)
    run = train(ppo, many, init_train_state(ppo, many, key), num_updates=1)
    assert run.state.policy.actor.num_agents == 1


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda p: WithPartners(Clock(1), p), "at least 2 agents"),
        (lambda p: WithPartners(AutoReset(Clock()), p), "must be inside AutoReset"),
        (lambda p: WithPartners(Vectorize(Clock(), 2), p), "wraps one environment"),
        (lambda p: WithPartners(Clock(), p, seats=[2]), "seats of partners are from 0 to 1"),
        (lambda p: WithPartners(Clock(), p, seats=[]), "seats of partners are from 0 to 1"),
        (lambda p: WithPartners(Clock(), []), "at least 1 partner"),
    ],
)
def test_what_cannot_be_is_refused(build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build([StayPartner(0)])
