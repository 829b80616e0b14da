"""How fast we learn, side by side with JaxMARL's own training script, in the cramped room.

python experiments/benchmarks/learning_speed.py --peers peers/bin/python --jaxmarl JaxMARL
"""

import dataclasses
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agents.runs._command import run_command
from agents.runs.display._errors import RunError, UsageError
from agents.runs.folders._results import open_results, write_json
from agents.runs.settings._flags import cli
from eqgrid import read_regular_text

HERE = Path(__file__).parent
THRESHOLDS = (200, 220)
MATCHED = {
    "--env.observation": "planes",
    "--num-envs": "16",
    "--ppo.rollout-length": "128",
    "--ppo.num-epochs": "4",
    "--ppo.num-minibatches": "4",
    "--width": "64",
    "--eval-every": "500000",
}
"""What makes network and batch those of JaxMARL's script; and few evaluations."""


PROGRAM = "python experiments/benchmarks/learning_speed.py"


@dataclasses.dataclass(frozen=True)
class Config:
    """Measures training steps per second and the time until returns of 200 and 220."""

    repeats: int = 3
    """How often everything is run, in turn, each time with another seed."""
    peers: Annotated[Path | None, tyro.conf.arg(metavar="PYTHON")] = None
    """Interpreter that has JaxMARL; see docs/performance.md."""
    jaxmarl: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Checkout of JaxMARL's repository, for its script."""
    peer_steps: int = 1_500_000
    """Steps after which that script is stopped."""
    total_steps: int = 4_000_000
    """Length of our runs with the defaults, in steps."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; a new one in runs/ if none."""


def ours(folder: Path, flags: dict[str, str], cache: Path, seed: int) -> dict[str, Any]:
    """Trains with us, in a process of its own.

    **Arguments:**

    - `folder`: for the results of the run.
    - `flags`: of the command line.
    - `cache`: where compiled programs are found, if there are any yet.
    - `seed`: of the run.

    **Returns:** steps per second, and the seconds until each threshold, `None` if never.

    **Raises:** `RunError` when the run fails.
    """
    env = os.environ | {"XDG_CACHE_HOME": str(cache)}
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE"):
        env.pop(name, None)  # where programs are kept, and whether, is up to the line above
    command = [
        sys.executable,
        str(HERE.parent / "ippo.py"),
        "--out",
        str(folder),
        "--seed",
        str(seed),
    ]
    _run("ippo.py", [*command, *(part for flag in flags.items() for part in flag)], env)
    result = json.loads(read_regular_text(folder / "result.json"))
    seconds = {x: result["reached"].get(str(x), {}).get("wall_seconds") for x in THRESHOLDS}
    return {"steps_per_second": result["steps_per_second"], "seconds": seconds}


def theirs(config: Config, seed: int) -> dict[str, Any]:
    """Runs JaxMARL's script; its returns are those of the episodes that it trains on. It has no
    cache of compiled programs.

    **Returns:** the same as `ours`.

    **Raises:** `RunError` when the script fails.
    """
    script = str(HERE / "baselines" / "jaxmarl_ippo.py")
    command = [str(config.peers), "-W", "ignore", script]
    env = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    command += [str(config.jaxmarl), str(config.peer_steps), str(seed)]
    lines = _run("JaxMARL's script", command, env)
    rows = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
    if len(rows) < 2:
        raise RunError("JaxMARL's script made fewer than two updates: raise --peer-steps.")
    first, last = rows[0], rows[-1]
    speed = (last["env_steps"] - first["env_steps"]) / (last["seconds"] - first["seconds"])
    seconds = {
        x: next((row["seconds"] for row in rows if row["return"] >= x), None) for x in THRESHOLDS
    }
    return {"steps_per_second": speed, "seconds": seconds}


def _run(name: str, command: Sequence[str], env: dict[str, str]) -> str:
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True)
    except OSError as error:
        raise RunError(f"{command[0]!r} cannot be run: {error.strerror}.") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise RunError(f"{name} failed: {last.removeprefix('error: ')}")
    return done.stdout


def measure(config: Config, folder: Path, console: Console) -> dict[str, list[dict[str, Any]]]:
    """All runs by their names, each as often as is asked for, in turn.

    The first run with the defaults finds no compiled programs, the second one finds those of the
    first. What fails is an `error` in its run. The results so far are written after every run.

    **Raises:** `RunError` when nothing could be measured.
    """
    defaults = {"--total-steps": str(config.total_steps)}
    matched = MATCHED | {"--total-steps": str(min(1_500_000, config.total_steps))}
    runs: dict[str, Callable[[int], dict[str, Any]]] = {
        "eqgrid, network and batch of JaxMARL": lambda seed: ours(
            folder / f"matched-{seed}", matched, folder / f"cache-matched-{seed}", seed
        ),
        "eqgrid, its defaults": lambda seed: ours(
            folder / f"first-{seed}", defaults, folder / f"cache-{seed}", seed
        ),
        "eqgrid, its defaults, a second time": lambda seed: ours(
            folder / f"second-{seed}", defaults, folder / f"cache-{seed}", seed
        ),
    }
    if config.peers is not None:
        runs["JaxMARL ippo_ff_overcooked"] = lambda seed: theirs(config, seed)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in runs}
    for seed in range(config.repeats):
        for name, one in runs.items():
            console.print(f"seed {seed}  {name}", highlight=False)
            try:
                results[name].append(one(seed))
            except RunError as error:
                console.print(f"[red]{escape(str(error))}[/]", highlight=False)
                results[name].append({"error": str(error)})
            write_json(folder / "learning_speed.json", results)
    if not any("seconds" in run for runs in results.values() for run in runs):
        errors = dict.fromkeys(run["error"] for runs in results.values() for run in runs)
        raise RunError(f"Nothing could be measured: {'; '.join(errors)}")
    return results


def print_table(console: Console, results: dict[str, list[dict[str, Any]]]) -> None:
    table = Table(title="medians (and all runs)")
    table.add_column("")
    table.add_column("training steps per second", justify="right")
    for threshold in THRESHOLDS:
        table.add_column(f"seconds from start to {threshold}", justify="right")
    for name, every in results.items():
        runs = [run for run in every if "error" not in run]
        if not runs:
            table.add_row(name, *["failed"] * (1 + len(THRESHOLDS)))
            continue
        speeds = [run["steps_per_second"] for run in runs]
        times = [[run["seconds"][x] for run in runs] for x in THRESHOLDS]
        table.add_row(name, _numbers(speeds, 0), *(_numbers(x, 1) for x in times))
    console.print(table)


def _numbers(values: Sequence[float | None], digits: int) -> str:
    every = ", ".join("never" if x is None else f"{x:,.{digits}f}" for x in values)
    median = statistics.median(float("inf") if x is None else x for x in values)
    bold = "never" if median == float("inf") else f"{median:,.{digits}f}"
    return f"[bold]{bold}[/] ({every})"


def run(args: Sequence[str]) -> None:
    """**Raises:** `UsageError`, `RunError`, `OSError`."""
    config = cli(
        Config(), args, "python experiments/benchmarks/learning_speed.py", Config.__doc__ or ""
    )
    if min(config.repeats, config.total_steps) < 1:
        raise UsageError("--repeats and --total-steps must be at least 1.")
    if (config.peers is None) != (config.jaxmarl is None):
        raise UsageError("--peers and --jaxmarl go together: an interpreter and a checkout.")
    with open_results("learning-speed", config.out) as (folder, console):
        results = measure(config, folder.absolute(), console)
        print_table(console, results)
        console.print(f"numbers  {folder / 'learning_speed.json'}")


def main() -> None:
    run_command(run)


if __name__ == "__main__":
    main()
