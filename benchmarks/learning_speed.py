"""Compares the training speed of eqgrid with JaxMARL's own script, in the cramped room.

python benchmarks/learning_speed.py --peers peers/bin/python --jaxmarl JaxMARL
"""

import dataclasses
import functools
import itertools
import json
import math
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape
from throughput import Count

from eqgrid import read_regular_text
from eqgrid_lab.base import RunError, UsageError, run_command
from eqgrid_lab.folders import open_results, write_json
from eqgrid_lab.settings import read_flags
from eqgrid_lab.show import print_table

SCRIPTS = Path(__file__).parents[1] / "experiments"
JAXMARL_SCRIPT = Path(__file__).parent / "baselines" / "jaxmarl_ippo.py"
NO_CACHE = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
THRESHOLDS = (200, 220)
MATCHED = {
    "--env.observation": "planes",
    "--env.random-starts": "0",
    "--num-envs": "16",
    "--ppo.rollout-length": "128",
    "--ppo.num-epochs": "4",
    "--ppo.num-minibatches": "4",
    "--width": "64",
    "--eval-every": "500000",
}
"""Flags for the network, batch and starts of JaxMARL's script, and for few evaluations."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Measures training steps per second and the time until returns of 200 and 220."""

    repeats: Count = 3
    """Number of seeds; everything is run once with each."""
    peers: Annotated[Path | None, tyro.conf.arg(metavar="PYTHON")] = None
    """Python interpreter with JaxMARL; see docs/performance.md."""
    jaxmarl: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Checkout of JaxMARL's repository, for its script."""
    peer_steps: Count = 1_500_000
    """Environment steps of the run with JaxMARL's network, and of JaxMARL's script."""
    total_steps: Count = 4_000_000
    """Environment steps of the runs of eqgrid with its defaults, and of single_file_ppo.py."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; by default, a new one in runs/."""


def ours(folder: Path, flags: dict[str, str], cache: Path, seed: int) -> dict[str, Any]:
    """Trains with `ippo.py`, in a process of its own.

    **Arguments:**

    - `folder`: the folder of the run.
    - `flags`: the flags of its command line.
    - `cache`: the folder of compiled programs, which may have some from an earlier run.
    - `seed`: the seed of the run.

    **Returns:** the steps per second, and the seconds until each threshold; `None` if the run does
    not reach it.

    **Raises:** `RunError` when the run fails.
    """
    env = os.environ | {"XDG_CACHE_HOME": str(cache)}
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE"):
        env.pop(name, None)  # they would take precedence over `cache`
    flags = {**flags, "--out": str(folder), "--seed": str(seed)}
    run_program(
        "ippo.py", [sys.executable, str(SCRIPTS / "ippo.py"), *itertools.chain(*flags.items())], env
    )
    result = json.loads(read_regular_text(folder / "result.json"))
    seconds = {x: result["reached"].get(str(x), {}).get("wall_seconds") for x in THRESHOLDS}
    return {"steps_per_second": result["steps_per_second"], "seconds": seconds}


def single_file(total_steps: int, seed: int) -> dict[str, Any]:
    """Trains with `single_file_ppo.py`, whose network and batch are the defaults of `ippo.py`.

    **Returns:** the median of the steps per second of all updates. The script prints no times.

    **Raises:** `RunError` when the run fails.
    """
    command = [
        sys.executable,
        str(SCRIPTS / "single_file_ppo.py"),
        "--total-steps",
        str(total_steps),
    ]
    lines = run_program("single_file_ppo.py", [*command, "--seed", str(seed)], NO_CACHE)
    speeds = [float(x.replace(",", "")) for x in re.findall(r"([\d,]+) steps/s", lines)]
    return {"steps_per_second": statistics.median(speeds)}


def theirs(config: Config, seed: int) -> dict[str, Any]:
    """Runs JaxMARL's script; its returns are from training episodes. It has no cache of compiled
    programs.

    **Returns:** the same as `ours`.

    **Raises:** `RunError` when the script fails.
    """
    assert config.peers is not None
    command = jaxmarl_command(config.peers, config.jaxmarl, config.peer_steps, seed)
    lines = run_program("JaxMARL's script", command, NO_CACHE)
    rows = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
    if len(rows) < 2:
        raise RunError("JaxMARL's script made fewer than two updates: raise --peer-steps.")
    first, last = rows[0], rows[-1]
    speed = (last["env_steps"] - first["env_steps"]) / (last["seconds"] - first["seconds"])
    seconds = {
        x: next((row["seconds"] for row in rows if row["return"] >= x), None) for x in THRESHOLDS
    }
    return {"steps_per_second": speed, "seconds": seconds}


def jaxmarl_command(peers: Path, jaxmarl: Path | None, steps: int, seed: int) -> list[str]:
    """The command that trains with JaxMARL's script for a number of steps."""
    options = [str(jaxmarl), str(steps), str(seed)]
    return [str(peers), "-u", "-W", "ignore", str(JAXMARL_SCRIPT), *options]


def check_peers(peers: Path | None, jaxmarl: Path | None) -> None:
    """**Raises:** `UsageError` when only one of `--peers` and `--jaxmarl` is given."""
    if (peers is None) != (jaxmarl is None):
        raise UsageError("--peers and --jaxmarl go together: an interpreter and a checkout.")


def check_ended(name: str, code: int, errors: str) -> None:
    """**Raises:** `RunError` with the last line of its errors when a program has failed."""
    if code:
        last = (errors.strip().splitlines() or ["it printed no error"])[-1]
        raise RunError(f"{name} failed: {last.removeprefix('error: ')}")


def run_program(name: str, command: Sequence[str], env: dict[str, str]) -> str:
    """Runs a program to its end.

    **Returns:** what it printed.

    **Raises:** `RunError` when it cannot be run, or fails.
    """
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True)
    except OSError as error:
        raise RunError(f"{command[0]!r} cannot be run: {error.strerror}.") from error
    check_ended(name, done.returncode, done.stderr)
    return done.stdout


def list_runs(config: Config, folder: Path, seed: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """The runs with one seed, by their names. The second run with the defaults uses the compiled
    programs of the first.
    """
    defaults = {"--total-steps": str(config.total_steps)}
    matched = MATCHED | {"--total-steps": str(min(config.peer_steps, config.total_steps))}
    cache = folder / f"cache-{seed}"
    runs = {
        "eqgrid, network and batch of JaxMARL": functools.partial(
            ours, folder / f"matched-{seed}", matched, folder / f"cache-matched-{seed}", seed
        ),
        "eqgrid, its defaults": functools.partial(
            ours, folder / f"first-{seed}", defaults, cache, seed
        ),
        "eqgrid, its defaults, a second time": functools.partial(
            ours, folder / f"second-{seed}", defaults, cache, seed
        ),
        "single_file_ppo.py": functools.partial(single_file, config.total_steps, seed),
    }
    if config.peers is not None:
        runs["JaxMARL ippo_ff_overcooked"] = functools.partial(theirs, config, seed)
    return runs


def measure(config: Config, folder: Path, console: Console) -> dict[str, list[dict[str, Any]]]:
    """Makes all runs in turn, once with each seed, and returns their results by name.

    A run that fails has the result `{"error": message}`. All results so far are written after every
    run.

    **Raises:** `RunError` when nothing could be measured.
    """
    results: dict[str, list[dict[str, Any]]] = {}
    for seed in range(config.repeats):
        for name, one in list_runs(config, folder, seed).items():
            console.print(f"seed {seed}  {name}", highlight=False)
            try:
                result = one()
            except RunError as error:
                console.print(f"[red]{escape(str(error))}[/]", highlight=False)
                result = {"error": str(error)}
            results.setdefault(name, []).append(result)
            write_json(folder / "learning_speed.json", results)
    every = [run for runs in results.values() for run in runs]
    if all("error" in run for run in every):
        errors = dict.fromkeys(run["error"] for run in every)
        raise RunError(f"Nothing could be measured: {'; '.join(errors)}")
    return results


def print_results(console: Console, results: dict[str, list[dict[str, Any]]]) -> None:
    """Prints the median and all values of the runs that did not fail."""
    lines = []
    for name, every in results.items():
        runs = [run for run in every if "error" not in run]
        speeds = _numbers([run["steps_per_second"] for run in runs], 0) if runs else "failed"
        times = [[run["seconds"][x] for run in runs if "seconds" in run] for x in THRESHOLDS]
        lines.append((name, speeds, *(_numbers(x, 1) for x in times)))
    seconds = [f"seconds from start to {threshold}" for threshold in THRESHOLDS]
    header = ["", "training steps per second", *seconds]
    print_table(console, header, lines, title="medians (and all runs)")


def _numbers(values: Sequence[float | None], digits: int) -> str:
    if not values:
        return ""
    every = ", ".join("never" if x is None else f"{x:,.{digits}f}" for x in values)
    median = statistics.median(math.inf if x is None else x for x in values)
    bold = "never" if median == math.inf else f"{median:,.{digits}f}"
    return f"[bold]{bold}[/] ({every})"


def run(args: Sequence[str]) -> None:
    """Runs the command line. **Raises:** `UsageError`, `RunError`, `OSError`."""
    config = read_flags(Config(), args, "benchmarks/learning_speed.py")
    check_peers(config.peers, config.jaxmarl)
    with open_results("learning-speed", config.out) as (folder, console):
        print_results(console, measure(config, folder.absolute(), console))
        console.print(f"numbers  {folder / 'learning_speed.json'}")


if __name__ == "__main__":
    run_command(run)
