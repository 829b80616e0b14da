"""Worlds of other libraries on the command line, with a small library that is made here."""

import dataclasses
import functools
import json
import sys
import types

import numpy as np
import pytest
from command_lines import call, call_and_hear, hear, parse
from learners import Clock
from scripts import shipped_script

from eqgrid_lab import Experiment
from eqgrid import TimeLimit, interop, make
from eqgrid_lab.base import UsageError
from eqgrid_lab.commands import evaluate_command
from eqgrid_lab.settings import dump, load
from eqgrid_lab.worlds import LIBRARIES, _foreign, world_settings

NAMES = ["Clock-v0", "Race-v0", "broken", "absent"]
SMALL = ("--env.name", "toys:Clock-v0", "--num-envs", "4", "--width", "8", "--total-steps", "256")
SMALL += ("--ppo.rollout-length", "32", "--ppo.num-epochs", "1", "--ppo.num-minibatches", "2")
SMALL += ("--eval-every", "128", "--eval-episodes", "4")


def build(toys, name, options):
    if name == "broken":
        raise KeyError("a screw")
    if name == "absent":
        raise ImportError("absent needs clockwork")
    return interop.from_toys(toys.make(**options))


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    """A library of the name `toys`, whose adapter can always be imported."""
    module = types.ModuleType("toys")
    module.make = Clock  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "toys", module)
    monkeypatch.setattr(interop, "from_toys", lambda env: env, raising=False)
    library = _foreign.Library("Toys", "toys", lambda _: NAMES, build)
    monkeypatch.setitem(LIBRARIES, "toys", library)


def parse_toy(*args: str) -> Experiment:
    return parse("--env.name", "toys:Clock-v0", *args)


def test_a_name_is_a_library_and_its_own_name():
    env = parse_toy().env
    assert (env.name, env.title) == ("toys:Clock-v0", "Clock-v0")
    assert (env.horizon, env.normalize_observation) == (None, True)
    assert (env.has_images, env.has_shaped_reward, env.has_video) == (False, False, False)
    assert env.build(train=True) is env.build(train=False)  # compiled once


def test_images_are_whole_numbers_and_not_normalized(monkeypatch):
    planes = functools.partial(make, "goals", observation="planes")
    monkeypatch.setattr(sys.modules["toys"], "make", planes)
    env = parse_toy("--network", "cnn").env
    assert (env.has_images, env.normalize_observation) == (True, False)


def test_options_reach_the_library():
    env = parse_toy("--env.options", "num_agents=5").env
    assert env.build(train=True).num_agents == 5
    world = parse_toy("--env.horizon", "7").env.build(train=True)
    assert isinstance(world, TimeLimit)
    assert world.limit == 7
    assert _foreign._option("a=true") == ("a", True)
    assert _foreign._option("a=[1, 2.5]") == ("a", [1, 2.5])
    assert _foreign._option("a=words = more") == ("a", "words = more")


def test_a_settings_file_brings_all_of_it_back(tmp_path):
    config = parse_toy("--env.options", "num_agents=3", "--env.no-normalize-observation")
    path = tmp_path / "config.toml"
    path.write_text(dump(config))
    assert load(path, shipped_script("ippo")) == config
    other = parse("--config", str(path), "--env.name", "toys:Race-v0")
    before, after = map(dataclasses.asdict, (config.env, other.env))
    assert after == {**before, "name": "toys:Race-v0"}


BAD = {
    ("--env.name", "toys:Clok-v0"): r"Toys has no environment 'Clok-v0'.*Clock-v0",
    ("--env.options", "num_agents"): "takes name=value, such as num_agents=5, but got 'num_agents'",
}


@pytest.mark.parametrize("args", BAD, ids="_".join)
def test_what_is_wrong_is_said_in_one_sentence(args):
    with pytest.raises(UsageError, match=BAD[args]):
        parse_toy(*args)


@pytest.mark.parametrize(
    ("args", "kind"),
    [(("--env.name", "toys:broken"), KeyError), (("--env.options", "hands=2"), TypeError)],
)
def test_a_fault_of_a_library_has_its_traceback(args, kind):
    with pytest.raises(kind) as error:
        parse_toy(*args)
    assert error.value.__notes__[-1].endswith(" cannot be built.")


def test_a_library_that_is_missing_is_named(monkeypatch):
    monkeypatch.delattr(interop, "from_toys")
    monkeypatch.setattr(interop, "__getattr__", missing)
    with pytest.raises(UsageError, match="from_toys needs toys, which is not installed"):
        world_settings("toys:Clock-v0")


def missing(name):
    raise ImportError(f"{name} needs toys, which is not installed: pip install 'eqgrid[toys]'.")


def test_settings_of_a_missing_world_are_half_a_sentence(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text('env.name = "toys:Clok-v0"\n')
    with pytest.raises(UsageError, match=r"^The settings file .* cannot be used: Toys has no env"):
        load(path, shipped_script("ippo"))
    path.write_text('[env]\nname = "toys:Clock-v0"\noptions = 5\n')
    with pytest.raises(UsageError, match=r"'env.options'"):
        load(path, shipped_script("ippo"))
    config = parse_toy()
    path.write_text(dump(config))
    other = parse("--config", str(path), "--env.name", "goals")
    assert other.env.name == "goals"


@pytest.mark.slow
def test_it_trains_goes_on_and_is_evaluated_without_a_video(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, said = call_and_hear(capsys, *SMALL, "--out", "run")
    assert code == 0
    assert "This run has no GIF: environments of Toys are not drawn." in said
    names = {"config.toml", "metrics.csv", "result.json", "curve.png", "policy.safetensors"}
    assert {path.name for path in (tmp_path / "run").iterdir()} == names | {"checkpoints"}
    code, said = call_and_hear(capsys, "--out", "run", "--resume")
    assert (code, said) == (0, "the run run is complete\n")
    assert call("--out", "run", "--resume", "--total-steps", "384") == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["world"], result["layout"]) == ("toys:Clock-v0", "Clock-v0")
    assert (result["env_steps"], result["optimum"]) == (384, None)
    capsys.readouterr()
    code, said = hear(capsys, evaluate_command, "run", "--episodes", "8", "--out", "judged")
    assert (code, "This run has no GIF" in said) == (0, True)
    assert [path.name for path in (tmp_path / "judged").iterdir()] == ["evaluation.json"]


@pytest.mark.slow
def test_many_seeds_are_complete_without_a_video(tmp_path, capsys):
    args = (*SMALL, "--num-seeds", "2", "--out", tmp_path / "runs")
    code, said = call_and_hear(capsys, *args)
    assert (code, "This run has no GIF" in said) == (0, True)
    result = json.loads((tmp_path / "runs" / "result.json").read_text())
    assert not (tmp_path / "runs" / "episode.gif").exists()
    assert np.isfinite([run["eval_return_mean"] for run in result["runs"]]).all()
    code, said = call_and_hear(capsys, "--out", tmp_path / "runs", "--resume")
    assert (code, "is complete" in said) == (0, True)


def test_the_command_line_knows_the_environments_of_jaxnasium():
    env = world_settings("jaxnasium:Pendulum-v1")
    assert (env.has_images, env.normalize_observation) == (False, True)
    with pytest.raises(UsageError, match=r"'CartPol-v1'.*CartPole-v1"):
        world_settings("jaxnasium:CartPol-v1")
