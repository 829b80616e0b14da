"""The script that trains methods and evaluates them with strangers, and its stored results."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
import strangers
import upd
from policies import kick_start, pqn_vdn
from run_files import table
from scripts import shipped_script

from agents.files import shipped
from eqgrid.envs.overcooked import KITCHENS
from eqgrid_lab.commands import HELD_OUT, _crossplay, _partners, read_held_out
from eqgrid_lab.folders import write_csv
from eqgrid_lab.partners import is_policy
from eqgrid_lab.settings import parse, read_flags
from eqgrid_lab.show import interquartile_mean

NUMBERS = Path(__file__).parents[2] / "docs/numbers"
TRAINED = {"kick_start.py": kick_start.KickStart, "pqn_vdn.py": pqn_vdn.PQNVDN, "upd.py": upd.UPD}
EVALUATED = {"crossplay": _crossplay, "partners": _partners}


@pytest.mark.parametrize("method", strangers.METHODS)
def test_the_flags_of_its_commands_exist(method, tmp_path):
    config = strangers.Config(num_seeds=2, out=tmp_path)
    *training, crossplay, partners, people = strangers.commands(config, method, "ring", tmp_path)
    assert len(training) == (0 if method == "clone" else 2)
    for _, script, *flags in training:
        name = Path(script).name
        settings = parse(TRAINED.get(name) or shipped_script(Path(script).stem), flags)
        assert settings.env.layout == ("generated" if method == "generated" else "ring")
    for command in (crossplay, partners, people):
        module = EVALUATED[command[1]]
        found = read_flags(module.Config(), command[2:], "eqgrid")
        assert (len(found.policies), found.layout) == (5 if method == "clone" else 2, "ring")


def test_the_results_of_its_commands_become_rows_once(tmp_path, monkeypatch):
    """The commands are replaced by a function that writes what they would write."""
    called = []

    def play(command):
        called.append(command)
        folder = Path(command[-1])
        if command[0] == "eqgrid":
            folder.mkdir()
            names = {"crossplay": ("first", "second")}.get(folder.name, ("policy", "partner"))
            pairs = [(policy, x) for policy in ("run a", "run b") for x in ("run a", "run b")]
            if folder.name != "crossplay":
                pairs = [(policy, f"{folder.name}-0") for policy in ("run a", "run b")]
            rows = [dict(zip(names, pair, strict=True), seat=1, mean=2.5) for pair in pairs]
            name = "crossplay" if folder.name == "crossplay" else "partners"
            write_csv(folder / f"{name}.csv", rows)
        return Done()

    class Done:
        def wait(self):
            return 0

    monkeypatch.setattr(strangers.subprocess, "Popen", play)
    args = ("self-play", "--kitchens", "ring", "--num-seeds", "2", "--out", str(tmp_path))
    strangers.run(args)
    rows = table(tmp_path / "returns.csv")
    assert {(x["method"], x["kitchen"], x["return"]) for x in rows} == {
        ("self-play", "ring", "2.5")
    }
    partners = ("partners-0", "people-0", "seed-0", "seed-1")
    assert sorted((x["seed"], x["partner"]) for x in rows) == [
        (s, p) for s in "01" for p in partners
    ]
    assert {x["seat"] for x in rows if x["partner"].startswith("seed-")} == {"0"}
    assert len(called) == 5
    strangers.run(args)
    assert len(called) == 5


def test_the_tables_of_the_docs_are_those_of_the_stored_rows():
    numbers = tomllib.loads((NUMBERS / "partners.toml").read_text())["tables"]["methods"]
    rows = table(shipped("heldout/strangers.csv"))
    for name, _, _, *cells, _ in numbers["rows"]:
        for measure, cell in zip(numbers["header"][3:-1], cells, strict=True):
            found = [score(rows, name.strip("`"), kitchen, measure) for kitchen in KITCHENS]
            assert f"{np.mean(found):.0f}" == cell
    rows = table(shipped("people/returns.csv"))
    cells = tomllib.loads((NUMBERS / "people.toml").read_text())["tables"]["agents"]["rows"]
    for method, (_, *own) in zip(
        ("clones", "annealed", "self-play", "proxies"), cells, strict=True
    ):
        found = [score(rows, method, kitchen, "people") for kitchen in KITCHENS]
        assert [f"{x:.0f}" for x in found] == [cell.split()[0] for cell in own]


SCRIPTS = {x.name for x in read_held_out(HELD_OUT)[0] if not is_policy(x.partner)}


def score(rows, method, kitchen, measure):
    """The mean over seats, then partners (for scripts the interquartile mean), then seeds."""
    seeds = {}
    for row in rows:
        name = row["partner"]
        kind = "people" if name.startswith("proxy-") else "policies"
        kind = "scripts" if name in SCRIPTS else kind
        if name.startswith("seed-"):
            kind = "itself" if name == f"seed-{row['seed']}" else "other seeds"
        if (row["method"], row["kitchen"], kind) == (method, kitchen, measure):
            partners = seeds.setdefault(row["seed"], {})
            partners.setdefault(name, []).append(float(row["return"]))
    over_partners = interquartile_mean if measure == "scripts" else np.mean
    return np.mean([over_partners([np.mean(x) for x in own.values()]) for own in seeds.values()])
