"""The study of docs/people.md: agents for people in five kitchens, judged with proxies of people.

python experiments/people/study.py --out runs/study

Trains every row of the table in every kitchen, judges it with the five proxies in both seats, and
writes `returns.csv`, with every seed, and `table.md`. It takes some hours. What is done already is
not done again, so a study that was interrupted goes on with the same command.
"""

import csv
import dataclasses
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from jaxtyping import Float

from agents.evaluation._statistics import bootstrap_interval
from agents.runs import models_of_people
from agents.runs.folders._results import write_csv
from eqgrid.envs.overcooked import KITCHENS

EXPERIMENTS = Path(__file__).parents[1]
FOR_PEOPLE = ("--config", "people")
ANNEALED = ("--partners.share", "1", "--partners.share-from", "0", "--partners.share-steps")
FLAGS: Mapping[str, Sequence[str] | None] = {
    "clones": FOR_PEOPLE,
    "annealed": (*FOR_PEOPLE, *ANNEALED, "2000000"),
    "self-play": (),
    "clone": None,  # of those that ship
    "proxies": (*FOR_PEOPLE, "--partners.policies", "proxies"),
}
"""The flags of `ippo.py` by the name of a row."""
TITLES = {
    "clones": "trained with clones, in half of the episodes",
    "annealed": "trained with clones, from no to every episode",
    "self-play": "trained with itself alone",
    "clone": "a clone of people",
    "proxies": "trained with the proxies themselves (gold line)",
}


@dataclasses.dataclass(frozen=True)
class Study:
    """Trains agents for people in every kitchen, and judges them with proxies of people."""

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/study")
    """Folder of all runs and results."""
    rows: tuple[str, ...] = tuple(FLAGS)
    """Rows of the table."""
    kitchens: tuple[str, ...] = tuple(KITCHENS)
    """Kitchens, the columns of the table."""
    seed: int = 0
    """The first seed."""
    num_seeds: int = 10
    """Number of seeds of each row and kitchen, which are trained together."""
    flags: tuple[str, ...] = ()
    """Further flags of `ippo.py` for all rows, such as `--flags=--total-steps=1000000`."""


def train(study: Study, row: str, kitchen: str) -> Path:
    """Trains the agents of a row in a kitchen, and returns the folder of their run."""
    run = study.out / f"{row}-{kitchen}-{study.seed}"
    command = [EXPERIMENTS / "ippo.py", "--resume", run]
    if not run.exists():
        seeds = ["--seed", str(study.seed), "--num-seeds", str(study.num_seeds)]
        flags = ["--env.layout", kitchen, *seeds, *(FLAGS[row] or ()), *study.flags]
        command = [EXPERIMENTS / "ippo.py", *flags, "--out", run]
    if not (run / "result.json").exists():
        subprocess.run([sys.executable, *command], check=True)
    return run


def judge(study: Study, row: str, kitchen: str) -> None:
    """Plays the agents of a row with the proxies of the kitchen, in both seats."""
    out = study.out / "judged" / f"{row}-{kitchen}-{study.seed}"
    if (out / "partners.json").exists():
        return
    shipped = FLAGS[row] is None
    own = models_of_people("clones", kitchen) if shipped else [train(study, row, kitchen)]
    command = [EXPERIMENTS / "partners.py", *own, "--partners", "people", "--out", out]
    known = ["--allow-trained-with"] if row == "proxies" else []
    subprocess.run([sys.executable, *command, *known], check=True)


def collect(judged: Path) -> list[dict[str, str]]:
    """The return of every agent with every proxy in either seat, the mean of its episodes."""
    found = []
    for file in sorted(judged.glob("*/partners.csv")):
        row, kitchen, first = file.parent.name.rsplit("-", 2)
        seeds: dict[str, int] = {}
        with file.open(newline="") as lines:
            for line in csv.DictReader(lines):
                seed = seeds.setdefault(line["policy"], int(first) + len(seeds))
                names = {"row": row, "kitchen": kitchen, "seed": str(seed)}
                own = {"proxy": line["partner"], "seat": line["seat"], "return": line["mean"]}
                found.append(names | own)
    return found


def by_seed(
    returns: Iterable[Mapping[str, str]], row: str, kitchen: str
) -> Float[np.ndarray, "seeds seats"]:
    """The mean return with the proxies of each seed in each seat."""
    own = [x for x in returns if (x["row"], x["kitchen"]) == (row, kitchen)]
    seeds = sorted({int(x["seed"]) for x in own})
    scores = np.zeros((len(seeds), 2))
    for seed, seat in np.ndindex(scores.shape):
        where = (str(seeds[seed]), str(seat))
        scores[seed, seat] = np.mean(
            [float(x["return"]) for x in own if (x["seed"], x["seat"]) == where]
        )
    return scores


def table(returns: Sequence[Mapping[str, str]]) -> str:
    """The table as Markdown: for each row the mean return with proxies, its 95 % bootstrap interval
    over seeds, the mean in each seat, and the share of the gold line.
    """
    kitchens = [x for x in KITCHENS if any(x == line["kitchen"] for line in returns)]
    lines = ["| | " + " | ".join(f"`{x}`" for x in kitchens) + " |"]
    lines.append("|---" * (1 + len(kitchens)) + "|")
    gold = {x: by_seed(returns, "proxies", x).mean(axis=1) for x in kitchens}
    for row in FLAGS:
        cells: dict[str, list[str]] = {}
        counts: set[int] = set()
        for kitchen in kitchens:
            own = by_seed(returns, row, kitchen)
            counts |= {len(own)} - {0}
            for name, cell in _cells(own, gold[kitchen]).items():
                cells.setdefault(name, []).append(cell)
        seeds = " or ".join(map(str, sorted(counts)))
        for name, each in cells.items():
            if any(each) and (row, name) != ("proxies", "share of the gold line"):
                title = f"**{TITLES[row]}**, {seeds} seeds" if name == "return" else name
                lines.append(f"| {title} | " + " | ".join(each) + " |")
    return "\n".join(lines) + "\n"


def _cells(
    own: Float[np.ndarray, "seeds seats"], gold: Float[np.ndarray, " gold_seeds"]
) -> dict[str, str]:
    if not len(own):
        return dict.fromkeys(("return", "in seat 0, seat 1", "share of the gold line"), "")
    scores = own.mean(axis=1)
    low, high = bootstrap_interval(scores, np.mean)
    seats = ", ".join(f"{x:.0f}" for x in own.mean(axis=0))
    share = f"{scores.mean() / gold.mean():.0%}" if len(gold) else ""
    return {
        "return": f"**{scores.mean():.0f}** ({low:.0f} to {high:.0f})",
        "in seat 0, seat 1": seats,
        "share of the gold line": share,
    }


def run(study: Study) -> None:
    """Does what is missing of a study, and writes its results."""
    for kitchen in study.kitchens:
        for row in study.rows:
            judge(study, row, kitchen)
            returns = collect(study.out / "judged")
            write_csv(study.out / "returns.csv", returns)
            (study.out / "table.md").write_text(table(returns), encoding="utf-8")
    print((study.out / "table.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    run(tyro.cli(Study))
