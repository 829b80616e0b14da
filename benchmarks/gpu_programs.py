"""Compiles eqgrid's programs for a GPU that need not be there, and counts what they launch.

python benchmarks/gpu_programs.py --worlds overcooked harvest
python benchmarks/gpu_programs.py --before runs/gpu-programs-1/gpu_programs.json
"""

import contextlib
import dataclasses
import functools
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import equinox as eqx
import jax
import throughput
import tyro
from _gpu_dump import Program, as_rows
from _gpus import GPUS, NODE_SECONDS
from _tasks import TASKS, TaskName
from _worker import Worker
from accelerator import init
from baselines.gpu_compiler import compile_for_gpu
from msgspec import Meta
from rich.console import Console
from throughput import Counts

from agents import collect_rollout, evaluate, scan_updates
from agents.files import shipped
from eqgrid import read_regular_text
from eqgrid_lab.base import RunError, UsageError, import_file, run_command
from eqgrid_lab.folders import open_results, write_json
from eqgrid_lab.settings import default_settings, read_flags
from eqgrid_lab.show import print_table

Rows: TypeAlias = list[dict[str, Any]]
Part: TypeAlias = Literal["step", "rollout", "training", "evaluation"]
_SCANNED = 8  # steps of the rollouts of `throughput.py`, which do not change what a step launches
_PEERS = ("jaxmarl", "jaxmarl_v2")
PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin")


@dataclasses.dataclass(frozen=True)
class Config:
    """Counts kernels, CUDA graphs, conditions and waits of programs for a GPU, and predicts times
    by a model. Needs the CUDA plugin of jax, and no GPU."""

    gpu: Literal["h100", "a100"] = "h100"
    """GPU for which the programs are compiled."""
    parts: Annotated[tuple[Part, ...], Meta(min_length=1)] = (
        "step",
        "rollout",
        "training",
        "evaluation",
    )
    """Programs: steps of environments, and those of ippo.py with its defaults."""
    worlds: Annotated[tuple[TaskName, ...], Meta(min_length=1)] = ("overcooked",)
    """Worlds whose steps are compiled, or all."""
    observation: Literal["planes", "features"] = "planes"
    """Observation in overcooked."""
    num_envs: Counts = (2048, 65536)
    """Numbers of parallel environments; ippo.py has the first one."""
    kernels: Annotated[int, Meta(ge=0, le=5)] = 2
    """Number of the slowest kernels of each loop that are printed."""
    peers: Annotated[Path | None, tyro.conf.arg(metavar="PYTHON")] = None
    """Python interpreter with JaxMARL and the CUDA plugin of jax."""
    before: Annotated[Path | None, tyro.conf.arg(metavar="FILE.json")] = None
    """Numbers of an earlier run, which are compared."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; by default, a new one in runs/."""


def prepare() -> None:
    """Makes jax compile for a GPU on this machine, whatever it has; call it before jax starts.

    **Raises:** `RunError` when the CUDA plugin is not installed.
    """
    if not any(map(importlib.util.find_spec, PLUGINS)):
        raise RunError('Programs for a GPU need the CUDA plugin of jax: pip install -e ".[cuda]".')
    os.environ |= {"JAX_PLATFORMS": "cpu", "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1"}
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_compilation_cache", False)


def learner_parts(num_envs: int) -> dict[Part, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The programs of `ippo.py` with its defaults, as functions and their arguments.

    **Arguments:**

    - `num_envs`: the number of environments.
    """
    ippo: Any = import_file(shipped("ippo.py")).IPPO
    config = dataclasses.replace(default_settings(ippo), num_envs=num_envs)
    env, key, learner = config.train_env(), jax.random.key(0), config.learner()
    state = eqx.filter_eval_shape(init, config, env, key)
    world = config.eval_env(config.env.build(train=False), config.eval_episodes)
    collect = functools.partial(collect_rollout, length=learner.rollout_length)
    updates = functools.partial(scan_updates, length=2)

    def train(env: Any, state: Any, num_updates: jax.Array) -> Any:
        return updates(learner, env, state, num_updates=num_updates)

    return {
        "rollout": (collect, (state.policy, env, state.runner, key)),
        "training": (train, (env, state, jax.numpy.asarray(100))),
        "evaluation": (evaluate, (state.policy, world, key)),
    }


def compile_arguments(
    function: Callable[..., Any], arguments: tuple[Any, ...], target: str, folder: Path
) -> None:
    """Compiles a function whose arguments and results also contain other leaves than arrays."""
    is_array = lambda x: eqx.is_array(x) or isinstance(x, jax.ShapeDtypeStruct)  # noqa: E731
    arrays, rest = eqx.partition(arguments, is_array)

    def program(arrays: Any) -> Any:
        return eqx.filter(function(*eqx.combine(arrays, rest)), eqx.is_array)

    compile_for_gpu(program, (arrays,), target, folder)


def measure(config: Config, folder: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Compiles all programs, and yields the name and the loops of each.

    **Raises:** `RunError` when a library cannot be compiled.
    """
    gpu = GPUS[config.gpu]
    for library, world, num_envs in list_steps(config):
        dump = folder / f"step-{library}-{world}-{num_envs}"
        options = throughput.Config(observation=config.observation)
        what = {
            "spec": throughput.specify(options, world),
            "mode": "stored",
            "num_envs": num_envs,
            "num_steps": _SCANNED,
            "target": gpu.target(),
            "folder": str(dump.absolute()),
        }
        python = sys.executable if library == "eqgrid" or not config.peers else config.peers
        with contextlib.closing(Worker(library, python)) as worker:
            answer = worker.ask(do="compile", what=what)
        if "error" in answer:
            raise RunError(f"{worker.name} cannot be compiled: {answer['error']}.")
        name = f"{worker.name}: a step of {world}, {num_envs:,} environments"
        yield name, list(as_rows(Program(dump, gpu).read()))
    num_envs = config.num_envs[0]
    for part, program in learner_parts(num_envs).items():
        if part in config.parts:
            compile_arguments(*program, gpu.target(), folder / part)
            rows = as_rows(Program(folder / part, gpu).read())
            yield f"ippo.py: {part}, {num_envs:,} environments", list(rows)


def list_steps(config: Config) -> list[tuple[str, str, int]]:
    """The libraries, worlds and numbers of environments whose steps are compiled."""
    if "step" not in config.parts:
        return []
    worlds = [x for x in TASKS if {x, "all"} & set(config.worlds)]
    peers = _PEERS if config.peers is not None else ()
    libraries = {x: ["eqgrid", *(y for y in TASKS[x].peers if y in peers)] for x in worlds}
    return [(y, x, n) for x in worlds for n in config.num_envs for y in libraries[x]]


def print_program(config: Config, console: Console, name: str, rows: Rows) -> None:
    """Prints the loops of a program, and the slowest kernels of each."""
    counts = {
        "graphs": "graphs",
        "outside": "outside",
        "conditions": "conditions",
        "loops inside": "inner_loops",
        "waits": "waits",
    }
    lines, kernels = [], []
    for row in rows:
        *around, loop = row["loop"].split(" > ")
        more = f" + {row['longer_nodes']}" if row["longer_nodes"] else ""
        size, seconds = f"{row['num_bytes'] / 1e6:,.1f}", f"{row['seconds'] * 1e6:,.0f}"
        times, nodes = str(row["times"] or "?"), f"{row['nodes']}{more}"
        numbers = [times, nodes, *(str(row[x]) for x in counts.values()), size, seconds]
        lines.append(["  " * len(around) + loop, *numbers])
        slow = [x for x in row["kernels"][: config.kernels] if x["seconds"] > NODE_SECONDS]
        kernels += [f"{x['seconds'] * 1e6:8,.1f} us  {loop}: {x['name']}" for x in slow]
    print_table(console, ["loop", "times", "nodes", *counts, "MB", "us"], lines, title=name)
    total = f"predicted: {rows[0]['total_seconds'] * 1e3:,.2f} ms"
    console.print("\n".join([*kernels, total, ""]), highlight=False)


def print_changes(console: Console, before: Mapping[str, Rows], after: Mapping[str, Rows]) -> None:
    """Prints what differs from an earlier run, in programs that both have."""
    lines = []
    for name in before.keys() & after.keys():
        for old, new in zip(before[name], after[name], strict=False):
            for field in ("nodes", "longer_nodes", "waits", "num_bytes", "seconds"):
                if old[field] != new[field]:
                    numbers = (f"{x[field]:.4g}" for x in (old, new))
                    lines.append((name, new["loop"], field, *numbers))
    print_table(console, ["program", "loop", "", "before", "now"], lines, title="changes", words=3)


def run(args: Sequence[str]) -> None:
    """Runs the command line. **Raises:** `UsageError`, `RunError`, `OSError`."""
    config = read_flags(Config(), args, "benchmarks/gpu_programs.py")
    before = _read_programs(config.before)
    prepare()
    with open_results("gpu-programs", config.out) as (folder, console):
        programs: dict[str, Rows] = {}
        result = {"gpu": GPUS[config.gpu].name, "jax": jax.__version__, "programs": programs}
        for name, rows in measure(config, folder):
            programs[name] = rows
            print_program(config, console, name, rows)
            write_json(folder / "gpu_programs.json", result)
        if before:
            print_changes(console, before, programs)
        console.print(f"numbers  {folder / 'gpu_programs.json'}")


def _read_programs(path: Path | None) -> dict[str, Rows]:
    if path is None:
        return {}
    try:
        return json.loads(read_regular_text(path))["programs"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"--before {str(path)!r} has no numbers of an earlier run: name its gpu_programs.json."
        ) from error


if __name__ == "__main__":
    run_command(run)
