"""Measures how fast MuJoCo bodies are simulated, and what memory that takes.

python experiments/benchmarks/body_speed.py --model biped
"""

import dataclasses
import functools
import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import equinox as eqx
import jax
import psutil
import tyro
from jaxtyping import PRNGKeyArray, PyTree
from rich.table import Table
from throughput import write_csv

from agents.runs._command import run_command
from agents.runs.display._errors import UsageError
from agents.runs.folders._results import open_results
from agents.runs.settings._flags import cli
from agents.runs.worlds._bodies import BodyWorld
from eqgrid import AbstractVectorEnv, AutoReset, LogEpisodes, Vectorize

_GIB = 2**30


PROGRAM = "python experiments/benchmarks/body_speed.py"


@dataclasses.dataclass(frozen=True)
class Config:
    """Measures bodies that act at random: speed, memory and compilation, by the number of them."""

    model: Literal["cartpole", "biped"] = "biped"
    """Which body."""
    num_envs: tuple[int, ...] = (64, 256, 1024, 4096, 8192)
    """Environments side by side."""
    steps_per_run: int = 2**17
    """Environment steps of a run."""
    repeats: int = 3
    """Runs of each case; the median counts."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; a new one in runs/ if none."""


def measure(model: str, num_envs: int, steps_per_run: int, repeats: int) -> dict[str, Any]:
    """One case, in a process of its own, so that its memory is its own.

    **Returns:** a row of the table: environment steps per second, seconds to compile, and the
    largest memory of the process before and after, in GiB.
    """
    world: Any = BodyWorld(model=model)  # pyright: ignore[reportArgumentType]
    one = AutoReset(LogEpisodes(world.build(train=True)))
    env = Vectorize(one, num_envs)
    _, state = eqx.filter_jit(env.reset)(jax.random.key(0))
    length = max(16, steps_per_run // num_envs)
    before = psutil.Process().memory_info().rss
    begin = time.perf_counter()
    args = (env, state, jax.random.split(jax.random.key(1), length))
    compiled: Any = cast(Any, _play).lower(*args).compile()
    compile_seconds = time.perf_counter() - begin
    state = jax.block_until_ready(compiled(*args))
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        state = jax.block_until_ready(compiled(env, state, args[2]))
        seconds.append(time.perf_counter() - begin)
    return {
        "num_envs": num_envs,
        "steps_per_second": round(num_envs * length / sorted(seconds)[repeats // 2]),
        "compile_seconds": round(compile_seconds, 1),
        "state_bytes_per_env": sum(x.nbytes for x in jax.tree.leaves(state)) // num_envs,
        "gib_before": round(before / _GIB, 3),
        "gib": round(psutil.Process().memory_info().rss / _GIB, 3),
        "device": jax.devices()[0].device_kind,
    }


@eqx.filter_jit
def _play(env: AbstractVectorEnv, state: PyTree, keys: PRNGKeyArray) -> PyTree:
    arrays, rest = eqx.partition(state, eqx.is_array)
    step = functools.partial(_act_at_random, env, rest)
    return eqx.combine(jax.lax.scan(step, arrays, keys)[0], rest)


def _act_at_random(
    env: AbstractVectorEnv, rest: PyTree, arrays: PyTree, key: PRNGKeyArray
) -> tuple[PyTree, None]:
    action_key, step_key = jax.random.split(key)
    keys = jax.random.split(action_key, (env.num_envs, env.num_agents))
    action = jax.vmap(jax.vmap(env.action_space.sample))(keys)
    _, state = env.step(step_key, eqx.combine(arrays, rest), action)
    return eqx.filter(state, eqx.is_array), None


def check(config: Config) -> None:
    """**Raises:** `UsageError` with one sentence that names the flags."""
    if min(config.repeats, config.steps_per_run, *config.num_envs, 2**20) < 1:
        raise UsageError("--repeats, --steps-per-run and --num-envs must be at least 1.")
    BodyWorld(model=config.model).check()


def run(args: Sequence[str]) -> None:
    """**Raises:** `UsageError`, `OSError`."""
    config = cli(
        Config(), args, "python experiments/benchmarks/body_speed.py", Config.__doc__ or ""
    )
    check(config)
    with open_results("body-speed", config.out) as (folder, console):
        console.print(f"measuring the {config.model}: writing to {folder}")
        os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
        rows: list[dict[str, Any]] = []
        for num_envs in config.num_envs:
            # A process that starts anew, not a copy of this one: jax has threads.
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                case = (config.model, num_envs, config.steps_per_run, config.repeats)
                rows.append(pool.submit(measure, *case).result())
            write_csv(folder / "body_speed.csv", rows)
        table = Table(title=f"{config.model}, on {rows[0]['device']}" if rows else None)
        for heading in (
            "environments",
            "steps per second",
            "seconds to compile",
            "GiB",
            "of it before",
        ):
            table.add_column(heading, justify="right")
        for row in rows:
            table.add_row(
                f"{row['num_envs']:,}",
                f"{row['steps_per_second']:,}",
                f"{row['compile_seconds']:.1f}",
                f"{row['gib']:.2f}",
                f"{row['gib_before']:.2f}",
            )
        console.print(table)
        console.print(f"numbers  {folder / 'body_speed.csv'}")


def main() -> None:
    run_command(run)


if __name__ == "__main__":
    main()
