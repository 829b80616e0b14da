"""Training on several devices, here eight virtual ones, is training on one."""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_lines import call, call_and_hear
from learners import GRU, clocks, loud_mlp
from run_files import rows

from agents import PPO, check_even, device_mesh, init_train_state, train
from agents.training import _train
from eqgrid import AutoReset, LogEpisodes, NormalizeObservation, NormalizeReward, Vectorize, make

ROOT = Path(__file__).parents[2]
DEVICES = 8
NUM_ENVS = 16
FLAGS = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={DEVICES}"


@pytest.mark.slow
def test_eight_devices_are_one():
    """The tests below, in a process where jax sees eight devices from the start."""
    env = os.environ | {"XLA_FLAGS": FLAGS, "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "", "-k", "in_eight_devices"]
    done = subprocess.run([*command, __file__], cwd=ROOT, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


alone = pytest.mark.skipif(jax.device_count() < DEVICES, reason="is run by the test above it")


def kitchens():
    return Vectorize(AutoReset(LogEpisodes(make("overcooked", horizon=30))), NUM_ENVS)


def numbers(progress) -> list[np.ndarray]:
    """Parameters, metrics, and what wrappers have added up."""
    moments = [x for x in jax.tree.leaves(progress.state.runner.env_state) if x.ndim < 2]
    kept = (progress.state.policy, progress.state.opt_state, progress.metrics, moments)
    leaves = jax.tree.leaves(eqx.filter(kept, eqx.is_array))
    return [
        np.asarray(x) for x in leaves if not jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
    ]


@alone
@pytest.mark.slow
@pytest.mark.parametrize("case", ["kitchens", "recurrent"])
def test_in_eight_devices(case, key):
    ppo = PPO(rollout_length=16, num_epochs=2, num_minibatches=2)
    env, network = kitchens(), loud_mlp
    if case == "recurrent":
        env, network = NormalizeReward(NormalizeObservation(clocks(NUM_ENVS))), GRU
    results = []
    for mesh in (None, device_mesh(4) if case == "recurrent" else device_mesh()):
        state = init_train_state(ppo, env, key, network=network)
        done = train(ppo, env, state, num_updates=5, updates_per_block=3, mesh=mesh)
        results.append(numbers(done))
        if mesh is not None:
            start, parameter = done.state.runner.start, jax.tree.leaves(done.state.policy)[0]
            shards = start.addressable_shards
            assert len(shards) == mesh.size
            assert all(shard.data.shape == (NUM_ENVS // mesh.size,) for shard in shards)
            assert parameter.sharding.is_fully_replicated
    for one, many in zip(*results, strict=True):
        np.testing.assert_allclose(many, one, rtol=1e-4, atol=1e-5)


@alone
@pytest.mark.slow
def test_seeds_in_eight_devices(key):
    ppo = PPO(rollout_length=16, num_epochs=2, num_minibatches=2)
    rates = dataclasses.replace(ppo, learning_rate=jnp.linspace(1e-4, 1e-3, DEVICES))
    env, keys = kitchens(), jax.random.split(key, DEVICES)

    def trained(mesh):
        init = eqx.filter_vmap(lambda key: init_train_state(ppo, env, key, network=loud_mlp))
        settings = {"num_updates": 5, "updates_per_block": 3, "mesh": mesh}
        return train(rates, env, init(keys), **settings)

    one = trained(None)
    _train._compiled_blocks.clear()
    many = trained(device_mesh(4))
    program = next(iter(_train._compiled_blocks.values())).compiled.as_text()
    assert not re.findall("all-reduce|all-gather|all-to-all|collective|scatter-reduce", program)
    assert "while" in program
    assert len(many.state.updates.addressable_shards) == 4
    for a, b in zip(numbers(one), numbers(many), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="8 runs cannot be spread evenly over 3 devices"):
        trained(device_mesh(3))


@alone
@pytest.mark.slow
def test_a_command_line_in_eight_devices(tmp_path, capsys):
    flags = "--total-steps 1024 --num-envs 16 --ppo.rollout-length 16 --eval-every 512 --width 8"
    flags += " --eval-episodes 2 --final-episodes 2 --env.horizon 20 --env.normalize-observation"
    entropies = []
    for more in (["--devices", "all"], []):
        out = tmp_path / f"run{len(more)}"
        assert call(*flags.split(), *more, "--out", out) == 0
        entropies.append([float(row["entropy"]) for row in rows(out)])
    for more in ((), ("--devices", "1")):  # the last seed, on the second of two cores
        out = tmp_path / f"seeds{len(more)}"
        assert call(*flags.split(), *more, "--num-seeds", "2", "--out", out) == 0
        entropies.append([float(row["entropy"]) for row in rows(out / "seed-1")])
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
    check_even(5, device_mesh(1))


WORK = """
import re, equinox as eqx, jax
from eqgrid_lab.runs import Evaluator
from eqgrid_lab.runs._evaluator import EvaluatorOfMany
from agents import PPO, device_mesh, init_train_state, train
from agents.training import _train
from eqgrid import AutoReset, LogEpisodes, Vectorize, make

env = Vectorize(AutoReset(LogEpisodes(make("goals"))), 4)
ppo = PPO(rollout_length=8, num_epochs=1, num_minibatches=1)
for devices in (1, 2, 4):
    init = eqx.filter_vmap(lambda key: init_train_state(ppo, env, key))
    state = init(jax.random.split(jax.random.key(0), 8))
    _train._compiled_blocks.clear()
    mesh = device_mesh(devices) if devices > 1 else None
    state = train(ppo, env, state, num_updates=1, mesh=mesh).state
    evaluators = [Evaluator(env, jax.random.key(seed), float) for seed in range(8)]
    evaluation = EvaluatorOfMany(evaluators, mesh).program(state)
    for program in (next(iter(_train._compiled_blocks.values())), evaluation()):
        text, cost = program.compiled.as_text(), program.compiled.cost_analysis()
        assert not re.search("all-reduce|all-gather|all-to-all|collective|reduce-scatter", text)
        print(cost["flops"], cost["bytes accessed"])
"""


@pytest.mark.slow
def test_devices_divide_the_work():
    xla = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "-c", WORK],
        env=os.environ | {"XLA_FLAGS": xla},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    work = [[float(x) for x in line.split()] for line in done.stdout.splitlines()]
    for program in range(2):  # a block of training, and an evaluation
        for devices, own in zip((1, 2, 4), work[program::2], strict=True):
            assert own == pytest.approx([whole / devices for whole in work[program]], rel=0.1)
