"""The table of many runs: its numbers, its picture, and what does not belong together."""

import json

import numpy as np
import pytest
from PIL import Image
from run_files import table

from eqgrid_lab.base import RunError, UsageError
from eqgrid_lab.commands import _report
from eqgrid_lab.show import bootstrap_interval

SCORES = {"ippo": [200.0, 240.0, 180.0, 260.0], "mappo": [100.0, 120.0, 90.0, 0.0]}


def write_run(folder, algorithm, scores, *, changes=""):
    """Writes a run with these scores of its seeds, of which odd ones have better best policies."""
    folder.mkdir(parents=True)
    seeds = [
        {
            "seed": seed,
            "eval_return_mean": score - 50 if seed % 2 else score,
            "best_return_mean": score if seed % 2 else None,
            "policy": "best" if seed % 2 else "last",
        }
        for seed, score in scores.items()
    ]
    result = {
        "algorithm": algorithm,
        "layout": "cramped",
        "seeds": [*scores],
        "env_steps": 2_000_000,
        "total_steps": 2_000_000,
        "wall_seconds": 150.0,
        "optimum": 280.0,
        "stopped": None,
        **({"runs": seeds} if len(seeds) > 1 else seeds[0]),
    }
    (folder / "result.json").write_text(json.dumps(result))
    lines = f'algorithm = "{algorithm}"\nnetwork = "mlp"\ntotal_steps = 2000000\n'
    lines += f"seed = {min(scores)}\nnum_seeds = {len(scores)}\n"
    (folder / "config.toml").write_text(f"{lines}{changes}[ppo]\ngamma = 0.99\n")
    rows = "".join(
        f"{seed},{step},{score * step / 4}\n"
        for step in range(1, 5)
        for seed, score in scores.items()
    )
    (folder / "metrics.csv").write_text(f"seed,env_steps,eval_return_mean\n{rows}")


@pytest.fixture
def runs(tmp_path):
    """A run of four seeds, and four runs of one seed."""
    folder = tmp_path / "runs"
    write_run(folder / "ippo", "ippo", dict(enumerate(SCORES["ippo"])))
    for seed, score in enumerate(SCORES["mappo"]):
        write_run(folder / "mappo" / str(seed), "mappo", {seed: score})
    return folder


def test_the_table_has_a_row_for_each_algorithm(runs, tmp_path, capsys):
    _report.run([str(runs), "--out", str(tmp_path / "out")])
    said = capsys.readouterr().out
    text = (tmp_path / "out" / "report.md").read_text()
    assert text in said
    for algorithm, scores in SCORES.items():
        ordered = sorted(scores)
        low, high = bootstrap_interval(np.asarray(scores))
        mean, iqm, share = np.mean(scores), np.mean(ordered[1:3]), np.mean(scores) / 280
        assert (
            f"| `cramped` | {algorithm} | 4 | {mean:.1f} | {iqm:.1f} ({low:.1f} to {high:.1f}) "
            f"| {ordered[0]:.1f} | {share:.0%} of 280 | 2.0 million | 2.5 |" in text
        )
    seeds = table(tmp_path / "out" / "seeds.csv")
    found = {(x["algorithm"], int(x["seed"])): x for x in seeds}
    assert float(found["mappo", 2]["last"]) == 90.0
    assert float(found["ippo", 3]["best"]) == 260.0
    with Image.open(tmp_path / "out" / "curves.png") as picture:
        assert len(np.unique(np.asarray(picture))) > 10


def test_what_does_not_belong_together_is_refused(runs):
    write_run(runs / "again", "ippo", {0: 100.0})
    with pytest.raises(UsageError, match="the same seed"):
        _report.run([str(runs)])


@pytest.mark.parametrize("name", ["result.json", "config.toml", "metrics.csv"])
def test_a_damaged_file_is_one_sentence(tmp_path, name):
    write_run(tmp_path / "run", "ippo", {0: 100.0})
    (tmp_path / "run" / name).write_text("{")
    with pytest.raises(RunError, match=rf"{name}' is damaged, or was changed"):
        _report.run([str(tmp_path / "run"), "--out", str(tmp_path / "out")])


def test_a_script_need_not_have_a_choice_of_networks(tmp_path, capsys):
    write_run(tmp_path / "run", "body", {0: 100.0})
    settings = tmp_path / "run" / "config.toml"
    settings.write_text(settings.read_text().replace('network = "mlp"\n', ""))
    _report.run([str(tmp_path / "run"), "--out", str(tmp_path / "out")])
    assert [row["network"] for row in table(tmp_path / "out" / "seeds.csv")] == [""]
