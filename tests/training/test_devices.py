"""Training on several devices, here four virtual ones, is training on one."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_lines import call, call_and_hear
from compilations import counted
from learners import GRU, clocks, loud_mlp
from run_files import rows

from agents import PPO, Block, Trained, device_mesh, init_train_state, train
from eqgrid import AutoReset, LogEpisodes, NormalizeObservation, NormalizeReward, Vectorize, make

ROOT = Path(__file__).parents[2]
DEVICES = 4
NUM_ENVS = 16
FLAGS = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={DEVICES}"
PPO_SMALL = PPO(rollout_length=16, num_epochs=2, num_minibatches=2)


@pytest.mark.slow
def test_four_devices_are_one():
    """The tests below, in a process where jax sees four devices from the start."""
    env = os.environ | {"XLA_FLAGS": FLAGS, "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "", "-k", "in_four_devices"]
    done = subprocess.run([*command, __file__], cwd=ROOT, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout


alone = pytest.mark.skipif(jax.device_count() < DEVICES, reason="is run by the test above it")


def kitchens():
    return Vectorize(AutoReset(LogEpisodes(make("overcooked", horizon=30))), NUM_ENVS)


def numbers(done: Trained) -> list[np.ndarray]:
    """Parameters, metrics, and what wrappers have added up."""
    axis = done.state.updates.ndim
    moments = [x for x in jax.tree.leaves(done.state.runner.env_state) if x.ndim < 2 + axis]
    kept = (done.state.policy, done.state.opt_state, done.metrics, moments)
    leaves = [x for x in jax.tree.leaves(kept) if isinstance(x, jax.Array | np.ndarray)]
    return [
        np.asarray(x) for x in leaves if not jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
    ]


@alone
@pytest.mark.slow
@pytest.mark.parametrize(
    ("runs", "recurrent"), [(None, False), (None, True), (1, False), (1, True), (4, True)]
)
def test_in_four_devices(runs, recurrent, key):
    """A single run, with or without an axis, shards its environments. Several runs are divided."""
    env, network = kitchens(), loud_mlp
    if recurrent:
        env, network = NormalizeReward(NormalizeObservation(clocks(NUM_ENVS))), GRU
    init = lambda key: init_train_state(PPO_SMALL, env, key, network=network)  # noqa: E731
    rates = jnp.linspace(1e-4, 1e-3, runs) if runs == 4 else PPO_SMALL.learning_rate
    ppo = dataclasses.replace(PPO_SMALL, learning_rate=rates)
    state = eqx.filter_vmap(init)(jax.random.split(key, runs)) if runs else init(key)
    results = []
    for devices in (1, 2, 4):
        mesh = device_mesh(devices) if devices > 1 else None
        done = train(ppo, env, state, num_updates=5, updates_per_block=3, mesh=mesh)
        results.append(numbers(done))
        start, parameter = done.state.runner.start, jax.tree.leaves(done.state.policy)[0]
        shape = {None: (NUM_ENVS // devices,), 1: (1, NUM_ENVS // devices)}
        shape |= {4: (4 // devices, NUM_ENVS)}
        assert [x.data.shape for x in start.addressable_shards] == devices * [shape[runs]]
        assert parameter.sharding.is_fully_replicated == (runs != 4 or devices == 1)
        # Its own output is an input of the same program.
        block = Block(ppo, env, num_updates=9, length=3, mesh=mesh)
        first, _ = block(done.state)
        with counted() as compilations:
            block(first)
        assert compilations == []
    for result in results[1:]:
        for one, many in zip(results[0], result, strict=True):
            np.testing.assert_allclose(many, one, rtol=1e-4, atol=1e-5)
    what = "4 runs" if runs == 4 else "16 environments"
    with pytest.raises(ValueError, match=f"{what} cannot be spread evenly over 3 devices"):
        train(ppo, env, state, num_updates=5, mesh=device_mesh(3))


@alone
@pytest.mark.slow
def test_a_command_line_in_four_devices(tmp_path, capsys):
    flags = "--total-steps 1024 --num-envs 16 --ppo.rollout-length 16 --eval-every 512 --width 8"
    flags += " --eval-episodes 2 --env.horizon 20 --env.normalize-observation"
    entropies = []
    for more in (["--devices", "all"], []):
        out = tmp_path / f"run{len(more)}"
        assert call(*flags.split(), *more, "--out", out) == 0
        entropies.append([float(row["entropy"]) for row in rows(out)])
    for more in ((), ("--devices", "1")):  # the last seed, on the second of two cores
        out = tmp_path / f"seeds{len(more)}"
        assert call(*flags.split(), *more, "--num-seeds", "2", "--out", out) == 0
        of_last = [row for row in rows(out) if float(row["seed"]) == 1]
        entropies.append([float(row["entropy"]) for row in of_last])
        assert ("seeds 0 to 1 at once on 2 cores" in capsys.readouterr().out) == (not more)
    np.testing.assert_allclose(*entropies[:2], rtol=1e-4)
    np.testing.assert_allclose(*entropies[2:], rtol=1e-4)
    more = ("--devices", "3", "--num-seeds", "4", "--out", tmp_path / "none")
    code, said = call_and_hear(capsys, *flags.split(), *more)
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith("error: 4 seeds cannot be spread evenly over 3 devices")


def test_the_cores_of_a_process_are_its_devices():
    program = "import jax; from eqgrid_lab.base import use_cores_as_devices as use; use()"
    program += "; print(len(jax.devices())); use(); print(len(jax.devices()))"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    for chosen, number in (({}, cores), ({"JAX_NUM_CPU_DEVICES": "3"}, 3)):
        env = os.environ | {"XLA_FLAGS": ""} | chosen
        ended = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True)
        assert ended.stdout.split() == 2 * [b"%d" % number]


def test_uneven_numbers_are_refused(key):
    with pytest.raises(ValueError, match="devices are needed, but jax has"):
        device_mesh(10_000)
    with pytest.raises(ValueError, match="devices are needed"):
        device_mesh(0)


WORK = """
import re, equinox as eqx, jax
from eqgrid_lab.runs import Evaluation, _evaluation
from agents import PPO, Block, device_mesh, init_train_state
from eqgrid import AutoReset, LogEpisodes, Vectorize, make

env = Vectorize(AutoReset(LogEpisodes(make("goals"))), 4)
ppo = PPO(rollout_length=8, num_epochs=1, num_minibatches=1)
keys = jax.random.split(jax.random.key(0), 8)
for devices in (1, 2, 4):
    mesh = device_mesh(devices) if devices > 1 else None
    block = Block(ppo, env, num_updates=1, length=1, mesh=mesh)
    state = block.place(eqx.filter_vmap(lambda key: init_train_state(ppo, env, key))(keys))
    policies = Evaluation(env, env, keys, mesh).policies(state)
    evaluation = _evaluation._play.lower(mesh, env, policies, keys)
    for lowered in (block.lower(state), evaluation):
        program = lowered.compile().compiled
        text, cost = program.as_text(), program.cost_analysis()
        assert not re.search("all-reduce|all-gather|all-to-all|collective|reduce-scatter", text)
        assert "while" in text
        print(cost["flops"], cost["bytes accessed"])
"""


@pytest.mark.slow
def test_devices_divide_the_work():
    done = subprocess.run(
        [sys.executable, "-c", WORK],
        env=os.environ | {"XLA_FLAGS": FLAGS},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    work = [[float(x) for x in line.split()] for line in done.stdout.splitlines()]
    for program in range(2):  # a block of training, and an evaluation
        for devices, own in zip((1, 2, 4), work[program::2], strict=True):
            assert own == pytest.approx([whole / devices for whole in work[program]], rel=0.1)
