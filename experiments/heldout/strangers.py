"""How well agents cooperate with partners that they never met: trains a method, judges it with
strangers, and ranks all methods.

python experiments/heldout/strangers.py e3t --kitchens ring
python experiments/heldout/strangers.py mine.py --flags=--width=256

A method is a page that trains agents, with flags; METHODS names some. Its seeds then play with each
other, with the scripts and policies of kitchens.toml, and with the proxies of people. What is done
already is not done again, so a study that was interrupted goes on with the same command.
"""

import csv
import dataclasses
import functools
import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import tyro
from jaxtyping import Float

from agents.commands._heldout import HELD_OUT, read_held_out
from agents.evaluation._statistics import bootstrap_interval, interquartile_mean
from agents.runs.folders._results import write_csv
from eqgrid.envs.overcooked import KITCHENS

Row: TypeAlias = Mapping[str, str]

EXPERIMENTS = Path(__file__).parents[1]
IPPO, E3T = EXPERIMENTS / "ippo.py", EXPERIMENTS / "e3t.py"
KICK_START = EXPERIMENTS / "policies/kick_start.py"
RETURN = ("method", "kitchen", "seed", "partner", "seat", "return")
BUDGET = ("method", "kitchen", "steps", "minutes", "memory")
MEASURES = ("itself", "other seeds", "policies", "scripts", "people")
"""The partners of a method, from itself to those that are least like it."""


@dataclasses.dataclass(frozen=True)
class Method:
    """A way to train agents: a page with flags, in which `{kitchen}` is the name of the kitchen. If
    `population` has flags of `ippo.py`, its run is trained first, and `stages` of it become
    partners. `judging` has further flags of `partners.py` for the proxies of people.
    """

    title: str
    page: Path = IPPO
    flags: Sequence[str] = ()
    population: Sequence[str] = ()
    judging: Sequence[str] = ()


_FOR_PEOPLE = ("--config", "people")
_ANNEALED = ("--partners.share", "1", "--partners.share-from", "0", "--partners.share-steps")
_TAUGHT = ("--ppo.entropy-coefficient", "0.01", "--teacher")
_NO_NOISE = ("--partners.least-noise", "0", "--partners.most-noise", "0")
_CURIOUS = ("--ppo.entropy-coefficient", "0.2", "--ppo.entropy-coefficient-end", "0.01")
_SHAPED = ("--shaping-steps", "20000000")
METHODS = {
    "e3t": Method("E3T", E3T),
    "upd": Method(
        "unsupervised partner design, with the network of E3T", E3T, ("--partners.designs", "16")
    ),
    "fcp": Method(
        "fictitious co-play, with the network of E3T",
        E3T,
        (*_NO_NOISE, *_CURIOUS, *_SHAPED),
        ("--seed", "100", "--num-seeds", "4", "--checkpoint-every", "50000"),
    ),
    "kick-start": Method(
        "itself alone, with the best plan as its teacher",
        KICK_START,
        (*_TAUGHT, f"{EXPERIMENTS}/policies/plan-{{kitchen}}.safetensors"),
    ),
    "self-play": Method("itself alone"),
    "clones": Method("clones of people, in half of the episodes", flags=_FOR_PEOPLE),
    "annealed": Method(
        "clones of people, from no to every episode", flags=(*_FOR_PEOPLE, *_ANNEALED, "2000000")
    ),
    "proxies": Method(
        "the proxies themselves (gold line)",
        flags=(*_FOR_PEOPLE, "--partners.policies", "proxies"),
        judging=("--allow-trained-with",),
    ),
}


@dataclasses.dataclass(frozen=True)
class Study:
    """Trains a method in kitchens, and judges it with partners that it never met."""

    method: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="METHOD|PAGE")]]
    """One of METHODS, or the file of a page."""
    flags: tuple[str, ...] = ()
    """Further flags of the page, such as `--flags=--width=256`."""
    kitchens: tuple[str, ...] = tuple(KITCHENS)
    """Kitchens to train and judge in."""
    num_seeds: int = 5
    """Number of seeds, from 0."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/strangers")
    """Folder of all runs and results."""


def train(study: Study, method: Method, folder: Path, kitchen: str) -> list[Path]:
    """Trains all seeds in a kitchen, and returns the folders of their runs."""
    flags = [flag.replace("{kitchen}", kitchen) for flag in (*method.flags, *study.flags)]
    if method.population:
        population = folder / "population"
        _train(population, IPPO, "--env.layout", kitchen, *method.population)
        flags += ["--partners.policies", *map(str, stages(population))]
    runs = [folder / f"seed-{seed}" for seed in range(study.num_seeds)]
    for seed, run in enumerate(runs):
        _train(run, method.page, "--env.layout", kitchen, *flags, "--seed", str(seed))
    return runs


def stages(population: Path) -> list[Path]:
    """The partners of fictitious co-play (Strouse et al. 2021): of each seed of a run the first
    checkpoint, the one with half of the last return, and the last one. Somebody who only meets
    partners who can cook need not learn it.
    """
    found = []
    for seed in sorted(population.glob("seed-*")):
        files = sorted((seed / "checkpoints").glob("step-*.safetensors"))
        returns = {x["env_steps"]: x["eval_return_mean"] for x in _read(seed / "metrics.csv")}
        own = [float(returns[str(int(x.stem.removeprefix("step-")))]) for x in files]
        middle = int(np.abs(np.asarray(own) - own[-1] / 2).argmin())
        found += dict.fromkeys((files[0], files[middle], files[-1]))
    return found


def _train(run: Path, page: Path, *flags: str) -> None:
    if not _is_complete(run):
        _call(page, *(["--resume", run] if run.exists() else [*flags, "--out", run]))


def _call(*command: str | Path) -> None:
    """Runs a page. One that fails or is interrupted says so, and ends this program, too."""
    try:
        code = subprocess.run([sys.executable, *command]).returncode
    except KeyboardInterrupt:
        code = 130
    if code:
        sys.exit(code)


def _is_complete(run: Path) -> bool:
    if not (run / "result.json").exists():
        return False
    steps = _result(run)["env_steps"]
    config = tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))
    return steps >= config["total_steps"]


def _result(run: Path) -> dict[str, Any]:
    return json.loads((run / "result.json").read_text(encoding="utf-8"))


def judge(method: Method, folder: Path, runs: Sequence[Path]) -> Path:
    """Plays the seeds with each other, with scripts and policies, and with proxies of people.

    **Returns:** the folder of the games of so many seeds.
    """
    judged = folder / f"judged-{len(runs)}"
    own = [] if method.page in (IPPO, E3T) else ["--page", method.page]
    partners = [EXPERIMENTS / "partners.py", *runs, *own]
    commands: dict[str, list[Any]] = {
        "crossplay": [EXPERIMENTS / "crossplay.py", *runs, *own],
        "partners": partners,
        "people": [*partners, "--partners", "people", *method.judging],
    }
    for name, command in commands.items():
        if not list((judged / name).glob("*.json")):
            _call(*command, "--out", judged / name)
    return judged


def collect(judged: Path, method: str, kitchen: str) -> list[Row]:
    """The mean return of each seed with each partner in either seat. Partners that are seeds of the
    method are named `seed-N`, and have the second seat.
    """
    pairs = _read(judged / "crossplay/crossplay.csv")
    seeds = {policy: str(n) for n, policy in enumerate(dict.fromkeys(x["first"] for x in pairs))}
    found = [(seeds[x["first"]], f"seed-{seeds[x['second']]}", "0", x["mean"]) for x in pairs]
    for name in ("partners", "people"):
        games = _read(judged / name / "partners.csv")
        found += [(seeds[x["policy"]], x["partner"], x["seat"], x["mean"]) for x in games]
    return [dict(zip(RETURN, (method, kitchen, *row), strict=True)) for row in found]


def budget(runs: Sequence[Path], method: str, kitchen: str) -> Row:
    """What a seed took: its steps and those of all its partners, its minutes and theirs, and memory
    in GiB.
    """
    results = [_result(run) for run in runs]
    steps = max(result["env_steps"] + result["env_steps_of_others"] for result in results)
    seeds = sum(len(result["seeds"]) for result in results)
    minutes = sum(result["wall_seconds"] for result in results) / seeds / 60
    if (population := runs[0].parent / "population").exists():
        steps += _result(population)["env_steps"] * len(_result(population)["seeds"])
        minutes += _result(population)["wall_seconds"] / 60
    memory = max(float(x["memory_bytes"] or 0) for x in _read(runs[0] / "metrics.csv")) / 2**30
    row = (method, kitchen, str(steps), f"{minutes:.1f}", f"{memory:.1f}")
    return dict(zip(BUDGET, row, strict=True))


@functools.cache
def _scripts() -> frozenset[str]:
    return frozenset(x.name for x in read_held_out(HELD_OUT)[0] if x.kind != "policy")


def measure_of(row: Row) -> str:
    """The measure to which the return with a partner belongs."""
    if row["partner"].startswith("seed-"):
        return "itself" if row["partner"] == f"seed-{row['seed']}" else "other seeds"
    if row["partner"].startswith("proxy-"):
        return "people"
    return "scripts" if row["partner"] in _scripts() else "policies"


def scores(rows: Sequence[Row], measure: str) -> Float[np.ndarray, " seeds"]:
    """The return of each seed with the partners of a measure, in one kitchen: the mean over seats,
    and the mean over partners, or for scripts their interquartile mean.
    """
    returns: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if measure_of(row) == measure:
            partners = returns.setdefault(row["seed"], {})
            partners.setdefault(row["partner"], []).append(float(row["return"]))
    over = interquartile_mean if measure == "scripts" else np.mean
    means = [[np.mean(own) for own in partners.values()] for partners in returns.values()]
    return np.asarray([float(over(own)) for own in means])


def details(rows: Sequence[Row], method: str) -> str:
    """The table of a method: its measures in each kitchen, with 95 % bootstrap intervals."""
    own = [row for row in rows if row["method"] == method]
    kitchens = {x: [row for row in own if row["kitchen"] == x] for x in KITCHENS}
    kitchens = {name: found for name, found in kitchens.items() if found}
    table = [["", *(f"`{name}`" for name in kitchens)]]
    for measure in MEASURES:
        found = [scores(x, measure) for x in kitchens.values()]
        ends = [bootstrap_interval(x, np.mean) for x in found]
        pairs = zip(found, ends, strict=True)
        cells = [f"{x.mean():.0f} ({low:.0f} to {high:.0f})" for x, (low, high) in pairs]
        table.append([f"with {measure}", *cells])
    return _markdown(table)


def ranking(rows: Sequence[Row], budgets: Sequence[Row]) -> str:
    """The means over the kitchens of all methods that were judged in all of them, those with the
    best mean with strangers first. Other seeds of the method are no strangers: they may have
    learned from the same teacher.
    """
    found = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        parts = [[row for row in own if row["kitchen"] == kitchen] for kitchen in KITCHENS]
        if all(parts):
            means = [np.mean([scores(x, measure).mean() for x in parts]) for measure in MEASURES]
            spent = [row for row in budgets if row["method"] == method]
            steps, minutes, memory = (np.mean([float(x[y]) for x in spent]) for y in BUDGET[2:])
            title = METHODS[method].title if method in METHODS else method
            cells = [title, f"{steps / 1e6:.0f} million", f"{minutes:.1f}", f"{memory:.1f}"]
            strangers = float(np.mean(means[2:]))
            found.append((strangers, [*cells, *(f"{x:.0f}" for x in (*means, strangers))]))
    head = ["trained with", "steps", "minutes", "GiB", *MEASURES, "all strangers"]
    return _markdown([head, *(cells for _, cells in sorted(found, reverse=True))])


def _markdown(table: Sequence[Sequence[str]]) -> str:
    rows = [table[0], ["---"] * len(table[0]), *table[1:]]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _read(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _replace(file: Path, new: Sequence[Row]) -> list[Row]:
    """Replaces the rows of a method in a kitchen in a file, and returns all rows."""
    about = {(row["method"], row["kitchen"]) for row in new}
    old = _read(file) if file.exists() else []
    rows = [*(row for row in old if (row["method"], row["kitchen"]) not in about), *new]
    write_csv(file, rows)
    return rows


def run(study: Study) -> None:
    """Does what is missing of a study, and writes its results."""
    name, rows, budgets = Path(study.method).stem, [], []
    method = METHODS.get(study.method, Method(name, Path(study.method)))
    if not method.page.is_file():
        sys.exit(f"error: {study.method} is neither a page nor one of {', '.join(METHODS)}.")
    for kitchen in study.kitchens:
        folder = study.out / name / kitchen
        runs = train(study, method, folder, kitchen)
        judged = judge(method, folder, runs)
        rows = _replace(study.out / "returns.csv", collect(judged, name, kitchen))
        budgets = _replace(study.out / "budgets.csv", [budget(runs, name, kitchen)])
    print(details(rows, name), ranking(rows, budgets), sep="\n")


if __name__ == "__main__":
    run(tyro.cli(Study))
