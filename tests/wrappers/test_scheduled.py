"""A number of an environment that changes with the steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from race import Race
from wrapper_checks import assert_same, rollout, sample_actions, step

from eqgrid import (
    AutoReset,
    ConstantPartner,
    LinearSchedule,
    OneOf,
    Scheduled,
    TimeLimit,
    Vectorize,
    WithPartner,
    check_env,
)

STEPS = 30


def goal(env):
    return env.env.env.goal


def share(env):
    return env.env.share


def test_each_step_is_that_of_an_environment_with_this_number(key):
    """The goal comes closer, so that runners arrive sooner; three episodes end by their limit."""
    schedule = LinearSchedule(20.0, 1.0, 20)
    env = Scheduled(AutoReset(TimeLimit(Race(), 10)), goal, schedule)
    actions = sample_actions(env, key, STEPS)
    first, timesteps, states = rollout(env, key, actions)
    np.testing.assert_array_equal(states.count, np.arange(1, STEPS + 1))
    assert timesteps.terminated[20:].any()
    assert not timesteps.terminated[:9].any()
    before = first[1].env_state
    keys = jax.random.split(jax.random.split(key)[1], STEPS)
    for number in range(STEPS):
        plain = AutoReset(TimeLimit(Race(goal=20 - 19 * min((number + 1) / 20, 1)), 10))
        timestep, before = step(plain, keys[number], before, actions[number])
        assert_same(jax.tree.map(lambda x, i=number: x[i], timesteps), timestep)


def test_the_share_of_partners_rises(key):
    """Episodes of two steps: half-way, every second one has a partner."""
    partner = WithPartner(TimeLimit(Race(2), 2), OneOf([ConstantPartner(0)]), share=1.0)
    env = Vectorize(Scheduled(AutoReset(partner), share, LinearSchedule(0.0, 1.0, STEPS)), 2000)
    _, timesteps, _ = rollout(env, key, jnp.zeros((STEPS + 4, 2000, 2), int))
    shares = np.asarray(timesteps.info["replaced"].any(axis=-1).mean(axis=-1))
    # An episode that starts after n steps has a partner with probability n / 30.
    starts = np.minimum(np.arange(STEPS + 4) // 2 * 2 / STEPS, 1)
    np.testing.assert_allclose(shares, starts, atol=0.04)
    assert (shares[0], shares[-1]) == (0, 1)


def test_it_keeps_the_protocol():
    check_env(Scheduled(AutoReset(TimeLimit(Race(), 5)), goal, LinearSchedule(9.0, 1.0, 8)))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Scheduled(Race(), lambda env: 3.0, lambda n: n), "picks a scalar array out of"),
        (
            lambda: Scheduled(Vectorize(Race(), 2), goal, lambda n: n),
            "with the environment inside Vectorize",
        ),
        (
            lambda: AutoReset(Scheduled(Race(), lambda env: env.goal, lambda n: n)),
            "Scheduled must be outside AutoReset, .*: Scheduled.AutoReset.env., where, schedule",
        ),
    ],
)
def test_what_cannot_be_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
