import jax
import jax.numpy as jnp
import pytest
from race import Race
from wrapper_checks import rollout

from eqgrid import LogEpisodes


def test_shapes_and_dtypes(key):
    env = LogEpisodes(Race(), totals=("events", "shaped_reward"))
    _, timesteps, _ = rollout(env, key, jnp.zeros((1, 3), int))
    shapes = {k: (v.shape[1:], v.dtype) for k, v in timesteps.info.items() if "episode_" in k}
    assert shapes == {
        "episode_return": ((3,), jnp.float32),
        "episode_length": ((), jnp.int32),
        "episode_done": ((), jnp.bool_),
        "episode_events": ((3, 2), jnp.int32),
        "episode_shaped_reward": ((3,), jnp.float32),
    }


def test_an_unknown_total_is_refused():
    with pytest.raises(ValueError, match=r"needs info\['evnts'\].*'events', 'raw_reward'"):
        LogEpisodes(Race(), totals=("evnts",))


@pytest.mark.parametrize("name", ["return", "length", "done"])
def test_a_total_may_not_take_a_name_of_its_own(name):
    with pytest.raises(ValueError, match=f"'episode_{name}'"):
        LogEpisodes(Race(), totals=("events", name))


def test_equal_environments_have_equal_structure():
    """What is looked up when building is static, and must not make a program compile again."""
    a, b = (LogEpisodes(Race(), totals=("events",)) for _ in range(2))
    assert jax.tree.structure(a) == jax.tree.structure(b)
    assert hash(jax.tree.structure(a)) == hash(jax.tree.structure(b))
