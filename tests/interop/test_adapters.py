"""What all adapters to other libraries share."""

import importlib.util
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pendulum import Pendulum
from rooms import WithRooms, WithRoomsByAgent

from eqgrid import LogEpisodes, interop, make
from eqgrid.interop._episode import observation_space


@pytest.fixture(scope="module")
def printed():
    """What a process prints that imports one adapter, and forks after JAX has started."""
    code = """
import sys
from eqgrid.interop import to_gymnasium
print([name for name in ("gymnasium", "pettingzoo", "matplotlib", "mujoco") if name in sys.modules])
import gymnasium
from eqgrid import make
build = lambda: to_gymnasium(make("goals", num_agents=1))
build().reset(seed=0)
if sys.platform != "win32":
    envs = gymnasium.vector.AsyncVectorEnv([build], context="fork")
    try:
        envs.reset(seed=0)
    except RuntimeError as error:
        print(error)
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    return done.stdout.split("\n", 1)


def test_a_door_imports_only_its_own_library(printed):
    assert printed[0] == "['gymnasium']"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
def test_a_forked_process_is_told_how_to_start_another_way(printed):
    """JAX would wait forever there."""
    assert "with 'spawn' or 'forkserver'" in printed[1]


@pytest.mark.parametrize(
    ("adapter", "extra"),
    [
        ("to_pettingzoo", "interop"),
        ("from_jaxmarl", "jaxmarl"),
    ],
)
def test_a_missing_library_is_one_sentence(adapter, extra, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda library: None)
    with pytest.raises(
        ImportError, match=rf"^{adapter} needs .*: pip install 'eqgrid\[{extra}\]'\.$"
    ):
        getattr(interop, adapter)


class Shows(Pendulum):
    """It shows zeros of some dtype."""

    dtype: object = eqx.field(static=True, default=float)

    def observe(self, state):
        return jnp.zeros((1, 2, 3), self.dtype)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (np.bool_, 0, 1),
        (np.uint8, 0, 255),
        (np.int32, -(2**31), 2**31 - 1),
        (np.float16, -np.inf, np.inf),
        (np.float32, -np.inf, np.inf),
    ],
)
def test_an_observation_has_the_bounds_of_its_dtype(dtype, low, high):
    space = observation_space(Shows(dtype=dtype))
    assert (space.shape, space.dtype) == ((2, 3), dtype)
    assert (space.low == low).all()
    assert (space.high == high).all()


def test_numbers_that_numpy_does_not_have_are_refused():
    with pytest.raises(ValueError, match="observation is of bfloat16, but must be"):
        observation_space(Shows(dtype=jnp.bfloat16))


def infos_of(adapter, wrapper, num_agents, **options):
    """The info of agent 0 after a step of a world of two rooms."""
    world = LogEpisodes(wrapper(make("goals", num_agents=num_agents)), ("soups", "steps"))
    adapted = getattr(interop, adapter)(world, **options)
    if adapter == "to_jaxnasium":
        actions = {f"agent_{i}": jnp.asarray(4) for i in range(num_agents)}
        _, state = adapted.reset(jax.random.key(0))
        (*_, info), _ = adapted.step_env(jax.random.key(0), state, actions)
        return {n: x["agent_0"] if isinstance(x, dict) else x for n, x in info.items()}
    adapted.reset(seed=0)
    if adapter == "to_pettingzoo":
        return adapted.step(dict.fromkeys(adapted.agents, 4))[-1]["agent_0"]
    info = adapted.step(4 if adapter == "to_gymnasium" else np.full(3, 4))[-1]
    return info if adapter == "to_gymnasium" else {name: x[0] for name, x in info.items()}


@pytest.mark.parametrize(
    ("adapter", "num_agents", "options"),
    [
        ("to_pettingzoo", 2, {}),
        ("to_pettingzoo", 1, {}),
        ("to_jaxnasium", 2, {}),
        ("to_gymnasium", 1, {}),
        ("to_gymnasium_vector", 1, {"num_envs": 3}),
    ],
)
def test_an_entry_of_info_is_split_by_declaration_and_not_by_its_shape(
    adapter, num_agents, options
):
    info = infos_of(adapter, WithRooms, num_agents, **options)
    shapes = {name: np.shape(info[name]) for name in ("soups", "rooms", "steps", "episode_steps")}
    agents = (num_agents,)
    assert shapes == {"soups": (2,), "rooms": (1,), "steps": agents, "episode_steps": agents}
    assert np.shape(info["shaped_reward"]) == np.shape(info["episode_return"]) == ()
    info = infos_of(adapter, WithRoomsByAgent, num_agents, **options)
    shapes = {name: np.shape(info[name]) for name in ("soups", "episode_soups", "steps")}
    assert shapes == {"soups": (2,), "episode_soups": (2,), "steps": ()}
    assert np.shape(info["episode_steps"]) == ()


def test_a_specification_is_no_json_but_builds_the_environment_again():
    env = interop.to_gymnasium(make("goals", num_agents=1))
    with pytest.raises(ValueError, match="does not support serialising callables"):
        env.spec.to_json()
    assert env.spec.make().observation_space == env.observation_space


def test_pictures_have_an_even_height_and_width():
    """Encoders of videos, such as H.264, need it."""
    world = make("overcooked")
    env = interop.to_pettingzoo(world, render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    own = world.render(world.reset(jax.random.key(0))[1])
    assert own.shape[0] % 2 == 1
    assert picture.shape == (own.shape[0] + 1, *own.shape[1:])
    np.testing.assert_array_equal(picture[-1], picture[-2])
