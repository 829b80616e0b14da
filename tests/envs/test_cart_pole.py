"""The environment in `cart_pole.py` is the cart-pole that it says it is."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from cart_pole import CartPole
from wrapper_checks import reset, step


def naive_step(x, x_dot, theta, theta_dot, action):
    """Barto, Sutton & Anderson (1983) as Gymnasium's CartPole-v1 has it, in double precision."""
    gravity, cart, pole, half_length, force_size, tau = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
    total = cart + pole
    force = force_size if action == 1 else -force_size
    temp = (force + pole * half_length * theta_dot**2 * math.sin(theta)) / total
    theta_acc = (gravity * math.sin(theta) - math.cos(theta) * temp) / (
        half_length * (4.0 / 3.0 - pole * math.cos(theta) ** 2 / total)
    )
    x_acc = temp - pole * half_length * theta_acc * math.cos(theta) / total
    return (
        x + tau * x_dot,
        x_dot + tau * x_acc,
        theta + tau * theta_dot,
        theta_dot + tau * theta_acc,
    )


def test_equals_the_equations_until_it_falls(key):
    env = CartPole()
    rng = np.random.default_rng(0)
    falls = 0
    _, state = reset(env, key)
    expected = tuple(np.asarray(state, np.float64))
    for _ in range(100):
        action = int(rng.integers(2))
        timestep, state = step(env, key, state, jnp.array([action]))
        expected = naive_step(*expected, action)
        np.testing.assert_allclose(state, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(timestep.observation, state[None])
        out = abs(expected[0]) > 2.4 or abs(expected[2]) > 12 * 2 * math.pi / 360
        assert bool(timestep.terminated[0]) == out
        assert timestep.reward == 1
        assert not timestep.truncated
        if out:
            falls += 1
            _, state = reset(env, jax.random.key(falls))
            expected = tuple(np.asarray(state, np.float64))
    assert falls > 1
