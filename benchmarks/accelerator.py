"""Runs all GPU benchmarks: memory bandwidth, throughput, and training with many seeds.

python benchmarks/accelerator.py
"""

import dataclasses
import math
import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import throughput
from _speed_report import Rows
from jaxtyping import PRNGKeyArray
from msgspec import Meta
from rich.console import Console
from throughput import Count

from eqgrid_lab import Evaluation, Experiment
from agents import Block, TrainState
from agents.files import shipped
from eqgrid import AbstractVectorEnv
from eqgrid_lab.base import RunError, import_file, run_command
from eqgrid_lab.folders import open_results, write_json
from eqgrid_lab.settings import default_settings, read_flags


@dataclasses.dataclass(frozen=True)
class Config(throughput.Config):
    """Measures memory bandwidth, environment steps per second, and training of many seeds."""

    seeds: Count = 8
    """Number of seeds that are trained at once."""
    total_steps: Count = 4_000_000
    """Environment steps of training of each seed."""
    copy_gib: Annotated[float, Meta(gt=0)] = 8.0
    """Size of the array that is copied to measure memory bandwidth, in GiB."""


DEFAULT = Config(
    num_envs=(1024, 4096, 16384, 65536, 262144, 1048576, 4194304),
    steps_per_run=2**24,
    max_gib=40.0,
    repeats=5,
    libraries=("jaxmarl",),
)
"""The defaults; those that differ from the defaults of `throughput.py` are chosen for a GPU."""


def init(config: Experiment, env: AbstractVectorEnv, key: PRNGKeyArray) -> TrainState:
    """The state of one seed before its first update, as `main` in `ippo.py` makes it."""
    policy_key, run_key = jax.random.split(key)
    learner: Any = config.learner()
    return learner.init(config.policy(env, policy_key), env, run_key)


def copy_bandwidth(gib: float) -> float:
    """Measures memory bandwidth by adding 1 to every number of an array.

    **Arguments:**

    - `gib`: the size of the array, in GiB.

    **Returns:** the bytes per second, read and written together.
    """
    x = jnp.zeros((max(1, int(gib * 2**12)), 2**16), jnp.float32)
    add = jax.jit(lambda x: x + 1.0, donate_argnums=0)
    x = jax.block_until_ready(add(x))
    seconds = []
    for _ in range(7):
        started = time.perf_counter()
        x = jax.block_until_ready(add(x))
        seconds.append(time.perf_counter() - started)
    return 2 * x.nbytes / float(np.median(seconds))


def train_seeds(config: Experiment, number: int) -> dict[str, Any]:
    """Trains many seeds in one program, and evaluates each.

    **Returns:** the seconds of compiling and of training, and the mean return of each seed.
    """
    env, ppo = config.train_env(), config.ppo
    steps_per_update = ppo.steps_per_update(env)
    num_updates = math.ceil(config.total_steps / steps_per_update)
    keys = jax.random.split(jax.random.key(config.seed), number)
    init_runs = eqx.filter_jit(eqx.filter_vmap(init, in_axes=(None, None, 0)))
    block = Block(ppo, env, num_updates=num_updates, length=num_updates)
    state, seconds = init_runs(config, env, keys), []
    block.compile(state)
    for _ in range(2):  # the first run includes one-time costs
        state = jax.block_until_ready(init_runs(config, env, keys))
        before = block.train_seconds
        state, _ = block(state)
        seconds.append(block.train_seconds - before)
    eval_env = config.eval_env(config.env.build(train=False), 4 * config.eval_episodes)
    returns = Evaluation(eval_env, env, keys)(state)["eval_return_mean"]
    return {
        "seeds": number,
        "compile_seconds": block.compile_seconds,
        "first_train_seconds": seconds[0],
        "train_seconds": seconds[1],
        "steps_per_second": number * num_updates * steps_per_update / seconds[1],
        "eval_return_mean": returns.tolist(),
    }


def measure_here(config: Config, console: Console, rows: Rows) -> Iterator[tuple[str, Any]]:
    """Makes the measurements in this process, and yields the name and the value of each.

    **Arguments:**

    - `config`, `console`: the settings, and the console for messages.
    - `rows`: the measurements of `throughput.py`.
    """
    stored = [
        row
        for row in rows
        if (row["library"], row["mode"]) == ("eqgrid", "stored") and "error" not in row
    ]
    best = max(stored, key=lambda row: row["steps_per_second"], default=None)
    yield "best_stored", best
    bandwidth = copy_bandwidth(config.copy_gib)
    yield "copy_bytes_per_second", bandwidth
    console.print(f"memory: {bandwidth / 1e9:,.0f} GB/s when copying", highlight=False)
    if best is not None:
        written = best["steps_per_second"] * best["kept_bytes"]
        console.print(f"the best stored rollout writes {written / 1e9:,.0f} GB/s", highlight=False)
    console.print(f"training {config.seeds} seeds of {config.total_steps:,} steps at once, twice")
    ippo: Any = import_file(shipped("ippo.py")).IPPO
    trained = dataclasses.replace(default_settings(ippo), total_steps=config.total_steps)
    yield "training", train_seeds(trained, config.seeds)


def run(args: Sequence[str]) -> None:
    """Runs the command line. **Raises:** `UsageError`, `RunError`, `OSError`."""
    config = read_flags(DEFAULT, args, "benchmarks/accelerator.py")
    config = throughput.check(config)
    with open_results("accelerator", config.out) as (folder, console):
        # The other processes run first, before this one reserves memory of the device they share.
        rows = throughput.report(config, folder, console)
        result = {key: rows[0][key] for key in ("device", "jax")}
        try:
            for name, value in measure_here(config, console, rows):
                result[name] = value
                write_json(folder / "accelerator.json", result)
        except jax.errors.JaxRuntimeError as error:
            what = str(error).partition("\n")[0]
            raise RunError(f"{what}; earlier measurements are in {folder}.") from error
        console.print_json(data=result)
        console.print(f"numbers  {folder / 'accelerator.json'}, {folder / 'throughput.csv'}")


if __name__ == "__main__":
    run_command(run)
