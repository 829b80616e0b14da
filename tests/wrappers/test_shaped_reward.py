import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from cart_pole import CartPole
from race import Race
from wrapper_checks import rollout, sample_actions

from eqgrid import AutoReset, LinearSchedule, ShapedReward, TimeLimit, Vectorize

STEPS = 12


class Halving(eqx.Module):
    start: jax.Array

    def __call__(self, count):
        return self.start * 0.5 ** count.astype(float)


SCHEDULES = {
    "number": (0.3, lambda n: 0.3),
    "array": (jnp.asarray(0.3), lambda n: 0.3),
    "function": (lambda count: 1.0 / (1.0 + count.astype(float)), lambda n: 1 / (1 + n)),
    "integer": (lambda count: count, lambda n: n),
    "constant": (lambda count: 2, lambda n: 2),
    "module": (Halving(jnp.asarray(4.0)), lambda n: 4 * 0.5**n),
    "linear, with leaves": (LinearSchedule(2.0, 0.5, 6), lambda n: 2 - 1.5 * min(n / 6, 1)),
    "linear": (optax.linear_schedule(1.0, 0.0, 10), lambda n: max(0, 1 - n / 10)),
    "cosine": (
        optax.cosine_decay_schedule(1.0, 8),
        lambda n: 0.5 + 0.5 * np.cos(min(n, 8) * np.pi / 8),
    ),
    "piecewise": (optax.piecewise_constant_schedule(1.0, {5: 0.1}), lambda n: 1 if n < 5 else 0.1),
}


@pytest.mark.parametrize(("schedule", "expected"), SCHEDULES.values(), ids=SCHEDULES)
def test_weight_follows_the_schedule_over_all_episodes(key, schedule, expected):
    env = ShapedReward(AutoReset(TimeLimit(Race(), 3)), schedule)
    actions = sample_actions(env, key, STEPS)
    _, timesteps, states = rollout(env, key, actions)
    assert timesteps.done.sum() >= 3
    weight = np.array([expected(n) for n in range(STEPS)])[:, None]
    shaped = timesteps.info["raw_reward"] + weight * np.asarray(timesteps.info["shaped_reward"])
    np.testing.assert_allclose(timesteps.reward, shaped, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(states.count, np.arange(1, STEPS + 1))


def test_every_environment_of_a_batch_counts_its_own_steps(key):
    env = Vectorize(ShapedReward(AutoReset(Race()), 1.0), 4)
    _, _, states = rollout(env, key, sample_actions(env, key, 3))
    np.testing.assert_array_equal(states.count, [[1] * 4, [2] * 4, [3] * 4])


def test_weights_can_be_batched(key):
    weights = jnp.array([0.0, 2.0])
    envs = eqx.filter_vmap(lambda weight: ShapedReward(Race(), weight))(weights)
    roll = eqx.filter_vmap(rollout, in_axes=(eqx.if_array(0), None, None))
    _, timesteps, _ = roll(envs, key, jnp.ones((3, 3), int))
    extra = np.asarray(timesteps.reward - timesteps.info["raw_reward"])
    shaping = np.asarray(timesteps.info["shaped_reward"])
    np.testing.assert_allclose(extra, shaping * weights[:, None, None], rtol=1e-5, atol=1e-6)


def test_another_entry_can_shape_too(key):
    twice = ShapedReward(ShapedReward(Race(), 1.0), 0.5, key="raw_reward")
    _, timesteps, _ = rollout(twice, key, jnp.ones((2, 3), int))
    info = timesteps.info
    np.testing.assert_allclose(timesteps.reward, 1.5 * info["raw_reward"] + info["shaped_reward"])


def test_a_missing_entry_is_refused():
    with pytest.raises(ValueError, match=r"needs info\['bonus'\], .* only: 'shaped_reward'\."):
        ShapedReward(CartPole(), 1.0, key="bonus")


@pytest.mark.parametrize(("name", "found"), [("time", r"int32 of shape \(\)"), ("events", "uint8")])
def test_a_misshapen_entry_is_refused(name, found):
    with pytest.raises(ValueError, match=f"one float per agent.*{found}"):
        ShapedReward(Race(), 1.0, key=name)
