"""Another reward in a bundled world."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float32

from eqgrid import ENVIRONMENTS, LogEpisodes, TimeLimit, make, replace_innermost
from eqgrid.envs.goals import GeneratedMazes, Goals
from eqgrid.grid import AbstractReward, RandomLayouts, Step, WeightedEventReward


class Clock(AbstractReward):
    """Pays agent `i` the time, times `i + 1`, and a share that is an array leaf."""

    share: Float32[Array, ""]

    def __call__(self, step: Step) -> Float32[Array, " agents"]:
        number = jnp.arange(1, step.world.num_agents + 1, dtype=jnp.float32)
        return self.share * number * step.world.time.astype(jnp.float32)


CLOCK = Clock(jnp.asarray(0.5))


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_bundled_world_takes_another_reward(name):
    world = make(name)
    other = world.with_reward(CLOCK)
    assert eqx.tree_equal(other.reward, CLOCK)
    assert eqx.tree_equal(other.with_reward(world.reward), world)

    # The step of the other reward has the same shapes, so that wrappers and learners fit it.
    def shapes(env):
        _, state = env.reset(jax.random.key(0))
        return env.step(jax.random.key(0), state, jnp.zeros(env.num_agents, jnp.int32))

    assert eqx.tree_equal(*(eqx.filter_eval_shape(shapes, env) for env in (world, other)))


def returns(env, steps):
    """The sum of the rewards of agents that stay, and the returns that `LogEpisodes` reports."""
    _, state = env.reset(jax.random.key(0))
    stay, total = jnp.full(env.num_agents, 4), np.zeros(env.num_agents)
    for _ in range(steps):
        timestep, state = env.step(jax.random.key(0), state, stay)
        total += np.asarray(timestep.reward)
    return total, timestep.info["episode_return"]


def test_the_return_is_the_sum_of_the_other_reward():
    kitchen = replace_innermost(
        TimeLimit(make("overcooked"), 3), lambda world: world.with_reward(CLOCK)
    )
    mazes = GeneratedMazes(7, 7)
    maze = RandomLayouts(Goals(mazes.example, horizon=3), mazes).with_reward(CLOCK)
    for env in (kitchen, maze):
        total, logged = returns(LogEpisodes(env), 3)
        np.testing.assert_array_equal(total, [3, 6])  # (1 + 2 + 3) / 2
        np.testing.assert_array_equal(logged, total)


def test_weights_must_be_those_of_the_events():
    world = make("goals")
    other = world.with_reward(WeightedEventReward({"arrival": 10.0}, world.event_names))
    assert other.reward.weights.tolist() == [10]
    with pytest.raises(ValueError, match=r"for the events soup, but .* the events arrival"):
        world.with_reward(WeightedEventReward({"soup": 1.0}, ("soup",)))


@pytest.mark.parametrize("part", ["reward", "observation", "layout", "horizon"])
def test_a_replaced_field_is_an_error_that_names_the_methods(part):
    for name in ("goals", "overcooked"):
        world = make(name)
        with pytest.raises(TypeError, match="use the methods with_reward, with_observation and"):
            dataclasses.replace(world, **{part: getattr(world, part)})
