"""The settings that were tuned for a kitchen, and who has them: nobody who does not ask."""

import re
from pathlib import Path

import pytest
from command_lines import call_and_hear

from eqgrid_lab import Kitchen
from eqgrid.envs.overcooked import KITCHENS
from eqgrid_lab.base import UsageError
from eqgrid_lab.settings import default_settings, dump, load, parse, shipped_script
from eqgrid_lab.settings._config import CONFIGS
from eqgrid_lab.worlds import world_settings

TUNED = {path.stem: path for path in CONFIGS.glob("*-*.toml")}


@pytest.mark.parametrize("name", TUNED)
def test_tuned_settings_are_of_their_algorithm_and_kitchen(name):
    algorithm, layout = name.split("-")
    config = load(TUNED[name], shipped_script(algorithm))
    assert config.env.layout == layout
    assert config.seed == 0
    assert config != default_settings(shipped_script(algorithm), Kitchen(layout=layout))
    config.env.build(train=True)


@pytest.mark.parametrize(
    ("algorithm", "layout"), [("mappo", "ring"), *(("ippo", layout) for layout in KITCHENS)]
)
def test_a_layout_changes_the_world_and_nothing_else(algorithm, layout):
    plain = default_settings(shipped_script(algorithm))
    config = parse(shipped_script(algorithm), ["--env.layout", layout])
    assert config == default_settings(shipped_script(algorithm), Kitchen(layout=layout))
    assert config.ppo == plain.ppo
    assert config.total_steps == plain.total_steps


@pytest.mark.parametrize("layout", ["circuit", "counter_circuit_o_1order"])
def test_tuned_settings_are_asked_for(layout):
    flags = ["--env.layout", layout, "--config", "tuned"]
    config = parse(shipped_script("mappo"), flags)
    tuned = load(TUNED["mappo-circuit"], shipped_script("mappo"))
    assert (config.env.practice, config.total_steps) == (tuned.env.practice, tuned.total_steps)
    assert parse(shipped_script("mappo"), [*flags, "--total-steps", "512"]).total_steps == 512


def test_that_they_were_asked_for_is_stored(tmp_path):
    config = parse(shipped_script("mappo"), ["--env.layout", "circuit", "--config", "tuned"])
    (tmp_path / "config.toml").write_text(dump(config))
    assert 'config = "tuned"' in dump(config)
    assert load(tmp_path / "config.toml", shipped_script("mappo")) == config


@pytest.mark.parametrize(
    "flags", ["--env.layout cramped", "--env.name goals", "--env.layout ring,circuit"]
)
def test_where_nothing_was_tuned_it_is_said(flags):
    with pytest.raises(UsageError, match=r"For ippo, these are: circuit.* the plain settings"):
        parse(shipped_script("ippo"), [*flags.split(), "--config", "tuned"])


def test_a_file_that_is_named_counts_alone(tmp_path):
    (tmp_path / "mine.toml").write_text("seed = 3\n")
    flags = ["--env.layout", "circuit", "--config", str(tmp_path / "mine.toml")]
    config = parse(shipped_script("ippo"), flags)
    assert (config.seed, config.env.practice) == (3, ())


@pytest.mark.parametrize(
    ("flags", "seed"),
    [
        ("--config 3.toml --config 4.toml", 4),
        ("--config=3.toml --config=4.toml", 4),
        ("--config 3.toml --config=4.toml", 4),
        ("--config=4.toml --config 3.toml", 3),
        ("--config 3.toml --config 4.toml --config 3.toml", 3),
    ],
)
def test_of_several_files_the_last_one_counts(tmp_path, monkeypatch, flags, seed):
    monkeypatch.chdir(tmp_path)
    for number in (3, 4):
        Path(f"{number}.toml").write_text(f"seed = {number}\n")
    assert parse(shipped_script("ippo"), flags.split()).seed == seed


def test_other_worlds_are_left_alone():
    assert parse(shipped_script("ippo"), ["--env.name", "goals"]).env == world_settings("goals")


@pytest.mark.slow
def test_a_run_says_which_settings_nobody_has_typed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = "--env.layout circuit --num-envs 4 --ppo.rollout-length 32 --env.horizon 20"
    flags += " --total-steps 128 --eval-episodes 4 --final-episodes 4 --out run --config tuned"
    code, said = call_and_hear(capsys, *flags.split())
    assert code == 0
    said = re.sub(r"\s+", " ", said)
    assert "settings: tuned" in said
    assert "defaults of overcooked: --ppo.normalize-values (elsewhere " in said
    assert "also trained in 1 kitchen, which is not used in evaluations" in said


@pytest.mark.parametrize("algorithm", ["ippo", "mappo"])
def test_settings_for_people_train_with_clones_of_the_kitchen(algorithm):
    config = parse(shipped_script(algorithm), ["--config", "people", "--env.layout", "ring"])
    assert (config.env.layout, config.partners.share) == ("ring", 0.5)
    assert config.partners.policies == ("clones",)
    plain = parse(shipped_script(algorithm), ["--env.layout", "ring"])
    assert (config.ppo, config.total_steps) == (plain.ppo, plain.total_steps)
