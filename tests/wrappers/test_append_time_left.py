import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cart_pole import CartPole
from race import Race
from wrapper_checks import rollout, sample_actions

from eqgrid import AppendTimeLeft, AutoReset, TimeLimit, Vectorize, make


def test_it_counts_down_and_begins_anew(key):
    env = AutoReset(TimeLimit(AppendTimeLeft(CartPole(), 4), 3))
    first, timesteps, _ = rollout(env, key, jnp.zeros((7, 1), int))
    assert first[0].shape == (1, 5)
    assert first[0][0, -1] == 1
    assert np.flatnonzero(timesteps.done).tolist() == [2, 5]
    left = [0.75, 0.5, 1, 0.75, 0.5, 1, 0.75]
    np.testing.assert_array_equal(timesteps.observation[:, 0, -1], left)
    final = [0.75, 0.5, 0.25, 0.75, 0.5, 0.25, 0.75]
    np.testing.assert_array_equal(timesteps.final_observation[:, 0, -1], final)


def test_it_stays_at_zero(key):
    _, timesteps, _ = rollout(AppendTimeLeft(CartPole(), 2), key, jnp.zeros((4, 1), int))
    np.testing.assert_array_equal(timesteps.observation[:, 0, -1], [0.5, 0, 0, 0])


def test_the_rest_is_as_it_was(key):
    world = make("goals", horizon=6)
    timed = AppendTimeLeft(world, 6)
    actions = sample_actions(world, key, 6)
    _, plain, plain_states = rollout(world, key, actions)
    _, timesteps, states = rollout(timed, key, actions)
    np.testing.assert_array_equal(timesteps.observation[..., :-1], plain.observation)
    np.testing.assert_array_equal(timesteps.reward, plain.reward)
    assert eqx.tree_equal(states.env_state, plain_states)
    assert timesteps.observation[-1, 0, -1] == 0
    seen = jax.vmap(timed.observe)(states)
    np.testing.assert_allclose(seen, timesteps.observation, rtol=1e-6)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: AppendTimeLeft(AutoReset(CartPole()), 5), "must be inside AutoReset"),
        (
            lambda: AppendTimeLeft(Vectorize(CartPole(), 2), 5),
            "with the environment inside Vectorize",
        ),
        (lambda: AppendTimeLeft(Race(), 5), "floating-point numbers"),
    ],
)
def test_what_cannot_be_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
