"""Compares what eqgrid computes and writes with a record of it, before and after a refactoring.

python tests/golden/golden.py                   # compares all sections with the record
python tests/golden/golden.py worlds flags      # compares two of them
python tests/golden/golden.py --record worlds   # records one of them again

The record is one JSON file for each section. An array is recorded as its hash, type, shape, mean
and standard deviation. Every section is measured in a process of its own, with fixed settings of
XLA and one thread, so that the same machine computes the same bits.

Versions, processors and settings of XLA round differently. Where they are not those of the record,
integers and all texts still have to be equal, but floating-point numbers have to be close: to
1e-3 in worlds and logits. Training amplifies differences of rounding, since an action is sampled
differently sooner or later, so that only the scale of each array of parameters is compared.

The script depends on nothing but the command lines, the files that they write, and public names of
`eqgrid`, `agents` and `eqgrid_play`. `resume/` is the folder of a run that was stopped, which
`--record resume` writes if it is missing; remove it first if a change or another machine rounds
differently, since a resumed run has the bits of one that was never stopped only if both halves were
computed alike. `journals/` contains games of `eqgrid play`: to replace them, copy the `.jsonl`
files of others.
"""

import argparse
import contextlib
import csv
import hashlib
import io
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file

from eqgrid_lab import Kitchen
from agents import TrainedPolicy, read_policy
from eqgrid import ENVIRONMENTS, AbstractEnv, AutoReset, Vectorize, make
from eqgrid.envs.overcooked import Overcooked
from eqgrid.envs.overcooked.people import HumanGame, human_games
from eqgrid_lab._eqgrid import eqgrid
from eqgrid_lab.partners import read_saved
from eqgrid_play.games import Menu, read_recorded

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXPERIMENTS = ROOT / "experiments"
RECORD = HERE / "record"
RESUME = HERE / "resume"
JOURNALS = HERE / "journals"

XLA_FLAGS = "--xla_cpu_max_isa=AVX2 --xla_cpu_multi_thread_eigen=false"
"""Programs with the instructions of AVX2 alone are the same on more processors."""
QUICKLY = " --xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
"""For programs that take longer to compile than to run."""

Section = dict[str, Any]
"""What is recorded.

- `exact`: is compared everywhere.
- `arrays`: summaries of arrays by name, see `summary`.
- `rounded`: is compared only in the environment of the record.
- `environment`: versions, processor and settings of XLA.
"""


class Missing(Exception):
    """Something that is not installed is needed."""


def summary(array: Any) -> str:
    """The hash, type, shape, mean and standard deviation of an array."""
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    array = np.asarray(array)
    digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
    shape = ",".join(map(str, array.shape))
    numbers = array.dtype.kind in "biuf"
    mean, std = (array.mean(dtype=float), array.std(dtype=float)) if numbers else (0.0, 0.0)
    return f"{digest} {array.dtype}[{shape}] {mean:.6g} {std:.6g}"


def summaries(tree: Any, name: str = "") -> dict[str, str]:
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(tree, eqx.is_array))
    return {name + jax.tree_util.keystr(path): summary(leaf) for path, leaf in leaves}


# Worlds

KITCHENS: dict[str, dict[str, Any]] = {
    "cramped": {"observation": "features"},
    "asymmetric": {"observation": "planes"},
    "ring": {"observation": "timed_features", "horizon": 150},
    "forced": {"observation": "features96"},
    "circuit": {"observation": "features", "dynamics": "interactive"},
}
WORLDS: dict[str, list[dict[str, Any]]] = {
    "overcooked_v2": [
        {},
        {"observation": "features", "random_reset": True, "negative_rewards": True, "horizon": 100},
    ],
    "foraging": [
        {},
        {"size": 6, "num_agents": 3, "num_food": 3, "sight": 2, "observation": "grid"},
    ],
    "warehouse": [{}, {"num_agents": 4, "reward": "shared", "horizon": 200}],
    "rescue": [{}, {"observation": "features", "horizon": 120}],
    "minigrid": [{}, {"layout": "empty", "num_agents": 2, "observation": "symbolic"}],
    "goals": [{}, {"shared": True, "observation": "planes"}],
    "harvest": [{"horizon": 300}],
    "cleanup": [{"horizon": 300}],
}
COPIES, STEPS = 4, 1000


def kitchens() -> Section:
    """All arrays of episodes in the five kitchens, with uniform actions."""
    return {
        "arrays": {
            f"{layout}: {name}": text
            for layout, options in KITCHENS.items()
            for name, text in episodes(make("overcooked", layout=layout, **options)).items()
        }
    }


def worlds() -> Section:
    """The same in all other worlds."""
    assert {"overcooked", *WORLDS} == set(ENVIRONMENTS)
    return {
        "arrays": {
            f"{world} {number}: {name}": text
            for world, choices in WORLDS.items()
            for number, options in enumerate(choices)
            for name, text in episodes(make(world, **options)).items()
        }
    }


def episodes(world: AbstractEnv) -> dict[str, str]:
    """Summaries of the first observations and states, and of the timesteps and states of all
    steps of episodes that begin again where they end.
    """
    envs = Vectorize(AutoReset(world), COPIES)
    first, rest, steps = rollout(envs, STEPS)
    observation = eqx.filter_jit(envs.observe)(eqx.combine(first, rest))
    return summaries({"observation": observation, "state": first}, "first") | summaries(steps)


@eqx.filter_jit
def rollout(envs: Vectorize, steps: int) -> tuple[Any, Any, Any]:
    """Takes uniform actions.

    **Returns:** the arrays of the first state, what in it is no array, and all steps, with the
    state after each.
    """
    key, first = jax.random.split(jax.random.key(0))
    arrays, rest = eqx.partition(envs.reset(first)[1], eqx.is_array)

    def step(arrays: Any, key: Any) -> tuple[Any, Any]:
        acting, stepping = jax.random.split(key)
        keys = jax.random.split(acting, (envs.num_envs, envs.num_agents))
        action = jax.vmap(jax.vmap(envs.action_space.sample))(keys)
        timestep, state = envs.step(stepping, eqx.combine(arrays, rest), action)
        after = eqx.filter(state, eqx.is_array)
        return after, {"timestep": timestep, "state": after}

    return arrays, rest, jax.lax.scan(step, arrays, jax.random.split(key, steps))[1]


# Logits


def logits() -> Section:
    """The outputs of the actors of all bundled policies, in the first steps of episodes."""
    arrays: dict[str, str] = {}
    played: dict[str, Any] = {}  # policies of one kitchen observe it in different ways
    for path in sorted((EXPERIMENTS / "policies").glob("*.safetensors")):
        file = read_policy(path)
        place = file.world.arguments.get("layout", file.world.name)
        if place != "body" or (find_spec("mujoco") and find_spec("mujoco.mjx")):
            world = read_saved(path).place().env
            if place not in played:
                first, rest, steps = rollout(Vectorize(world, COPIES), 50)
                joined = jax.tree.map(
                    lambda x, y: jnp.concatenate([x[None], y]), first, steps["state"]
                )
                played[place] = eqx.combine(joined, rest)
            arrays[path.stem] = summary(outputs(file.policy, world, played[place]))
    return {"arrays": arrays}


@eqx.filter_jit
def outputs(policy: TrainedPolicy, world: AbstractEnv, states: Any) -> Any:
    """The outputs of the actors in states with axes of steps and copies."""

    def output(state: Any) -> Any:
        return policy.outputs(world.observe(state), policy.initial_carry())[0]

    return eqx.filter_vmap(eqx.filter_vmap(output))(states)


# Flags

PAGES = ("ippo", "mappo", "e3t", "bc", "body")
COMMANDS = ("evaluate", "crossplay", "partners")
COMMANDS += ("play", "watch", "study run", "report", "export-page")
FLAG = re.compile(r"[│ ]{1,3}(?:-h, )?(--\w[\w.-]*(?:, --\w[\w.-]*)*) ?(\S.*?)?(?:  .*)?[│ ]*$")
"""The line of a help text on which a flag begins: its names, and the values that it takes."""


def flags() -> Section:
    """The flags of all scripts, with their values and defaults; for each world, what differs."""
    found: dict[str, Any] = {}
    for script in (*PAGES, *COMMANDS):
        usual = found[script] = help_of(script)
        for world in (*ENVIRONMENTS, "body"):
            own = help_of(script, "--env.name", world)
            if "exit code" not in own:
                own = {
                    "more": {flag: x for flag, x in own.items() if usual.get(flag) != x},
                    "less": sorted(usual.keys() - own.keys()),
                }
            found[f"{script} --env.name {world}"] = own
    return {"exact": found}


def help_of(script: str, *args: str) -> dict[str, str]:
    """The values and the default of each flag of a script, or its exit code after an error."""
    out, code = io.StringIO(), 0
    before, sys.argv = sys.argv, ["eqgrid", *script.split(), *args, "--help"]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            eqgrid()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv = before
    if code:
        return {"exit code": str(code)}
    return dict(parse_help(out.getvalue()))


def parse_help(text: str) -> Iterator[tuple[str, str]]:
    parts: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        found = FLAG.match(line)
        if found is not None:
            names, values = found.groups()
            parts.append((f"{names} {values or ''}".strip(), []))
        if parts:
            parts[-1][1].append(line.strip("│ "))
    for head, lines in parts:
        names, _, values = re.sub(r", --", ",--", head).partition(" ")
        found = re.search(r"\(default: (.*?)\)(?: |$)", " ".join(lines))
        default = found[1] if found else None
        if default and f"{EXPERIMENTS}/" in default.replace(" ", ""):  # a path, maybe in two lines
            default = default.replace(" ", "").replace(f"{EXPERIMENTS}/", "")
        yield names, f"{values} = {default}"


# Runs

SHORT = ("--eval-every", "50000", "--eval-episodes", "16")
GRU = ("--network", "gru")
TWO = ("--num-seeds", "2")
CRAMPED = ("--partners.share", "0.5", "--partners.noise", "0", "0.2")
CRAMPED += ("--partners.pool", "shipped:cramped", "shipped:plan-cramped")
TRAININGS: dict[str, tuple[str, ...]] = {
    "ippo-mlp": ("ippo",),
    "ippo-mlp-2": ("ippo", *TWO),
    "ippo-gru": ("ippo", *GRU),
    "ippo-gru-2": ("ippo", *GRU, *TWO),
    "ippo-partners": ("ippo", *CRAMPED),
    "mappo-mlp": ("mappo", "--env.layout", "ring"),
    "mappo-mlp-2": ("mappo", "--env.layout", "ring", *TWO),
    "mappo-gru": ("mappo", "--env.layout", "ring", *GRU),
    "mappo-gru-2": ("mappo", "--env.layout", "ring", *GRU, *TWO),
}
SMALL = ("--total-steps", "20000", "--num-envs", "8", "--eval-every", "5000", "--width", "16")
SMALL += ("--ppo.rollout-length", "64", "--eval-episodes", "4")
SMALL += ("--env.horizon", "100")
TIMES = re.compile("seconds|per_second|memory|reached")
"""Columns of metrics.csv and entries of result.json that differ from run to run."""


def training(name: str) -> Section:
    """A run of 200,000 steps."""
    script, *more = TRAININGS[name]
    with tempfile.TemporaryDirectory() as folder:
        start(script, "--total-steps", "200000", *SHORT, *more, "--out", f"{folder}/run")
        return results(Path(folder, "run"))


def resumed() -> Section:
    """A run that was stopped, and is resumed here."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(RESUME, f"{folder}/run")
        start("ippo", "--out", f"{folder}/run", "--resume")
        return results(Path(folder, "run"))


def never_stopped() -> Section:
    """The same run, in one piece. The folder of the stopped one is written if it is missing."""
    if not RESUME.exists():
        start_and_stop("ippo", *SMALL, "--out", str(RESUME))
        for name in ("curve.png", "episode.gif"):  # --resume draws them again
            (RESUME / name).unlink()
    with tempfile.TemporaryDirectory() as folder:
        start("ippo", *SMALL, "--out", f"{folder}/run")
        return results(Path(folder, "run"))


def start(script: str, *args: str) -> None:
    """Runs a script as users do, in this environment."""
    command = [str(Path(sys.executable).with_name("eqgrid")), script, *args]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise RuntimeError(f"{script}.py {' '.join(args)}: {done.stderr or done.stdout}")


def start_and_stop(script: str, *args: str) -> None:
    """Presses Ctrl-C after the first block of a run, whose folder is the last argument."""
    command = [str(Path(sys.executable).with_name("eqgrid")), script, *args]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while not Path(args[-1], "metrics.csv").exists():
            if process.poll() is not None:
                raise RuntimeError(f"{script}.py ended with {process.returncode}")
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)


def results(run: Path) -> Section:
    """The files of a run."""
    exact: dict[str, Any] = {
        "files": sorted(x.relative_to(run).as_posix() for x in run.rglob("*") if x.is_file())
    }
    exact["config.toml"] = settings = dict(flat(tomllib.loads(read(run, "config.toml"))))
    for key, value in settings.items():  # where the files of eqgrid are
        settings[key] = json.loads(json.dumps(value).replace(f"{EXPERIMENTS}/", ""))
    result = json.loads(read(run, "result.json"))
    exact["result.json"] = sorted(result)
    rows = list(csv.DictReader(io.StringIO(read(run, "metrics.csv"))))
    exact["metrics.csv"] = list(rows[0])
    exact["rows"] = " ".join(row["env_steps"] for row in rows)
    rounded = {
        "result.json": {k: v for k, v in flat(result) if not TIMES.search(k)},
        "metrics.csv": {x: " ".join(y[x] for y in rows) for x in rows[0] if not TIMES.search(x)},
    }
    arrays: dict[str, str] = {}
    for path in (*sorted(run.glob("policy*.safetensors")), run / "checkpoints/last.safetensors"):
        found = sorted(load_file(path).items())
        arrays |= {f"{path.stem}: {leaf}": summary(x) for leaf, x in found}
    return {"exact": exact, "rounded": rounded, "arrays": arrays}


def read(folder: Path, name: str) -> str:
    return (folder / name).read_text(encoding="utf-8")


def flat(tree: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """The entries of nested tables, with dotted keys."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{before}{key}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for number, entry in enumerate(value):
                yield from flat(entry, f"{before}{key}.{number}.")
        else:
            yield before + key, value


# Replays


def recorded_games() -> Section:
    """One game of two people in each kitchen, played again by its actions."""
    if find_spec("overcooked_ai_py") is None:
        raise Missing("needs the recorded games: pip install -e '.[human]'")
    arrays: dict[str, str] = {}
    exact: dict[str, Any] = {}
    games = human_games("test")
    for kitchen in KITCHENS:
        game = next(x for x in games if x.kitchen == kitchen)
        world = Overcooked(game.layout, horizon=len(game.action) + 1)
        played, reward = replay(world, game)
        exact[f"{kitchen} trial"], exact[f"{kitchen} steps"] = game.trial, len(game.action)
        same = jax.tree.map(lambda a, b: bool((a[:-1] == b[1:]).all()), played, game.state)
        exact[f"{kitchen} replays"] = all(jax.tree.leaves(same))
        arrays |= summaries(game.state, f"{kitchen}: recorded ")
        arrays |= summaries({"state": played, "reward": reward}, f"{kitchen}: played ")
    exact["games"], exact["steps"] = len(games), sum(len(x.action) for x in games)
    return {"exact": exact, "arrays": arrays}


@eqx.filter_jit
def replay(world: AbstractEnv, game: HumanGame) -> tuple[Any, Any]:
    """The states after all steps of a game, and the rewards."""

    def step(state: Any, action: Any) -> tuple[Any, Any]:
        timestep, state = world.step(jax.random.key(0), state, action)
        return state, (state, timestep.reward)

    first = jax.tree.map(lambda x: jnp.asarray(x[0]), game.state)
    return jax.lax.scan(step, first, jnp.asarray(game.action))[1]


def journals() -> Section:
    """The episodes of games that are played again from their journals."""
    exact: dict[str, Any] = {}
    arrays: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        games = Path(folder, "games")
        shutil.copytree(JOURNALS, games)
        read_recorded([str(games)], Menu(Kitchen()))
        exact["files"] = sorted(path.name for path in games.iterdir() if path.suffix != ".lock")
        for path in sorted(games.glob("*.npz")):
            with np.load(path) as found:
                arrays |= {f"{path.name}: {name}": summary(found[name]) for name in sorted(found)}
    return {"exact": exact, "arrays": arrays}


# The record

FAST: dict[str, Callable[[], Section]] = {
    "kitchens": kitchens,
    "worlds": worlds,
    "logits": logits,
    "flags": flags,
    "resume": resumed,
    "human-games": recorded_games,
    "journals": journals,
}
SECTIONS = (*FAST, *TRAININGS)


def environment(name: str) -> dict[str, str]:
    """The settings of the process that measures a section: one thread, and no cache."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    quickly = QUICKLY if name in ("kitchens", "worlds", "logits", "human-games") else ""
    threads = dict.fromkeys(("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    jax_settings = {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    terminal = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "PYTHONUTF8": "1"}
    return kept | threads | jax_settings | terminal | {"XLA_FLAGS": XLA_FLAGS + quickly}


def described(settings: Mapping[str, str]) -> dict[str, str]:
    """Whatever determines how numbers are rounded."""
    versions = {name: version(name) for name in ("jax", "jaxlib", "numpy", "equinox", "optax")}
    return versions | {"XLA_FLAGS": settings["XLA_FLAGS"], "threads": "1", "processor": processor()}


def processor() -> str:
    """The architecture, the model, the vector instructions and the sizes of the caches.

    Products of matrices are split by the sizes of the caches, which changes their rounding.
    """
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        return f"{platform.system()} {platform.machine()} {platform.processor()}"
    lines = {k.strip(): v.strip() for k, _, v in (x.partition(":") for x in text.splitlines())}
    model = [lines.get(x, "") for x in ("vendor_id", "cpu family", "model")]
    vectors = sorted(x for x in lines.get("flags", "").split() if re.match("avx|fma|sse4", x))
    caches = sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"))
    sizes = [x.read_text(encoding="utf-8").strip() for x in caches]
    return " ".join([platform.machine(), *model, *vectors, *sizes])


def measure(name: str, record: bool = False) -> Section:
    """Measures a section in a process of its own.

    **Raises:** `Missing` when something is not installed.
    """
    settings = environment(name)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "section.json")
        command = [sys.executable, __file__, "--measure", name, "--into", str(target)]
        done = subprocess.run([*command, *["--record"] * record], env=settings, cwd=ROOT)
        if done.returncode:
            raise RuntimeError(f"The section {name!r} cannot be measured.")
        section = json.loads(target.read_text(encoding="utf-8"))
    if "missing" in section:
        raise Missing(section["missing"])
    return {"environment": described(settings), **section}


def measure_here(name: str, record: bool) -> Section:
    if name in TRAININGS:
        return training(name)
    try:
        return never_stopped() if record and name == "resume" else FAST[name]()
    except Missing as missing:
        return {"missing": str(missing)}


def changes(name: str) -> list[str]:
    """The differences between a section today and its record; none if both are the same.

    **Raises:** `Missing` when something is not installed.
    """
    old, new = json.loads((RECORD / f"{name}.json").read_text(encoding="utf-8")), measure(name)
    same = old["environment"] == new["environment"]
    found = list(differences(old.get("exact", {}), new.get("exact", {})))
    if same:
        found += differences(old.get("rounded", {}), new.get("rounded", {}))
    olds, news = old.get("arrays", {}), new.get("arrays", {})
    found += [f"{x}: only {'before' if x in olds else 'now'}" for x in sorted(olds.keys() ^ news)]
    near = similar if name in TRAININGS or name == "resume" else close
    for key in olds.keys() & news.keys():
        if olds[key] != news[key] and (same or not near(key, olds[key], news[key])):
            found.append(f"{key}: {olds[key]} -> {news[key]}")
    return sorted(found)


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(x for x in new if x not in old)]:
            here = f"{where} {key}".strip()
            if key not in old or key not in new:
                yield f"{here}: only {'before' if key in old else 'now'}"
            else:
                yield from differences(old[key], new[key], here)
    elif old != new and not old != old != new != new:  # nan
        yield f"{where}: {old} -> {new}"


def close(name: str, old: str, new: str) -> bool:
    """Whether two summaries can be of the same array, rounded differently."""
    (kind, *before), (other, *after) = old.split()[1:], new.split()[1:]
    if kind != other or not kind.startswith(("float", "bfloat")):
        return old == new
    return np.allclose(list(map(float, before)), list(map(float, after)), 1e-3, 1e-3, True)


def similar(name: str, old: str, new: str) -> bool:
    """Whether two summaries can be of the same array of two trainings that round differently: of
    parameters, the scale is compared, and of everything else, the type and the shape.
    """
    (kind, *before), (other, *after) = old.split()[1:], new.split()[1:]
    if kind != other or re.search(r"^policy|'best'|\.policy\.", name) is None:
        return kind == other
    (mean, std), (other_mean, other_std) = map(float, before), map(float, after)
    scale = max(std, other_std, abs(mean), abs(other_mean))
    return abs(mean - other_mean) <= scale and abs(std - other_std) <= scale / 2


def write(name: str) -> None:
    section = measure(name, record=True)
    RECORD.mkdir(exist_ok=True)
    text = json.dumps(section, indent=1) + "\n"
    (RECORD / f"{name}.json").write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"{', '.join(SECTIONS)}")
    parser.add_argument("--record", action="store_true", help="record the sections again")
    parser.add_argument("--measure", choices=SECTIONS, help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure is not None:
        section = measure_here(args.measure, args.record)
        args.into.write_text(json.dumps(section), encoding="utf-8")
        return 0
    if unknown := [name for name in args.sections if name not in SECTIONS]:
        parser.error(f"There is no section {unknown[0]!r}. Known are {', '.join(SECTIONS)}.")
    return max(int(say(name, args.record)) for name in args.sections or SECTIONS)


MOST = 12


def say(name: str, record: bool) -> bool:
    """Records or compares a section, and prints one line. **Returns:** whether it has changed."""
    try:
        if record:
            write(name)
            print(f"{name}: recorded", flush=True)
            return False
        found = changes(name)
    except Missing as missing:
        print(f"{name}: skipped, {missing}", flush=True)
        return False
    more = f" and {len(found) - MOST} more" if len(found) > MOST else ""
    print(
        f"{name}: {'changed: ' + '; '.join(found[:MOST]) + more if found else 'same'}", flush=True
    )
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
