"""The table of optimal plans: what it chooses is optimal, is the same for both cooks, and does not
dawdle.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eqgrid.envs.overcooked import Overcooked
from eqgrid.envs.overcooked.plans import (
    JointModel,
    Layers,
    PlanTable,
    StepsNeeded,
    solve,
    solve_discounted,
)

pytestmark = [pytest.mark.slow]
DISCOUNT = 0.98


@pytest.fixture(scope="module")
def cramped():
    env = Overcooked("cramped", horizon=100)
    return env, PlanTable(JointModel(env), 100)


def wandered(env, number, steps):
    """States to which random actions lead, at random times."""
    rng, step = np.random.default_rng(0), eqx.filter_jit(env.step)
    found = []
    for _ in range(number):
        _, state = env.reset(jax.random.key(0))
        for _ in range(rng.integers(steps)):
            actions = jnp.asarray(rng.integers(0, 6, 2), jnp.int32)
            _, state = step(jax.random.key(0), state, actions)
        found.append(state)
    return found


def play(env, table, state, steps):
    """Plays the table in the environment, and returns the reward of every step."""
    step, rewards = eqx.filter_jit(env.step), []
    for left in range(steps, 0, -1):
        where = np.asarray([table.model.locate(state)])
        action, _ = table.choose(np.asarray([left]), where)
        timestep, state = step(jax.random.key(0), state, jnp.asarray(action[0], jnp.int32))
        rewards.append(float(timestep.reward[0]))
    return np.asarray(rewards)


def test_it_earns_in_the_environment_what_it_says(cramped):
    env, table = cramped
    assert table.value == 60
    _, start = env.reset(jax.random.key(0))
    assert play(env, table, start, 100).sum() == 60


def test_from_any_state_at_any_time_it_earns_its_value(cramped):
    env, table = cramped
    values = []
    for number, state in enumerate(wandered(env, 12, 80)):
        left = 20 + 5 * number
        _, [value] = table.choose(np.asarray([left]), np.asarray([table.model.locate(state)]))
        assert play(env, table, state, left).sum() == value
        values.append(value)
    assert len(set(values)) > 2


def test_values_are_those_of_all_layers(tmp_path):
    model, steps = JointModel(Overcooked("asymmetric")), np.arange(1, 41)
    needed = StepsNeeded(model)
    with (tmp_path / "layers").open("w+b") as file:
        layers = Layers(model, file, 1)
        solve(model, 40, layers)
        solve(model, 40, needed)
        rng = np.random.default_rng(0)
        pairs, found = rng.integers(model.num_pairs, size=40), 0
        for objects in rng.integers(model.num_objects, size=500):
            own = np.full(40, objects)
            expected = [layers[n + 1][pair, objects] for n, pair in enumerate(pairs)]
            assert needed.values(steps, pairs, own).tolist() == expected
            found += sum(map(int, expected))
    assert found > 100
    assert needed.values(steps - steps, pairs, own).tolist() == [0] * 40


def test_it_does_not_dawdle_where_there_is_time_to_spare(cramped):
    """Three soups can be delivered in 100 steps: the third one long before the end."""
    env, table = cramped
    _, start = env.reset(jax.random.key(0))
    assert np.flatnonzero(play(env, table, start, 100)).max() < 95


def test_discounted_returns_are_those_of_greedy_play():
    """The sum of the discounted rewards on the way is the value, as Bellman's equation says."""
    model = JointModel(Overcooked("cramped"))
    values = solve_discounted(model, DISCOUNT)
    (pair, objects), total = model.start, 0.0
    for time in range(700):
        best = (-1.0, 0.0, 0, 0)
        for action in np.ndindex(6, 6):
            after, table = model.step(pair, action)
            block, rest = divmod(objects, table.block)
            then = int(table.next[block]) * table.block + rest
            paid = 0.0 if table.reward is None else float(table.reward[block])
            best = max(best, (paid + DISCOUNT * float(values[after, then]), paid, after, then))
        assert best[0] == pytest.approx(float(values[pair, objects]), abs=1e-3)
        _, paid, pair, objects = best
        total += DISCOUNT**time * paid
    assert total == pytest.approx(float(values[model.start]), abs=1e-2)


@pytest.mark.parametrize("whole", [False, True])
def test_many_states_are_found_as_one_is(whole):
    env = Overcooked("cramped")
    model = JointModel(env, whole=whole)
    worlds = wandered(env, 30, 100)
    found = model.locate_all(jax.tree.map(lambda *x: jnp.stack(x), *worlds))
    for state, own in zip(worlds, found, strict=True):
        assert tuple(own) == model.locate(state)
    assert len({tuple(x) for x in found}) > 20
