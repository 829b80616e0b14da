"""Copies of a script with something of one's own in them train, resume and are evaluated."""

import json
import re
import shutil
from pathlib import Path
from pkgutil import resolve_name

import pytest
from command_lines import call, call_and_hear, check_refusal, hear, parse
from run_files import rows

from eqgrid_lab import _eqgrid
from agents.files import shipped
from eqgrid_lab.base import UsageError
from eqgrid_lab.commands import crossplay_command, evaluate_command
from eqgrid_lab.settings import (
    is_shipped,
    load_script,
)

TEXT = shipped("ippo.py").read_text(encoding="utf-8")
SMALL = "--num-envs 4 --ppo.rollout-length 16 --ppo.num-minibatches 2 --eval-episodes 4"
SMALL += " --final-episodes 4 --eval-every 64 --env.horizon 12"

IMPORTS = """
from typing import Annotated, Any, Literal, final
import jax
import jax.numpy as jnp
from agents import AbstractCriticInput, AbstractNetwork, Dense
from eqgrid_lab import WorldSettings, world_settings
from eqgrid import AbstractWrapper
from eqgrid.envs.goals import Goals
"""
WORLD = """
def corridor(horizon: int = 12) -> AbstractEnv:
    return Goals("room", horizon=horizon)


def corridors():
    return world_settings(corridor)
"""
WRAPPER = """
@final
class Doubled(AbstractWrapper):
    env: AbstractEnv

    def reset(self, key):
        observation, state = self.env.reset(key)
        return 2 * observation, state

    def step(self, key, state, action):
        timestep, state = self.env.step(key, state, action)
        seen, final = 2 * timestep.observation, 2 * timestep.final_observation
        return dataclasses.replace(timestep, observation=seen, final_observation=final), state

    def observe(self, state):
        return 2 * self.env.observe(state)
"""
NETWORK = """
@final
class Linear(AbstractNetwork):
    weight: Any

    def __init__(self, in_shape, out_size, *, final_scale, key):
        self.weight = 0.1 * final_scale * jax.random.normal(key, (out_size, in_shape[0]))

    def __call__(self, x, carry):
        return self.weight @ x, carry

    def initial_carry(self):
        return None
"""
CRITIC_INPUT = """
@final
class Others(AbstractCriticInput):
    def local(self, observation):
        return observation

    def __call__(self, observation):
        return observation[::-1]
"""
LEARNER = '''
def monte_carlo(reward, value, next_value, terminated, done, *, gamma, gae_lambda):
    """What was earned until the end of the rollout, less the value."""
    def add(later, step):
        total = step[0] + gamma * jnp.where(step[1][:, None], 0.0, later)
        return total, total
    earned = jax.lax.scan(add, next_value[-1], (reward, done), reverse=True)[1]
    return earned - value
'''
CHANGES = {
    "another world": (
        WORLD,
        "    # Every field is a flag.",
        "    env: WorldSettings = dataclasses.field(default_factory=corridors)\n    #",
    ),
    "a wrapper more": (
        WRAPPER,
        "return AppendAgentId(world) if self.agent_id else world",
        "return Doubled(AppendAgentId(world))",
    ),
    "another network": (NETWORK, "network=network,", "network=Linear,"),
    "another critic input": (CRITIC_INPUT, "= LocalObservation()", "= Others()"),
    "another advantage": (LEARNER, "advantage=gae", "advantage=monte_carlo"),
}
"""What is defined in a copy, and a line of the script with what takes its place."""


def write_copy(path, *changes):
    text, definitions = TEXT, ""
    for change in changes:
        definition, line, instead = CHANGES[change]
        assert text.count(line) == 1
        text, definitions = text.replace(line, instead), definitions + definition
    head, class_ = text.split("\n\n\n@dataclasses.dataclass", 1)
    path.write_text(f"{head}\n{IMPORTS}\n{definitions}\n\n@dataclasses.dataclass{class_}")
    return path


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("line", ["return NormalizeObservation(envs) if", "envs = NormalizeObser"])
def test_a_script_normalises_observations_in_training_and_in_evaluations(tmp_path, capsys, line):
    assert TEXT.count(line) == 1
    mine = tmp_path / "mine.py"
    mine.write_text(TEXT.replace(line, line.replace("NormalizeObser", "NoNormalizeObser")))
    head, class_ = mine.read_text().split("\n\n\n@dataclasses.dataclass", 1)
    no = "def NoNormalizeObservation(envs):\n    return envs"
    mine.write_text(f"{head}\n\n\n{no}\n\n\n@dataclasses.dataclass{class_}")
    args = [*SMALL.split(), "--env.normalize-observation", "--total-steps", "128", "--out", "run"]
    heard = call_and_hear(capsys, *args, algorithm=load_script(mine))
    check_refusal(heard, "error: Evaluations use the observation statistics of training")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("line", "fault", "kind"),
    [
        ("return dataclasses.replace(self.ppo,", "return dataclasses.replace(self.poo,", "poo"),
        ("envs = Vectorize(env, self.num_envs)", "envs = Vectorize(env, 0)", "at least 1 env"),
        ("check_shaping(self)", "int('x')", "invalid literal"),
    ],
)
def test_a_fault_in_a_copy_has_its_traceback(tmp_path, line, fault, kind):
    mine = tmp_path / "mine.py"
    assert TEXT.count(line) == 1
    mine.write_text(TEXT.replace(line, fault))
    with pytest.raises((AttributeError, ValueError), match=kind) as error:
        call(*SMALL.split(), algorithm=load_script(mine))
    assert any(Path(x.path) == mine for x in error.traceback)


def test_a_wrong_flag_of_a_copy_is_one_sentence(tmp_path, capsys):
    own = write_copy(tmp_path / "mine.py", "another network")
    for flags, says in (("--shaping 2 --env.name goals", "weights a shaped reward"),):
        check_refusal(call_and_hear(capsys, *flags.split(), algorithm=load_script(own)), says)
    text = TEXT.replace("check_shaping(self)", "raise ValueError('Own sentence.')")
    (tmp_path / "own.py").write_text(text)
    heard = call_and_hear(capsys, algorithm=load_script(tmp_path / "own.py"))
    assert heard == (2, "error: Own sentence.\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        ("a wrapper more", "another network", "another advantage"),
        ("another world", "another critic input"),
    ],
)
def test_a_copy_trains_resumes_and_is_evaluated(tmp_path, capsys, changes):
    own = write_copy(tmp_path / "mine.py", *changes)
    args = [*SMALL.split(), "--total-steps", "128", "--out", "run"]
    assert call(*args, algorithm=load_script(own)) == 0
    more = ["--out", "run", "--resume", "--total-steps", "192"]
    assert call(*more, algorithm=load_script(own)) == 0
    assert [row["env_steps"] for row in rows(tmp_path / "run")] == ["64", "128", "192"]
    partners = ["--partners.share", "1", "--partners.policies", "run", "--out", "with"]
    assert call(*args[:-2], *partners, algorithm=load_script(own)) == 0
    judging = ["run", "--episodes", "2", "--no-video"]
    code, said = hear(capsys, evaluate_command, *judging, "--script", "mine.py", "--out", "e")
    assert code == 0, said
    assert len(json.loads((tmp_path / "e" / "evaluation.json").read_text())["results"]) == 2
    if "another network" in changes:
        heard = hear(capsys, evaluate_command, *judging)
        check_refusal(heard, "by your own script 'mine.py': add --script with this file")
        shutil.copytree("run", "other")
        args = ["run", "other", "--episodes", "2", "--script", "mine.py"]
        assert hear(capsys, crossplay_command, *args)[0] == 0


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--partners.share", "0.5", "--partners.most-noise", "0.2"], "at least two agents"),
        (["--env.name", "overcooked"], "has a shaped reward: use ippo.py"),
    ],
)
def test_the_script_of_bodies_refuses_what_it_does_not_build(args, says):
    pytest.importorskip("mujoco.mjx")
    with pytest.raises(UsageError, match=says):
        parse(*args, algorithm="body").train_env()


def test_an_exact_copy_is_the_script_itself(tmp_path):
    (tmp_path / "mine.py").write_text(TEXT)
    assert is_shipped(load_script(tmp_path / "mine.py"))
    assert not is_shipped(load_script(write_copy(tmp_path / "other.py", "a wrapper more")))


def test_what_is_no_script_is_one_sentence(tmp_path):
    with pytest.raises(UsageError, match=r"--script '.*missing.py' is not a Python file\."):
        load_script(tmp_path / "missing.py")
    (tmp_path / "none.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match=r"exactly one subclass of Experiment, but .* 0"):
        load_script(tmp_path / "none.py")


def test_a_script_may_import_its_neighbours(tmp_path):
    (tmp_path / "neighbour_of_a_script.py").write_text("SHARE = 0.25\n")
    (tmp_path / "mine.py").write_text(f"import neighbour_of_a_script\n{TEXT}")
    assert load_script(tmp_path / "mine.py").algorithm == "ippo"


def test_a_script_is_copied_out(tmp_path, capsys):
    _eqgrid.list_or_copy(["new", "ippo", "mine.py"])
    assert (tmp_path / "mine.py").read_text(encoding="utf-8") == TEXT
    assert capsys.readouterr().out == "mine.py: python mine.py --help lists its flags.\n"
    with pytest.raises(UsageError, match=r"The file 'mine.py' exists: name a new file"):
        _eqgrid.list_or_copy(["new", "ippo", "mine.py"])
    with pytest.raises(UsageError, match=r"eqgrid new SCRIPT FILE\.py copies a script"):
        _eqgrid.list_or_copy(["new", "qmix", "other.py"])


def test_eqgrid_lists_all_commands(capsys):
    _eqgrid.list_or_copy([])
    said = capsys.readouterr().out
    commands = {name: x for topic in _eqgrid.COMMANDS.values() for name, x in topic.items()}
    assert re.findall(r"^  eqgrid ([\w-]+) +[A-Z]", said, re.M) == [*commands]
    for command in commands.values():
        if command.target.endswith(".py"):
            assert shipped(command.target).is_file()
        else:
            assert callable(resolve_name(command.target))
    with pytest.raises(UsageError, match="There is no command 'humans': eqgrid --help lists"):
        _eqgrid.list_or_copy(["humans"])
