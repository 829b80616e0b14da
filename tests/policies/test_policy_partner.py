"""Partners that act by a policy, and observe the game in their own way."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from learners import build, loud_mlp
from wrapper_checks import assert_same

from agents import PolicyPartner, trained_policy
from eqgrid import AppendAgentId, AppendTimeLeft, PartnerInput, Vectorize, make

NAMED, REFERENCE = (
    make("overcooked", layout="ring", horizon=20, observation=name)
    for name in ("features", "features96")
)


def policy_in(env):
    envs = Vectorize(env, 2)
    return trained_policy(build(envs, jax.random.key(0), network=loud_mlp), envs)


@eqx.filter_jit
def states_in(env, act, key):
    """The states of an episode in which `act` chooses the actions, given observation and state."""

    def step(now, key):
        timestep, state = env.step(key, now[1], act(*now))
        return (timestep.observation, state), state

    return jax.lax.scan(step, env.reset(key), jax.random.split(key, 20))[1]


def test_a_partner_plays_the_same_among_agents_that_observe_something_else(key):
    own = AppendAgentId(REFERENCE)
    policy = policy_in(own)
    guest = PolicyPartner(policy, greedy=True, env=own)

    def as_a_team(observation, state):
        return policy.act(observation, None, None, greedy=True)[0]

    def as_guests(observation, state):
        seats = [PartnerInput(observation, state, jnp.asarray(seat)) for seat in (0, 1)]
        return jnp.stack([guest(seen, None, key)[0] for seen in seats])

    assert_same(states_in(own, as_a_team, key), states_in(NAMED, as_guests, key))


def test_an_environment_that_does_not_fit_is_refused():
    policy = policy_in(REFERENCE)
    with pytest.raises(ValueError, match="The policy reads observations"):
        PolicyPartner(policy, env=NAMED)
    timed = AppendTimeLeft(REFERENCE, 20)
    with pytest.raises(ValueError, match="adds a state of its own"):
        PolicyPartner(policy_in(timed), env=timed)
