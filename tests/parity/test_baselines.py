"""The benchmark's JaxMARL is JaxMARL: the same steps, past the end of an episode."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
    jaxmarl = pytest.importorskip(
        "jaxmarl", reason="needs the [parity] extra: pip install -e '.[test,parity]'"
    )
pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:OvercookedV2 is now released:DeprecationWarning"),
]
STEPS = 405


@pytest.fixture(autouse=True)
def promotion_as_jaxmarl_needs_it():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.mark.slow
def test_a_step_is_that_of_the_environment(key, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks" / "baselines")
    import with_jaxmarl  # noqa: PLC0415

    params, reset, step = with_jaxmarl.build({"options": {"layout": "ring"}}, 2)
    layouts = jaxmarl.environments.overcooked.overcooked_layouts
    env = jaxmarl.make("overcooked", layout=layouts["coord_ring"])
    reset_keys = jax.random.split(key, 2)
    keys = jax.random.split(key, (STEPS, 2))
    actions = jax.random.randint(key, (STEPS, 2, 2), 0, 6, jnp.int32)

    @jax.jit
    def many(states):
        def one(states, inputs):
            seen, rewards, states = step(params, inputs[0], states, inputs[1])
            return states, (seen, rewards)

        return jax.lax.scan(one, states, (keys, actions))

    @jax.jit
    def single(i, state):
        def one(state, inputs):
            named = dict(zip(env.agents, inputs[1][i], strict=True))
            seen, state, rewards, done, _ = env.step(inputs[0][i], state, named)
            return state, (seen, rewards, done["__all__"])

        return jax.lax.scan(one, state, (keys, actions))

    _, (seen, rewards) = many(reset(params, reset_keys))
    for i in range(2):
        _, (expected, reward, done) = single(i, env.reset(reset_keys[i])[1])
        assert done.sum() == 1
        for agent in env.agents:
            np.testing.assert_array_equal(seen[agent][:, i], expected[agent])
            np.testing.assert_array_equal(rewards[agent][:, i], reward[agent])
