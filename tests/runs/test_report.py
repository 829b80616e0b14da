"""The table of many runs: its numbers, its picture, and what does not belong together."""

import json

import numpy as np
import pytest
from PIL import Image
from run_files import table

from eqgrid_lab.base import UsageError
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
    rows = {row["algorithm"]: row for row in table(tmp_path / "out" / "report.csv")}
    for algorithm, scores in SCORES.items():
        row = rows[algorithm]
        assert (row["layout"], row["seeds"], float(row["minutes"])) == ("cramped", "4", 2.5)
        assert float(row["env_steps"]) == 2_000_000
        ordered = sorted(scores)
        low, high = bootstrap_interval(np.asarray(scores))
        expected = [np.mean(scores), np.mean(ordered[1:3]), low, high, ordered[0]]
        found = [float(row[name]) for name in ("mean", "iqm", "low", "high", "worst")]
        np.testing.assert_allclose(found, expected)
    said = capsys.readouterr().out
    text = (tmp_path / "out" / "report.md").read_text()
    assert text in said
    assert "| `cramped` | IPPO | 4 | 220.0 | 220.0 (180.0 to 260.0) | 180.0 | 79% of 280 |" in text
    seeds = table(tmp_path / "out" / "seeds.csv")
    found = {(x["algorithm"], int(x["seed"])): x for x in seeds}
    assert float(found["mappo", 2]["last"]) == 90.0
    assert float(found["ippo", 3]["best"]) == 260.0
    with Image.open(tmp_path / "out" / "curves.png") as picture:
        assert len(np.unique(np.asarray(picture))) > 10


def test_a_row_has_the_video_of_its_seeds_or_of_its_best_run(runs, tmp_path):
    (runs / "ippo" / "episode.gif").write_bytes(b"of the seed in the middle")
    for seed in range(4):
        (runs / "mappo" / str(seed) / "episode.gif").write_bytes(f"of {seed}".encode())
    _report.run([str(runs), "--out", str(tmp_path / "out")])
    videos = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.gif")}
    of_the_best = f"of {np.argmax(SCORES['mappo'])}".encode()
    assert videos == {
        "cramped-ippo.gif": b"of the seed in the middle",
        "cramped-mappo.gif": of_the_best,
    }


def test_games_with_others_are_in_the_row_of_the_runs_that_played_them(runs, tmp_path):
    policies = [str(runs / "ippo" / f"policy-{seed}.safetensors") for seed in range(4)]
    games = {
        "crossplay": {"policies": policies, "cross_play": 150.25},
        "partners": {"policies": policies[1:], "return_iqm": 1.0, "proximity_iqm": None},
    }
    for name, result in games.items():
        (runs / "ippo" / name).mkdir()
        (runs / "ippo" / name / f"{name}.json").write_text(json.dumps(result))
    returns = {"proxy-0": 100.0, "proxy-1": 50.0}
    regrets = {"proxy-0": 20.0, "proxy-1": 10.5}
    people = {"policies": policies, "partners_file": "heldout/people.toml", "returns": returns}
    people["regrets"] = regrets
    (runs / "ippo" / "people").mkdir()
    (runs / "ippo" / "people" / "partners.json").write_text(json.dumps(people))
    _report.run([str(runs), "--out", str(tmp_path / "out")])
    rows = {row["algorithm"]: row for row in table(tmp_path / "out" / "report.csv")}
    assert (rows["ippo"]["crossplay"], rows["mappo"]["crossplay"]) == ("150.25", "")
    assert rows["ippo"]["held_out"] == "", "one of the runs did not play"
    assert (
        "| 79% of 280 | 150.2 |  | 75.0 | 15.2 | 2.0 million |"
        in (tmp_path / "out" / "report.md").read_text()
    )
    people["regrets"] = {"proxy-0": 20.0, "proxy-1": None}
    (runs / "ippo" / "people" / "partners.json").write_text(json.dumps(people))
    _report.run([str(runs), "--out", str(tmp_path / "again")])
    assert "| 75.0 |  | 2.0 million |" in (tmp_path / "again" / "report.md").read_text()
    for unfair in ({"actions": "greedy"}, {"trained_with": {"seed-0": ["proxy-0"]}}):
        (runs / "ippo" / "people" / "partners.json").write_text(json.dumps(people | unfair))
        out = tmp_path / next(iter(unfair))
        _report.run([str(runs), "--out", str(out)])
        assert [row["people"] for row in table(out / "report.csv")] == ["", ""]
    for text in ("{", "[1]", '{"policies": [1]}', "[" * 100_000):
        (runs / "ippo" / "crossplay" / "crossplay.json").write_text(text)
        with pytest.raises(UsageError, match="is damaged: play these games again"):
            _report.run([str(runs)])


def test_what_does_not_belong_together_is_refused(runs):
    write_run(runs / "again", "ippo", {0: 100.0})
    with pytest.raises(UsageError, match="the same seed"):
        _report.run([str(runs)])


def test_a_script_need_not_have_a_choice_of_networks(tmp_path, capsys):
    write_run(tmp_path / "run", "body", {0: 100.0})
    settings = tmp_path / "run" / "config.toml"
    settings.write_text(settings.read_text().replace('network = "mlp"\n', ""))
    _report.run([str(tmp_path / "run"), "--out", str(tmp_path / "out")])
    assert [row["network"] for row in table(tmp_path / "out" / "report.csv")] == [""]
