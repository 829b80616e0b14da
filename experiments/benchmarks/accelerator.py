"""Everything that is measured on a GPU, in one call: memory bandwidth, throughput, many seeds.

python experiments/benchmarks/accelerator.py
"""

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich.console import Console
from throughput import (
    Config as ThroughputConfig,
    Rows,
    check,
    draw,
    measure,
    print_tables,
    write_csv,
)

from agents import evaluate, scan_updates
from agents.runs import Experiment
from agents.runs._command import run_command
from agents.runs.display._errors import RunError, UsageError
from agents.runs.folders._results import open_results, write_json
from agents.runs.settings._experiment import default_settings
from agents.runs.settings._flags import cli
from agents.runs.settings._page import page
from agents.runs.single._build import draw as draw_agents

PROGRAM = "python experiments/benchmarks/accelerator.py"


@dataclasses.dataclass(frozen=True)
class Config:
    """Measures memory bandwidth, environment steps per second, and training of many seeds."""

    num_envs: tuple[int, ...] = (1024, 4096, 16384, 65536, 262144, 1048576, 4194304)
    """Environments side by side."""
    steps_per_run: int = 2**24
    """Steps of all environments together in one run; at least 16 and at most 16,384 of each."""
    max_gib: float = 40.0
    """Most memory for what a rollout keeps, in GiB."""
    repeats: int = 5
    """Runs of every rollout, 3 where they are slow; the median counts."""
    seeds: int = 8
    """How many seeds are trained at once."""
    total_steps: int = 4_000_000
    """Length of training of each seed, in steps."""
    copy_gib: float = 8.0
    """Size of the array that is copied to learn the memory's bandwidth."""
    peers: Annotated[Path | None, tyro.conf.arg(metavar="PYTHON")] = None
    """Interpreter that has JaxMARL; see docs/performance.md."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; a new one in runs/ if none."""


def copy_bandwidth(gib: float) -> float:
    """Bytes per second, read and written, of adding 1 to every number of an array."""
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

    **Returns:** seconds of compiling and of training, and the seeds' mean returns.
    """
    env = config.train_env()
    num_updates = math.ceil(config.total_steps / (config.num_envs * config.ppo.rollout_length))
    keys = jax.random.split(jax.random.key(config.seed), number)
    init_runner = eqx.filter_jit(eqx.filter_vmap(functools.partial(draw_agents(config), env)))
    updates = functools.partial(
        scan_updates, config.ppo, env, num_updates=num_updates, length=num_updates
    )
    states = init_runner(keys)
    compile_start = time.perf_counter()
    program: Any = eqx.filter_jit(eqx.filter_vmap(updates), donate="all")
    program = program.lower(states).compile()
    compile_seconds = time.perf_counter() - compile_start
    seconds = []
    for _ in range(2):  # the first run pays for what the second one finds
        states = jax.block_until_ready(init_runner(keys))
        train_start = time.perf_counter()
        states, metrics = program(states)
        jax.block_until_ready(metrics.policy_loss)
        seconds.append(time.perf_counter() - train_start)
    evaluation_env = config.eval_env(config.env.build(train=False), config.final_episodes)
    returns = []
    for i, key in enumerate(keys):
        policy = jax.tree.map(lambda x, i=i: x[i] if eqx.is_array(x) else x, states.policy)
        returns.append(float(evaluate(policy, evaluation_env, key).episode_return.mean()))
    steps = number * num_updates * config.num_envs * config.ppo.rollout_length
    return {
        "seeds": number,
        "compile_seconds": compile_seconds,
        "first_train_seconds": seconds[0],
        "train_seconds": seconds[1],
        "steps_per_second": steps / seconds[1],
        "eval_return_mean": returns,
    }


def run(args: Sequence[str]) -> None:
    """**Raises:** `UsageError`, `RunError`, `OSError`."""
    config = cli(
        Config(), args, "python experiments/benchmarks/accelerator.py", Config.__doc__ or ""
    )
    if min(config.seeds, config.total_steps) < 1:
        raise UsageError("--seeds and --total-steps must be at least 1.")
    if not 0 < config.copy_gib < math.inf:
        raise UsageError(f"--copy-gib must be a number above 0, but is {config.copy_gib:g}.")
    settings = check(
        ThroughputConfig(
            num_envs=config.num_envs,
            steps_per_run=config.steps_per_run,
            max_gib=config.max_gib,
            repeats=config.repeats,
            peers=config.peers,
            libraries=("jaxmarl",),
        )
    )
    with open_results("accelerator", config.out) as (folder, console):
        console.print(f"writing to {folder}")
        # Other processes first: this one has not touched the device yet, whose memory they share.
        rows = measure(settings, console, functools.partial(write_csv, folder / "throughput.csv"))
        print_tables(console, rows)
        result = {key: rows[0][key] for key in ("device", "jax")}
        draw(folder / "throughput.png", rows, f"cramped on {result['device']}")
        best = _best_stored(rows)

        def save(**measured: Any) -> None:
            result.update(measured)
            write_json(folder / "accelerator.json", result)

        save(best_stored=best)
        try:
            _measure_here(config, console, best, save)
        except jax.errors.JaxRuntimeError as error:
            what = str(error).partition("\n")[0]
            raise RunError(f"{what}; what was measured before is in {folder}.") from error
        console.print_json(data=result)
        console.print(f"numbers  {folder / 'accelerator.json'}, {folder / 'throughput.csv'}")


def _measure_here(
    config: Config, console: Console, best: dict[str, Any] | None, save: Callable[..., None]
) -> None:
    """Measures what takes place in this process."""
    speed = copy_bandwidth(config.copy_gib)
    save(copy_bytes_per_second=speed)
    copied = f"memory: {speed / 1e9:,.0f} GB/s when copying"
    if best:
        written = best["steps_per_second"] * best["kept_bytes"]
        copied += f"; the best stored rollout writes {written / 1e9:,.0f} GB/s"
    console.print(copied, highlight=False)
    console.print(f"training {config.seeds} seeds of {config.total_steps:,} steps at once, twice")
    trained = dataclasses.replace(default_settings(page("ippo")), total_steps=config.total_steps)
    save(training=train_seeds(trained, config.seeds))


def _best_stored(rows: Rows) -> dict[str, Any] | None:
    """Our fastest rollout that kept all observations; `None` if there is none."""
    stored = [
        row
        for row in rows
        if (row["library"], row["mode"]) == ("eqgrid", "stored") and "error" not in row
    ]
    return max(stored, key=lambda row: row["steps_per_second"], default=None)


def main() -> None:
    run_command(run)


if __name__ == "__main__":
    main()
