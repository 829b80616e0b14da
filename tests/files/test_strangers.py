"""The returns with partners that agents never met, in the documentation and in the data."""

import csv
import re
from pathlib import Path

import numpy as np

from agents.evaluation._statistics import bootstrap_interval
from agents.runs._shipped import shipped

DOCS = Path(__file__).parents[2] / "docs"
KINDS = {"with proxies of people": "proxy", "with scripts": "script", "with other seeds": "e3t"}


def kind_of(partner):
    return next((kind for kind in ("proxy", "e3t") if partner.startswith(kind)), "script")


def test_the_table_is_that_of_the_data():
    with shipped("heldout/strangers.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["partner"] != f"e3t-{row['seed']}"]
    text = (DOCS / "partners.md").read_text(encoding="utf-8")
    for title, kind in KINDS.items():
        [line] = [x for x in text.splitlines() if x.startswith(f"| {title}") and "(" in x]
        cells = re.findall(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)", line)
        for kitchen, cell in zip(("ring", "circuit"), cells, strict=True):
            own = [x for x in rows if x["kitchen"] == kitchen and kind_of(x["partner"]) == kind]
            seeds = sorted({row["seed"] for row in own})
            assert len(seeds) == 5
            means = np.asarray(
                [np.mean([float(x["return"]) for x in own if x["seed"] == seed]) for seed in seeds]
            )
            expected = [means.mean(), *bootstrap_interval(means)]
            np.testing.assert_allclose([float(x) for x in cell], expected, atol=0.051)
