"""Copies of a script with something of one's own in them train, resume and are evaluated."""

import json
import re
import subprocess
import sys
from pkgutil import resolve_name

import numpy as np
import pytest
from command_lines import call, call_and_hear, check_refusal, hear, parse
from run_files import rows
from scripts import load_script

from eqgrid_lab import _eqgrid
from agents import read_metadata
from agents.files import shipped
from eqgrid_lab.base import UsageError
from eqgrid_lab.commands import crossplay_command, evaluate_command
from eqgrid_lab.settings import is_shipped

TEXT = shipped("ippo.py").read_text(encoding="utf-8")
SMALL = "--num-envs 4 --ppo.rollout-length 16 --ppo.num-minibatches 2 --eval-episodes 4"
SMALL += " --eval-every 64 --env.horizon 12"

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
CRITIC_INPUT = """
@final
class Others(AbstractCriticInput):
    def local(self, observation):
        return observation

    def __call__(self, observation):
        return observation[::-1]
"""
CHANGES = (
    (
        "    # Every field is a flag.",
        "    env: WorldSettings = dataclasses.field(default_factory=corridors)\n    #",
    ),
    ("= LocalObservation()", "= Others()"),
)
"""Lines of the script, and what takes their place."""
PAGE = (shipped("ippo.py").parents[1] / "docs" / "your-own-experiment.md").read_text("utf-8")


def write_copy(path, *changes):
    """Writes a script with other lines."""
    text = TEXT
    for line, instead in changes:
        assert text.count(line) == 1, line
        text = text.replace(line, instead)
    path.write_text(text)
    return path


def write_own_world(path):
    """Writes a script with a world and a critic's input of its own."""
    write_copy(path, *CHANGES)
    head, class_ = path.read_text().split("\n\n\n@dataclasses.dataclass", 1)
    definitions = f"{IMPORTS}\n{WORLD}{CRITIC_INPUT}"
    path.write_text(f"{head}\n{definitions}\n\n@dataclasses.dataclass{class_}")


def write_page(path):
    """Writes the script with all the changes that the page shows."""
    differences = re.findall(r"^```diff\n(.*?)^```", PAGE, re.M | re.S)
    assert len(differences) == 5
    hunks = [hunk for block in differences for hunk in block.split("@@\n")]
    changes = [
        tuple(
            "".join(line[1:] for line in hunk.splitlines(keepends=True) if line[0] != other)
            for other in "+-"
        )
        for hunk in hunks
    ]
    write_copy(path, *changes, (".min() >= 200", ".min() >= -1"))


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def test_a_fault_in_a_copy_has_its_traceback(tmp_path):
    """Python's own, with the file and the line."""
    line = "            result = evaluation(state)\n"
    for fault in ("            rezult.clear()\n", "            Vectorize(envs, 0)\n"):
        mine = write_copy(tmp_path / "mine.py", (line, line + fault))
        command = [sys.executable, mine, *SMALL.split(), "--out", "run"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        number = mine.read_text().splitlines().index(fault.rstrip()) + 1
        frames = done.stderr.partition("Traceback (most recent call last):\n")[2].splitlines()
        assert f'File "{mine}", line {number}, in main' in done.stderr, done.stderr
        assert "_run.py" not in done.stderr, "the end of the run is not shown"
        assert frames[-1].startswith(("NameError", "ValueError", "TypeError"))
        assert not (tmp_path / "run" / "result.json").exists()


def test_a_wrong_flag_of_a_copy_is_one_sentence(tmp_path, capsys):
    own = ("check_shaping(self)", "raise ValueError('Own sentence.')")
    heard = call_and_hear(capsys, algorithm=load_script(write_copy(tmp_path / "own.py", own)))
    assert heard == (2, "error: Own sentence.\n")


@pytest.mark.slow
def test_the_changes_of_the_page_train(tmp_path, capsys):
    write_page(tmp_path / "mine.py")
    own = load_script(tmp_path / "mine.py")
    args = [*SMALL.split(), "--total-steps", "192", "--num-seeds", "2", "--out", "run"]
    assert call(*args, algorithm=own) == 0
    assert call(*args, "--resume", algorithm=own) == 0
    log = rows(tmp_path / "run")
    assert [row["env_steps"] for row in log] == ["64", "64"], "its rule has ended the run"
    columns = ("squared_norm", "ring_return", "last_entropy")
    assert all(np.isfinite(float(row[name])) for row in log for name in columns)
    assert any((tmp_path / "run" / "profile").rglob("*.xplane.pb"))
    metadata = read_metadata(tmp_path / "run" / "policy-0.safetensors")
    assert "Linear" in json.dumps(metadata["policy"])
    judging = ["run/policy-0.safetensors", "--episodes", "2", "--no-video"]
    check_refusal(hear(capsys, evaluate_command, *judging), "if it is your own class")
    args = [*judging, "--script", "mine.py", "--out", "e"]
    assert hear(capsys, evaluate_command, *args)[0] == 0


@pytest.mark.slow
def test_a_copy_with_its_own_world_trains_resumes_and_is_evaluated(tmp_path, capsys):
    write_own_world(tmp_path / "mine.py")
    own = load_script(tmp_path / "mine.py")
    args = [*SMALL.split(), "--total-steps", "128"]
    assert call(*args, "--out", "run", algorithm=own) == 0
    assert call("--out", "run", "--resume", "--total-steps", "192", algorithm=own) == 0
    assert [row["env_steps"] for row in rows(tmp_path / "run")] == ["64", "128", "192"]
    partners = ["--partners.share", "1", "--partners.pool", "run", "--out", "with"]
    assert call(*args, *partners, algorithm=own) == 0
    judging = ["run", "with", "--episodes", "2", "--script", "mine.py"]
    code, said = hear(capsys, evaluate_command, *judging, "--no-video", "--out", "e")
    assert code == 0, said
    assert len(json.loads((tmp_path / "e" / "evaluation.json").read_text())["results"]) == 4
    assert hear(capsys, crossplay_command, *judging)[0] == 0


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--partners.share", "0.5", "--partners.noise", "0", "0.2"], "at least two agents"),
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
    other = write_copy(tmp_path / "other.py", ("gae)", "gae)  # mine"))
    assert not is_shipped(load_script(other))


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
