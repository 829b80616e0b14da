"""Episodes in files, read back exactly, and how files that do not fit are refused."""

import dataclasses
import errno
import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import unchecked
from pendulum import Pendulum

from agents import load_trajectories, save_trajectories
from eqgrid import ObservationAndState, TimeLimit, Trajectories, make
from eqgrid.grid import WithState


def some(env, steps=5, lengths=(2, 3)):
    """Numbers without any sense, of the shapes of an environment."""
    rng = np.random.default_rng(0)
    observation, state = env.reset(jax.random.key(0))

    def draw(x, count):
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            return jax.random.split(jax.random.key(3), count)
        return jnp.asarray(rng.integers(0, 2, (count, *x.shape)), x.dtype)

    def many(tree, count=steps):
        return jax.tree.map(lambda x: draw(x, count), tree)

    agents = jnp.zeros(env.num_agents)
    return Trajectories(
        state=many(state),
        action=many(agents.astype(jnp.int32)),
        reward=many(agents),
        terminated=many(agents.astype(bool)),
        truncated=many(jnp.array(True)),
        length=jnp.asarray(lengths, jnp.int32),
        observation=many(observation),
        final_observation=many(observation, len(lengths)),
    )


@pytest.fixture(scope="module")
def goals():
    return make("goals", horizon=9)


@pytest.fixture
def file(tmp_path, goals):
    save_trajectories(tmp_path / "games.npz", some(goals))
    return tmp_path / "games.npz"


def test_all_of_a_world_there_and_back(file, goals):
    episodes = some(goals)
    assert eqx.tree_equal(load_trajectories(file, goals), episodes)
    with np.load(file) as arrays:
        np.testing.assert_array_equal(
            arrays["state.bodies.position"], episodes.state.bodies.position
        )
        assert {"action", "reward", "terminated", "truncated", "length", "observation"} < {*arrays}
    unseen = dataclasses.replace(episodes, observation=None, final_observation=None)
    save_trajectories(file, unseen)
    assert eqx.tree_equal(load_trajectories(file, TimeLimit(goals, 5)), unseen)


def test_observations_of_several_arrays_there_and_back(tmp_path, goals):
    env = goals.with_observation(WithState(goals.observation))
    episodes = some(env)
    assert isinstance(episodes.observation, ObservationAndState)
    save_trajectories(tmp_path / "x.npz", episodes)
    assert eqx.tree_equal(load_trajectories(tmp_path / "x.npz", env), episodes)


def test_keys_are_kept_as_numbers(tmp_path, goals):
    episodes = dataclasses.replace(some(goals), state=jax.random.split(jax.random.key(1), 5))
    save_trajectories(tmp_path / "x.npz", episodes)
    with np.load(tmp_path / "x.npz") as arrays:
        np.testing.assert_array_equal(arrays["state"], jax.random.key_data(episodes.state))


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_a_damaged_file_is_one_sentence(file, goals, damage):
    whole = file.read_bytes()
    flipped = bytearray(whole)
    flipped[whole.index(b"PK\x03\x04") + 100] ^= 255
    damaged = {"cut": whole[:-30], "flipped": flipped, "empty": b"", "other": b"no file"}[damage]
    file.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"^The file '.*games.npz' is damaged") as caught:
        load_trajectories(file, goals)
    assert "\n" not in str(caught.value)


def test_files_that_do_not_fit_are_one_sentence(file, goals, tmp_path):
    with pytest.raises(
        ValueError, match=r"'state.bodies.position' is int8\(5, 2, 2\), but this world needs"
    ):
        load_trajectories(file, make("goals", num_agents=3))
    with pytest.raises(ValueError, match=r"another world: its 'state\.cells\.object' is"):
        load_trajectories(file, make("overcooked"))
    with pytest.raises(ValueError, match=r"another world, or an older one: it lacks 'state'\.$"):
        load_trajectories(file, Pendulum())
    np.savez(tmp_path / "table.npz", number=np.arange(3))
    with pytest.raises(ValueError, match="has no trajectories"):
        load_trajectories(tmp_path / "table.npz", goals)
    with pytest.raises(FileNotFoundError):
        load_trajectories(tmp_path / "nowhere.npz", goals)


def test_without_room_the_older_file_stays(file, goals, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with unchecked(), pytest.raises(OSError, match="No space left"):
        save_trajectories(file, some(goals, 7, (7,)))
    assert eqx.tree_equal(load_trajectories(file, goals), some(goals))
    assert list(file.parent.iterdir()) == [file]
