"""Trains methods, evaluates their agents with partners that were not used in training (strangers),
and ranks the methods.

python experiments/heldout/strangers.py e3t --kitchens ring
python experiments/heldout/strangers.py mine.py --flags=--width=256
python experiments/heldout/strangers.py self-play clones --partners people --num-seeds 10

A method is a script that trains agents, with flags; METHODS lists the methods with a name. Its
seeds play with each other, with the scripts and policies of kitchens.toml, and with the proxies of
people. `--partners people` evaluates with the proxies alone. The same command continues a study
that was interrupted: it skips all runs and games that are complete.
"""

import dataclasses
import functools
import itertools
import json
import os
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from eqgrid_lab import models_of_people
from eqgrid_lab.base import Table, run_command
from eqgrid_lab.commands import HELD_OUT, read_held_out
from eqgrid_lab.folders import read_csv, write_csv
from eqgrid_lab.settings import read_flags
from eqgrid_lab.show import (
    bootstrap_crossplay,
    bootstrap_interval,
    interquartile_mean,
    stratified_interval,
)
import numpy as np
import tyro
from jaxtyping import Float

from eqgrid.envs.overcooked import KITCHENS

Row: TypeAlias = Mapping[str, str]
"""A row of a table, as text by the names of the columns."""

EXPERIMENTS = Path(__file__).resolve().parents[1]
IPPO, E3T = EXPERIMENTS / "ippo.py", EXPERIMENTS / "e3t.py"
KICK_START = EXPERIMENTS / "policies/kick_start.py"
PQN_VDN = EXPERIMENTS / "policies/pqn_vdn.py"
RETURN = ("method", "kitchen", "seed", "partner", "seat", "return")
"""The columns of returns.csv."""
BUDGET = ("method", "kitchen", "steps", "minutes", "memory")
"""The columns of budgets.csv."""
MEASURES = ("itself", "other seeds", "policies", "scripts", "people")
"""The kinds of partners, from the most to the least similar to an agent."""


@dataclasses.dataclass(frozen=True)
class Method:
    """A way to train agents.

    - `title`: the method in tables.
    - `script`: the script that trains the agents, or `None` for the bundled clones of people.
    - `flags`: the flags of the script. `{kitchen}` in a flag becomes the name of the kitchen.
    - `population`: the flags of a run of `ippo.py` that is trained first. `stages` selects some of
        its policies, and the agents train with them.
    - `judging`: the flags of `eqgrid partners` in evaluations with the proxies of people.
    - `layout`: the layout in which agents train once, for the evaluations in all kitchens. By
        default, agents train in each kitchen.
    """

    title: str
    script: Path | None = IPPO
    flags: Sequence[str] = ()
    population: Sequence[str] = ()
    judging: Sequence[str] = ()
    layout: str | None = None


def _words(flags: str) -> tuple[str, ...]:
    return tuple(flags.split())


METHODS = {
    "e3t": Method("trained with E3T", E3T),
    "noisy": Method(
        "trained with itself and the random actions of E3T, without memory",
        flags=_words(  # all as in e3t.py
            "--partners.share 1 --partners.least-noise 0.3 --partners.most-noise 0.3 "
            "--num-envs 128 --width 128 --shaping-steps 5000000 --total-steps 10000000"
        ),
    ),
    "generated": Method(
        "trained with itself alone in generated kitchens, once for all",
        flags=_words(
            "--total-steps 30000000 --shaping-steps 15000000 --eval-every 500000 --num-envs 512 "
            "--width 128 --ppo.entropy-coefficient 0.1 --ppo.entropy-coefficient-end 0.005"
        ),
        layout="generated",
    ),
    "upd": Method(
        "trained with unsupervised partner design, with the network of E3T",
        E3T,
        _words("--partners.designs 16"),
    ),
    "fcp": Method(
        "trained with fictitious co-play, with the network of E3T",
        E3T,
        flags=_words(
            "--partners.least-noise 0 --partners.most-noise 0 --ppo.entropy-coefficient 0.2 "
            "--ppo.entropy-coefficient-end 0.01 --shaping-steps 20000000"
        ),
        # A checkpoint at each evaluation.
        population=_words("--seed 100 --num-seeds 4 --checkpoint-every 50000"),
    ),
    "kick-start": Method(
        "trained with itself alone, with the best plan as its teacher",
        KICK_START,
        (
            *_words("--ppo.entropy-coefficient 0.01 --teacher"),
            f"{EXPERIMENTS}/policies/plan-{{kitchen}}.safetensors",
        ),
    ),
    "clones": Method(
        "trained with clones of people, in half of the episodes", flags=_words("--config people")
    ),
    "annealed": Method(
        "trained with clones of people, from no to every episode",
        flags=_words(
            "--config people "
            "--partners.share 1 --partners.share-from 0 --partners.share-steps 2000000"
        ),
    ),
    "self-play": Method("trained with itself alone"),
    "pqn-vdn": Method("trained with itself alone, by PQN-VDN", PQN_VDN),
    "clone": Method("a clone of people", script=None),
    "proxies": Method(
        "trained with the proxies themselves (gold line)",
        flags=_words("--config people --partners.policies proxies"),
        judging=("--allow-trained-with",),
    ),
}


@dataclasses.dataclass(frozen=True)
class Study:
    """Trains methods in kitchens, and evaluates their agents with partners that were not used in
    training.
    """

    methods: tyro.conf.Positional[
        Annotated[tuple[str, ...], tyro.conf.arg(metavar="METHOD|SCRIPT...")]
    ] = ()
    """Names of METHODS, or files of scripts. Without any, the tables of the folder are printed."""
    flags: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A further flag of the scripts, such as `--flags=--width=256`; repeat it for more flags."""
    kitchens: tuple[str, ...] = tuple(KITCHENS)
    """Kitchens of training and evaluation."""
    num_seeds: int = 5
    """Number of seeds, from 0."""
    partners: Literal["all", "people"] = "all"
    """Evaluate with all partners, or with the proxies of people alone."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/strangers")
    """Folder of all runs and results."""
    generated: bool = False
    """Train in generated kitchens instead, once for all kitchens, as METHOD-generated."""


def run(study: Study) -> None:
    """Trains and evaluates the agents that a study lacks, and prints the tables of its results."""
    if study.partners == "all" and study.num_seeds < 2:
        sys.exit("error: seeds play with each other: train at least two (--num-seeds).")
    if study.num_seeds < 1:
        sys.exit("error: train at least one seed (--num-seeds).")
    if unknown := [name for name in study.kitchens if name not in KITCHENS]:
        sys.exit(f"error: {unknown[0]} is not one of the kitchens {', '.join(KITCHENS)}.")
    methods = {Path(name).stem: _method(name) for name in study.methods}
    if len(methods) < len(study.methods):
        sys.exit("error: two methods have the same name: rename the file of one script.")
    if study.generated:
        methods = {
            f"{name}-generated": dataclasses.replace(method, layout="generated")
            for name, method in methods.items()
        }
    returns, budgets = study.out / "returns.csv", study.out / "budgets.csv"
    _check_rows(study, returns, methods)
    for kitchen, (name, method) in itertools.product(study.kitchens, methods.items()):
        folder = study.out / name
        runs = train(study, method, folder, kitchen)
        judged = judge(study, method, folder, kitchen, runs)
        _replace(returns, collect(judged, name, kitchen))
        if method.script is not None:
            _replace(budgets, [budget(runs, name, kitchen)])
    rows = _read(returns)
    if study.partners == "people":
        print(for_people(rows))
    else:
        print(*(details(rows, name) for name in methods), ranking(rows, _read(budgets)), sep="\n")


def _method(name: str) -> Method:
    """The method of this name, or of the script with this file name."""
    method = METHODS.get(name, Method(Path(name).stem, Path(name).resolve()))
    if name not in METHODS and Path(name).stem in METHODS:
        sys.exit(f"error: {Path(name).stem} is the name of another method: rename the file {name}.")
    if method.script is not None and not method.script.is_file():
        sys.exit(f"error: {name} is neither a script nor one of {', '.join(METHODS)}.")
    return method


def _check_rows(study: Study, file: Path, methods: Mapping[str, Method]) -> None:
    """Rejects a file that is not a table of returns, or that has another number of seeds."""
    rows = _read(file, *RETURN)
    for name, method in methods.items():
        own = [x for x in rows if x["method"] == name and x["kitchen"] in study.kitchens]
        seeds = {(row["kitchen"], row["seed"]) for row in own}
        numbers = Counter(kitchen for kitchen, _ in seeds)
        if method.script is not None and {*numbers.values()} - {study.num_seeds}:
            sys.exit(f"error: {file} has another number of seeds of {name}: choose another --out.")


def train(study: Study, method: Method, folder: Path, kitchen: str) -> list[Path]:
    """Trains all seeds of a method in a kitchen, or in the layout of the method. `ippo.py` trains
    all seeds in one run.

    **Arguments:**

    - `study`, `method`: the study, and its method to train.
    - `folder`: the folder of the method.
    - `kitchen`: the kitchen of the evaluation.

    **Returns:** the folders of the runs, or the files of clones, which need no training.
    """
    if method.script is None:
        return models_of_people("clones", kitchen)
    layout = method.layout or kitchen
    folder = folder / layout
    flags = [flag.replace("{kitchen}", layout) for flag in (*method.flags, *study.flags)]
    script = os.path.relpath(method.script, EXPERIMENTS)
    file, command = folder / "flags.json", [script, *method.population, *flags]
    folder.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        file.write_text(json.dumps(command), encoding="utf-8")
    elif json.loads(file.read_text(encoding="utf-8")) != command:
        sys.exit(f"error: {folder} has runs of other flags: choose another --out.")
    if method.population:
        population = folder / "population"
        _train(population, IPPO, "--env.layout", layout, *method.population)
        flags += ["--partners.policies", *map(str, stages(population))]
    runs = {f"seed-{seed}": ("--seed", str(seed)) for seed in range(study.num_seeds)}
    if method.script == IPPO:
        runs = {f"seeds-{study.num_seeds}": ("--num-seeds", str(study.num_seeds))}
    for name, seeds in runs.items():
        _train(folder / name, method.script, "--env.layout", layout, *flags, *seeds)
    return [folder / name for name in runs]


def _train(run: Path, script: Path, *flags: str) -> None:
    """Starts or resumes a run, unless it has all its steps."""
    if (run / "result.json").exists():
        config = tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))
        if _result(run)["env_steps"] >= config["total_steps"]:
            return
    has_checkpoint = any((run / "checkpoints").glob("*.safetensors"))
    _call(script, *(["--resume", run] if has_checkpoint else [*flags, "--out", run, "--overwrite"]))


def stages(population: Path) -> list[Path]:
    """The partners of fictitious co-play (Strouse et al. 2021). For each seed of a run, they are
    the first checkpoint, the last checkpoint, and the checkpoint whose return is nearest to half of
    the last return. Agents that train only with good partners need not learn to cook themselves.
    """
    partners = []
    for seed in sorted(population.glob("seed-*")):
        files = sorted((seed / "checkpoints").glob("step-*.safetensors"))
        if not files:
            sys.exit(f"error: {seed} has no checkpoints: remove {population}, and train it again.")
        by_step = {x["env_steps"]: x["eval_return_mean"] for x in _read(seed / "metrics.csv")}
        returns = [float(by_step[str(int(x.stem.removeprefix("step-")))]) for x in files]
        middle = int(np.abs(np.asarray(returns) - returns[-1] / 2).argmin())
        partners += dict.fromkeys((files[0], files[middle], files[-1]))
    return partners


def _call(*command: str | Path) -> None:
    """Runs a script. If it fails or is stopped, this program exits with the same code.

    The script also receives a SIGTERM to this program, and this program waits until it has saved.
    """
    received: list[int] = []
    script: subprocess.Popen[bytes] | None = None

    def stop(number: int, _: object) -> None:
        received.append(number)
        if script is not None and number == signal.SIGTERM:  # a Ctrl-C reaches both programs
            script.terminate()

    handled = [x for x in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(x) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in handled}
    script = subprocess.Popen([sys.executable, *command])
    if received:  # while the script started
        script.terminate()
    code = script.wait()
    for number, handler in before.items():
        signal.signal(number, handler)
    if code or received:
        sys.exit(128 - code if code < 0 else code or 128 + received[0])


def judge(study: Study, method: Method, folder: Path, kitchen: str, runs: Sequence[Path]) -> Path:
    """Evaluates the seeds of a method in a kitchen with all partners of the study. Agents that
    train with a population play with their last checkpoint: the checkpoint with the best return
    with itself is often not the best with other partners.

    **Returns:** the folder of the games, which has `--num-seeds` in its name.
    """
    judged = folder / (method.layout or kitchen) / f"judged-{study.num_seeds}"
    judged = judged / kitchen if method.layout else judged
    flags = [] if method.script in (None, IPPO, E3T) else ["--script", method.script]
    flags += ["--which", "last"] if method.population else []
    flags += ["--layout", kitchen] if method.layout else []
    partners: list[str | Path] = [EXPERIMENTS / "eqgrid partners", *runs, *flags]
    commands: dict[str, list[str | Path]] = {
        "crossplay": [EXPERIMENTS / "eqgrid crossplay", *runs, *flags],
        "partners": partners,
        "people": [*partners, "--partners", "people", *method.judging],
    }
    for name in commands if study.partners == "all" else ("people",):
        if not list((judged / name).glob("*.json")):
            _call(*commands[name], "--out", judged / name)
    return judged


def collect(judged: Path, method: str, kitchen: str) -> list[Row]:
    """The mean return of each seed with each partner in either seat. If the partner is a seed of
    the same method, it is named `seed-N` and has the second seat.
    """
    people = _read(judged / "people/partners.csv")
    seeds = {policy: str(n) for n, policy in enumerate(dict.fromkeys(x["policy"] for x in people))}
    pairs = _read(judged / "crossplay/crossplay.csv")
    found = [(seeds[x["first"]], f"seed-{seeds[x['second']]}", "0", x["mean"]) for x in pairs]
    games = [*_read(judged / "partners/partners.csv"), *people]
    found += [(seeds[x["policy"]], x["partner"], x["seat"], x["mean"]) for x in games]
    return [dict(zip(RETURN, (method, kitchen, *row), strict=True)) for row in found]


def budget(runs: Sequence[Path], method: str, kitchen: str) -> Row:
    """The cost of one seed: its steps and minutes, including the whole population if there is one,
    and its memory in GiB.
    """
    results = [_result(run) for run in runs]
    steps = max(result["env_steps"] for result in results)
    seeds = sum(len(result["seeds"]) for result in results)
    minutes = sum(result["wall_seconds"] for result in results) / seeds / 60
    if (population := runs[0].parent / "population").exists():
        steps += _result(population)["env_steps"] * len(_result(population)["seeds"])
        minutes += _result(population)["wall_seconds"] / 60
    memory = max(float(x["memory_bytes"] or 0) for x in _read(runs[0] / "metrics.csv")) / 2**30
    row = (method, kitchen, str(steps), f"{minutes:.1f}", f"{memory:.1f}")
    return dict(zip(BUDGET, row, strict=True))


def _result(run: Path) -> Table:
    return json.loads((run / "result.json").read_text(encoding="utf-8"))


def ranking(rows: Sequence[Row], budgets: Sequence[Row]) -> str:
    """The table of all methods that were evaluated in all kitchens, with means over the kitchens.
    The best mean return with strangers comes first, with its 95 % bootstrap interval over seeds.
    Strangers are policies, scripts and people. Other seeds of a method are not strangers, because
    they may have learned from the same teacher.
    """
    found = []
    for method in dict.fromkeys(row["method"] for row in rows):
        kitchens = _in_kitchens(rows, method, "policies").values()
        # For each kitchen and each measure, the return of each seed.
        own = [[scores(x, measure) for measure in MEASURES] for x in kitchens]
        if len(own) < len(KITCHENS) or not all(len(returns) for x in own for returns in x):
            continue
        means = [np.mean([x[n].mean() for x in own]) for n in range(len(MEASURES))]
        spent = [[float(x[y]) for y in BUDGET[2:]] for x in budgets if x["method"] == method]
        steps, minutes, memory = np.mean(spent or [[0, 0, 0]], axis=0)
        mean = float(np.mean(means[2:]))
        strangers = [np.mean(x[2:], axis=0) for x in own]
        ends = None if min(map(len, strangers)) < 2 else stratified_interval(strangers)
        cells = [
            f"{_title(method)} (`{method}`)",
            f"{steps / 1e6:.0f} million",
            f"{minutes:.1f}",
            f"{memory:.1f}",
            *(f"{x:.0f}" for x in means),
            _with_interval(mean, ends),
        ]
        found.append((mean, cells))
    head = ["agents", "steps", "minutes", "GiB", *MEASURES, "all strangers"]
    return _markdown([head, *(cells for _, cells in sorted(found, reverse=True))])


def details(rows: Sequence[Row], method: str) -> str:
    """The table of a method: its measures in each kitchen, with 95 % bootstrap intervals."""
    kitchens = _in_kitchens(rows, method, "policies")
    table = [["", *(f"`{name}`" for name in kitchens)]]
    for measure in MEASURES:
        cells = [
            _with_interval(scores(x, measure).mean(), interval(x, measure))
            for x in kitchens.values()
        ]
        table.append([f"with {measure}", *cells])
    return _markdown(table)


def for_people(rows: Sequence[Row]) -> str:
    """The table of agents for people. For each method, it shows the mean return with proxies, its
    95 % bootstrap interval over seeds, the mean in each seat, and the share of the gold line.
    """
    kitchens = [x for x in KITCHENS if any(row["kitchen"] == x for row in rows)]
    table: list[Sequence[str]] = [["", *(f"`{x}`" for x in kitchens)]]
    for method in dict.fromkeys((*METHODS, *(row["method"] for row in rows))):
        own = _in_kitchens(rows, method, "people")
        gold = {} if method == "proxies" else _in_kitchens(rows, "proxies", "people")
        cells = [_cells(own.get(x, ()), gold.get(x, ())) for x in kitchens]
        seeds = " or ".join(map(str, sorted({len(scores(x, "people")) for x in own.values()})))
        titles = (
            f"**{_title(method)}**, {seeds} seed{'' if seeds == '1' else 's'}",
            "in seat 0, seat 1",
            "share of the gold line",
        )
        lines = zip(titles, *cells, strict=True)
        table += [line for line in lines if any(line[1:])]
    return _markdown(table)


def _cells(rows: Sequence[Row], gold: Sequence[Row]) -> tuple[str, str, str]:
    """The three cells of a method in a kitchen: return, returns in both seats, share of gold."""
    own, best = scores(rows, "people"), scores(gold, "people")
    if not len(own):
        return "", "", ""
    seats = [scores([row for row in rows if row["seat"] == x], "people").mean() for x in "01"]
    share = f"{own.mean() / best.mean():.0%}" if len(best) else ""
    low, high = bootstrap_interval(own, np.mean)
    return (
        f"**{own.mean():.0f}** ({low:.0f} to {high:.0f})",
        ", ".join(f"{x:.0f}" for x in seats),
        share,
    )


def _in_kitchens(rows: Sequence[Row], method: str, measure: str) -> dict[str, list[Row]]:
    """The rows of a method by kitchen, for kitchens with games with the partners of a measure."""
    own = [row for row in rows if row["method"] == method]
    kitchens = {x: [row for row in own if row["kitchen"] == x] for x in KITCHENS}
    return {name: found for name, found in kitchens.items() if len(scores(found, measure))}


def scores(rows: Sequence[Row], measure: str) -> Float[np.ndarray, " seeds"]:
    """The return of each seed with the partners of a measure in one kitchen: the mean over seats,
    and then over partners. For scripts, the interquartile mean over partners.
    """
    returns: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if measure_of(row) == measure:
            partners = returns.setdefault(row["seed"], {})
            partners.setdefault(row["partner"], []).append(float(row["return"]))
    over_partners = interquartile_mean if measure == "scripts" else np.mean
    means = [[np.mean(seats) for seats in partners.values()] for partners in returns.values()]
    return np.asarray([float(over_partners(own)) for own in means])


def measure_of(row: Row) -> str:
    """The measure to which the partner of a row belongs."""
    if row["partner"].startswith("seed-"):
        return "itself" if row["partner"] == f"seed-{row['seed']}" else "other seeds"
    if row["partner"].startswith("proxy-"):
        return "people"
    return "scripts" if row["partner"] in _scripts() else "policies"


@functools.cache
def _scripts() -> frozenset[str]:
    """The names of the held-out partners that are scripts."""
    return frozenset(x.name for x in read_held_out(HELD_OUT)[0] if x.kind != "policy")


def interval(rows: Sequence[Row], measure: str) -> tuple[float, float] | None:
    """The 95 % bootstrap interval over seeds of the mean of a measure in one kitchen. A return with
    another seed depends on two seeds, so these returns need the bootstrap of cross-play, which is
    `None` for fewer than five seeds.
    """
    if measure != "other seeds":
        low, high = bootstrap_interval(scores(rows, measure), np.mean)
        return float(low), float(high)
    pairs = {
        (f"seed-{row['seed']}", row["partner"]): float(row["return"])
        for row in rows
        if row["partner"].startswith("seed-")
    }
    seeds = sorted({seed for seed, _ in pairs})
    matrix = np.asarray([[pairs[first, second] for second in seeds] for first in seeds])
    return bootstrap_crossplay(matrix)["cross_play"]


def _with_interval(mean: float, ends: tuple[float, float] | None) -> str:
    return f"{mean:.0f}" if ends is None else f"{mean:.0f} ({ends[0]:.0f} to {ends[1]:.0f})"


def _title(method: str) -> str:
    return METHODS[method].title if method in METHODS else method


def _markdown(table: Sequence[Sequence[str]]) -> str:
    rows = [table[0], ["---"] * len(table[0]), *table[1:]]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _read(file: Path, *names: str) -> list[dict[str, str]]:
    """The rows of a CSV file with these columns, or none if the file does not exist."""
    return read_csv(file, *names) if file.exists() else []


def _replace(file: Path, new: Sequence[Row]) -> None:
    """Adds rows to a CSV file. They replace rows of the same method, kitchen and measure."""
    groups, names = {_group(row) for row in new}, {name for row in new for name in row}
    write_csv(file, [*(x for x in _read(file, *names) if _group(x) not in groups), *new])


def _group(row: Row) -> tuple[str, str, str]:
    return row["method"], row["kitchen"], measure_of(row) if "partner" in row else ""


if __name__ == "__main__":
    run_command(lambda args: run(read_flags(Study(), args, "experiments/heldout/strangers.py")))
