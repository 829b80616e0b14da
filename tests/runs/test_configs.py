"""The settings that were tuned for a kitchen, and who has them: nobody who does not ask."""

import pytest
from command_lines import parse
from scripts import shipped_script

from eqgrid_lab import Kitchen
from eqgrid.envs.overcooked import KITCHENS
from eqgrid_lab.base import UsageError
from eqgrid_lab.settings import default_settings, dump, load
from eqgrid_lab.settings._config import CONFIGS

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
    config = parse("--env.layout", layout, algorithm=algorithm)
    assert config == default_settings(shipped_script(algorithm), Kitchen(layout=layout))
    assert config.ppo == plain.ppo
    assert config.total_steps == plain.total_steps


@pytest.mark.parametrize("layout", ["circuit", "counter_circuit_o_1order"])
def test_tuned_settings_are_asked_for(layout):
    flags = ["--env.layout", layout, "--config", "tuned"]
    config = parse(*flags, algorithm="mappo")
    tuned = load(TUNED["mappo-circuit"], shipped_script("mappo"))
    assert (config.env.practice, config.total_steps) == (tuned.env.practice, tuned.total_steps)
    assert parse(*flags, "--total-steps", "512", algorithm="mappo").total_steps == 512


def test_that_they_were_asked_for_is_stored(tmp_path):
    config = parse("--env.layout", "circuit", "--config", "tuned", algorithm="mappo")
    (tmp_path / "config.toml").write_text(dump(config))
    assert 'config = "tuned"' in dump(config)
    assert load(tmp_path / "config.toml", shipped_script("mappo")) == config


@pytest.mark.parametrize(
    "flags", ["--env.layout cramped", "--env.name goals", "--env.layout ring,circuit"]
)
def test_where_nothing_was_tuned_it_is_said(flags):
    with pytest.raises(UsageError, match=r"For ippo, these are: circuit.* the plain settings"):
        parse(*flags.split(), "--config", "tuned")


@pytest.mark.parametrize("algorithm", ["ippo", "mappo"])
def test_settings_for_people_train_with_clones_of_the_kitchen(algorithm):
    config = parse("--config", "people", "--env.layout", "ring", algorithm=algorithm)
    assert (config.env.layout, config.partners.share) == ("ring", 0.5)
    assert config.partners.pool == ("clones",)
    plain = parse("--env.layout", "ring", algorithm=algorithm)
    assert (config.ppo, config.total_steps) == (plain.ppo, plain.total_steps)
