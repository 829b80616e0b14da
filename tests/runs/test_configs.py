"""The settings of the published results: one file for each row, chosen by the name of a kitchen."""

import re

import pytest

from agents.runs import _program
from agents.runs.display._errors import UsageError
from agents.runs.settings._config import ALGORITHMS, CONFIGS, default_config, load, parse
from agents.runs.worlds._worlds import GoalsWorld, Kitchen
from eqgrid.envs.overcooked import KITCHENS

ROWS = {path.stem: path for path in CONFIGS.glob("*.toml")}


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_of_its_algorithm_and_kitchen(row):
    algorithm, layout = row.split("-")
    config = load(ROWS[row], algorithm)
    assert config.env.layout == layout
    assert config.seed == 0
    config.env.build(train=True)


def test_every_kitchen_has_a_row_for_every_algorithm():
    assert set(ROWS) >= {f"{algorithm}-{name}" for algorithm in ALGORITHMS for name in KITCHENS}


@pytest.mark.parametrize("name", ["circuit", "counter_circuit_o_1order"])
def test_a_kitchen_with_settings_of_its_own_is_trained_with_them(name):
    config = parse("mappo", ["--env.layout", name])
    row = load(ROWS["mappo-circuit"], "mappo")
    assert (config.env.practice, config.total_steps) == (row.env.practice, row.total_steps)
    assert config.config == ROWS["mappo-circuit"]
    assert parse("mappo", ["--env.layout", name, "--total-steps", "512"]).total_steps == 512


@pytest.mark.parametrize(
    "flags", [["--sweep", "a.toml"], ["--curriculum=a.toml"], ["--devices", "all"]]
)
def test_what_has_no_candidates_leaves_out_those_of_a_kitchen(flags):
    kitchen = ["--env.layout", "ring"]
    assert parse("mappo", kitchen).candidates == 3
    assert parse("mappo", [*kitchen, *flags]).candidates == 1
    assert parse("mappo", [*kitchen, "--devices", "1"]).candidates == 3
    with pytest.raises(UsageError, match="--candidates cannot be given with"):
        parse("mappo", [*kitchen, *flags, "--candidates", "2"])


@pytest.mark.parametrize(
    "flags",
    ["--env.layout circuit --config none", "--env.layout cramped", "--env.layout ring,circuit"],
)
def test_all_others_have_the_defaults(flags):
    config = parse("ippo", flags.split())
    assert config.env == Kitchen(layout=flags.split()[1])
    assert config.total_steps == default_config(Kitchen()).total_steps


def test_a_file_that_is_named_counts_alone(tmp_path):
    (tmp_path / "mine.toml").write_text("seed = 3\n")
    config = parse("ippo", ["--env.layout", "circuit", "--config", str(tmp_path / "mine.toml")])
    assert (config.seed, config.env.practice) == (3, ())


def test_other_worlds_are_left_alone():
    assert parse("ippo", ["--env.name", "goals"]).env == GoalsWorld()


@pytest.mark.slow
def test_a_run_says_whose_settings_it_has(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_program, "keep_compiled_programs", lambda: "")
    flags = "--env.layout circuit --num-envs 4 --ppo.rollout-length 32 --env.horizon 20"
    flags += " --total-steps 128 --eval-episodes 4 --final-episodes 4 --out run"
    monkeypatch.setattr("sys.argv", ["ippo.py", *flags.split()])
    assert _program.run_command_line("ippo", _program.Process()) == 0
    said = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "ippo-circuit.toml; --config none leaves them out" in said
