"""Trains methods in kitchens, and evaluates their agents with partners that were not used in
training (strangers): a loop over commands.

python benchmarks/strangers.py e3t --kitchens ring
python benchmarks/strangers.py clones self-play clone proxies --partners people --num-seeds 10

`returns.csv` contains the mean return of each seed with each partner in each seat. The same command
continues after an interruption: it resumes runs, and skips methods that `returns.csv` contains.
"""

import csv
import dataclasses
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro
from msgspec import Meta

from eqgrid_lab import models_of_people
from eqgrid.envs.overcooked import KITCHENS
from eqgrid_lab.base import run_command
from eqgrid_lab.folders import write_csv
from eqgrid_lab.settings import read_flags

EXPERIMENTS = Path(__file__).resolve().parents[1] / "experiments"


@dataclasses.dataclass(frozen=True)
class Method:
    """A way to train agents.

    - `script`: the script that trains them, or `None` for the bundled clones of people.
    - `flags`: the flags of the script. `{kitchen}` stands for the name of the kitchen.
    - `layout`: the layout in which agents train once for all kitchens. By default, agents train in
        each kitchen.
    """

    script: str | None = "ippo.py"
    flags: str = ""
    layout: str = "{kitchen}"


METHODS = {
    "e3t": Method("e3t.py"),
    "noisy": Method(  # as E3T, without memory and prediction
        flags="--partners.share 1 --partners.noise 0.3 0.3 "
        "--num-envs 128 --width 128 --shaping-steps 5000000 --total-steps 10000000"
    ),
    "generated": Method(
        flags="--total-steps 30000000 --shaping-steps 15000000 --eval-every 500000 --num-envs 512 "
        "--width 128 --ppo.entropy-coefficient 0.1 --ppo.entropy-coefficient-end 0.005",
        layout="generated",
    ),
    "upd": Method("upd.py"),
    "kick-start": Method(
        "policies/kick_start.py", "--ppo.entropy-coefficient 0.01 --teacher shipped:plan-{kitchen}"
    ),
    "clones": Method(flags="--config people"),
    "annealed": Method(flags="--config people --partners.share 1 --partners.share-steps 2000000"),
    "self-play": Method(),
    "pqn-vdn": Method("policies/pqn_vdn.py"),
    "clone": Method(script=None),
    "proxies": Method(flags="--config people --partners.pool proxies"),
}


@dataclasses.dataclass(frozen=True)
class Config:
    """Trains methods in kitchens, and evaluates their agents with held-out partners."""

    methods: tyro.conf.Positional[
        Annotated[tuple[str, ...], tyro.conf.arg(metavar="METHOD|SCRIPT...")]
    ] = ()
    """Names of METHODS, or files of scripts."""
    kitchens: tuple[str, ...] = tuple(KITCHENS)
    """Kitchens of training and evaluation."""
    num_seeds: Annotated[int, Meta(ge=2)] = 5
    """Number of seeds, from 0."""
    partners: Literal["all", "people"] = "all"
    """Evaluate with all partners, or with the proxies of people alone."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/strangers")
    """Folder of the runs and of returns.csv."""


def commands(config: Config, method: str, kitchen: str, results: Path) -> Iterator[list[str]]:
    """Yields the commands that train a method for a kitchen, and evaluate it there."""
    how = METHODS.get(method) or Method(str(Path(method).resolve()))
    policies, flags = models_of_people("clones", kitchen), ["--layout", kitchen]
    if how.script is not None:
        script, layout = str(EXPERIMENTS / how.script), how.layout.format(kitchen=kitchen)
        folder = config.out / Path(method).stem / layout
        policies = [folder / f"seed-{seed}" for seed in range(config.num_seeds)]
        given = ["--env.layout", layout, *how.flags.format(kitchen=kitchen).split()]
        for seed, run in enumerate(policies):
            own = ["--seed", str(seed), "--out", str(run), "--resume"]
            yield [sys.executable, script, *given, *own]
        flags += [] if how.script in ("ippo.py", "e3t.py") else ["--script", script]
    flags = [*map(str, policies), *flags, "--out"]
    if config.partners == "all":
        yield ["eqgrid", "crossplay", *flags, str(results / "crossplay")]
        yield ["eqgrid", "partners", *flags, str(results / "partners")]
    known = ["--allow-trained-with"] if method == "proxies" else []
    yield ["eqgrid", "partners", "--partners", "people", *known, *flags, str(results / "people")]


def collect(results: Path, method: str, kitchen: str) -> list[dict[str, str]]:
    """The rows of `returns.csv` for a method in a kitchen. A partner that is a seed of the same
    method is named `seed-N`, and has the second seat.
    """
    found = [x for name in ("partners", "people") for x in read(results / name / "partners.csv")]
    seeds = {policy: str(n) for n, policy in enumerate(dict.fromkeys(x["policy"] for x in found))}
    found += [
        {**row, "policy": row["first"], "partner": f"seed-{seeds[row['second']]}", "seat": "0"}
        for row in read(results / "crossplay" / "crossplay.csv")
    ]
    columns = ("method", "kitchen", "seed", "partner", "seat", "return")
    rows = [(seeds[x["policy"]], x["partner"], x["seat"], x["mean"]) for x in found]
    return [dict(zip(columns, (method, kitchen, *row), strict=True)) for row in rows]


def read(file: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, or none if the file does not exist."""
    return list(csv.DictReader(file.read_text("utf-8").splitlines())) if file.exists() else []


def run(args: Sequence[str]) -> None:
    """Runs the commands of all methods that `returns.csv` lacks, and adds their rows."""
    config = read_flags(Config(), args, "benchmarks/strangers.py")
    config.out.mkdir(parents=True, exist_ok=True)
    table = config.out / "returns.csv"
    for kitchen, method in itertools.product(config.kitchens, config.methods):
        rows, name = read(table), Path(method).stem
        if (name, kitchen) in {(row["method"], row["kitchen"]) for row in rows}:
            continue
        with tempfile.TemporaryDirectory() as results:
            for command in commands(config, method, kitchen, Path(results)):
                if code := subprocess.Popen(command).wait():  # `run` would kill it after Ctrl-C
                    sys.exit(code)
            write_csv(table, [*rows, *collect(Path(results), name, kitchen)])
    print(table)


if __name__ == "__main__":
    run_command(run)
