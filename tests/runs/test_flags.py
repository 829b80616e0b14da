"""Command lines: flags that are repeated, switches, settings files, and the command of a resume."""

import dataclasses
import functools
from pathlib import Path

import equinox as eqx
import pytest
import tyro
from command_lines import parse
from scripts import shipped_script

from agents import ppo_loss
from agents.files import expand_home
from eqgrid import make
from eqgrid_lab.base import UsageError
from eqgrid_lab.settings import as_given, changed_by_world, cli, dump, flags, load, read_flags
from eqgrid_lab.worlds import WORLDS, world_settings


def write(path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    "given",
    [
        ["--log", "tensorboard", "wandb"],
        ["--log", "wandb", "--log", "tensorboard", "wandb"],
        ["--log=wandb", "--seed", "1", "--log", "tensorboard", "wandb"],
    ],
)
def test_the_last_occurrence_of_a_flag_counts(given):
    assert parse(*given).log == ("tensorboard", "wandb")


def test_the_last_of_two_single_values_counts():
    assert parse("--seed", "1", "--seed=2").seed == 2


@pytest.mark.parametrize(
    "form",
    [
        "--config {0} --config {1}",
        "--config={0} --config {1}",
        "--config {0} --config={1}",
        "--config {1} --config {0} --config {1}",
    ],
)
def test_the_last_of_several_settings_files_counts(tmp_path, form):
    first = write(tmp_path / "first.toml", "seed = 1\nwidth = 32\n")
    second = write(tmp_path / "second.toml", "seed = 2\n")
    config = parse(*form.format(first, second).split())
    assert (config.seed, config.width) == (2, parse().width)


def switches(config) -> list[str]:
    return [flag for flag, value in flags(config) if isinstance(value, bool)]


@pytest.mark.parametrize(
    ("world", "value"),
    [(None, True), (None, False), *((x, i % 2 == 0) for i, x in enumerate(WORLDS))],
)
def test_every_switch_can_be_turned_on_and_off(world, value):
    named = [] if world is None else ["--env.name", world]
    default = parse(*named)
    given = [as_given(flag, value) for flag in switches(default)]
    config = cli(default, given, "", "")  # some cannot be combined, which `parse` would check
    assert all(dict(flags(config))[flag] is value for flag in switches(default))


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_the_names_of_switches_do_not_depend_on_the_settings_file(tmp_path, stored, asked):
    text = f'[env]\nname = "harvest"\nshared = {str(stored).lower()}\n'
    config = parse("--config", write(tmp_path / "a.toml", text), as_given("--env.shared", asked))
    assert config.env.name == "harvest"
    assert config.env.shared is asked


def test_changed_defaults_are_printed_as_they_are_given():
    words = changed_by_world(parse()).split(", ")
    assert "--ppo.normalize-values (elsewhere off)" in words
    assert "--ppo.entropy-coefficient 0.05 (elsewhere 0.01)" in words
    given = [word for flag in words for word in flag.partition(" (")[0].split()]
    assert parse(*given) == parse()


@pytest.fixture
def resume(tmp_path):
    """A function that starts a run with some flags, and gives more flags to resume it with."""

    def resume(started: list[str], *more: str):
        folder = tmp_path / "run"
        folder.mkdir()
        write(folder / "config.toml", dump(parse(*started)))
        return parse(*more, "--out", str(folder), "--resume")

    return resume


def test_the_command_that_started_a_run_resumes_it(resume, tmp_path):
    file = write(tmp_path / "mine.toml", 'width = 32\n[env]\nname = "harvest"\nshared = true\n')
    command = ["--config", file, "--env.shared", "--log", "wandb"]
    config = resume(command, *command)
    assert (config.width, config.env.shared, config.log) == (32, True, ("wandb",))
    assert dump(config) == (tmp_path / "run" / "config.toml").read_text()


@pytest.mark.parametrize(
    ("more", "flag"),
    [
        (["--env.no-shared"], "--env.shared"),
        (["--env.name", "goals"], "--env.name"),
        (["--config", "wide.toml"], "--width"),
    ],
)
def test_a_resumed_run_keeps_its_settings(resume, tmp_path, monkeypatch, more, flag):
    monkeypatch.chdir(tmp_path)
    started = ["--env.name", "harvest", "--env.shared"]
    write(tmp_path / "wide.toml", 'width = 32\n[env]\nname = "harvest"\nshared = true\n')
    with pytest.raises(UsageError, match=rf"run' has other settings: {flag} \(was "):
        resume(started, *more)


def test_all_settings_that_differ_are_named(resume):
    says = r"--seed \(was 0, is 3\), --width \(was 64, is 32\)\. Leave out these flags"
    with pytest.raises(UsageError, match=says):
        resume([], "--seed", "3", "--width", "32", "--total-steps", "9")


def test_settings_may_differ_if_that_is_asked_for(resume):
    config = resume(["--shaping", "2"], "--width", "32", "--resume-changed")
    assert (config.shaping, config.width, config.resume_changed) == (2, 32, True)


def test_resume_needs_the_folder_of_the_run(tmp_path):
    with pytest.raises(UsageError, match="--resume continues the run in --out: add --out"):
        parse("--resume")
    assert parse("--out", str(tmp_path / "new"), "--resume", "--seed", "3").seed == 3


def test_a_loss_that_is_a_module_is_no_setting(tmp_path):
    class Weighted(eqx.Module):
        weight: float

        def __call__(self, policy, batch, ppo, entropy_coefficient):
            return ppo_loss(policy, batch, ppo, entropy_coefficient)

    plain = parse()
    own = dataclasses.replace(plain, ppo=dataclasses.replace(plain.ppo, loss=Weighted(0.5)))
    assert dump(own) == dump(plain)
    assert dict(flags(own)) == dict(flags(plain))
    path = tmp_path / "config.toml"
    path.write_text(dump(own))
    assert dump(load(path, shipped_script("ippo"))) == dump(plain)


def test_none_is_a_value_where_it_is_the_default():
    assert parse("--env.name", "harvest", "--env.num-agents", "None").env.num_agents is None


def test_a_world_in_python_has_known_settings():
    with pytest.raises(UsageError, match=r"no setting 'agents'.*num_agents"):
        world_settings("goals", agents=3)
    goals = functools.partial(make, "goals")
    assert world_settings(goals).build(train=False).num_agents == make("goals").num_agents


def test_the_world_of_the_command_line_replaces_that_of_the_file(tmp_path, capsys):
    text = 'width = 32\n[env]\nname = "goals"\nhorizon = 7\n'
    config = parse("--config", write(tmp_path / "a.toml", text), "--env.name", "foraging")
    assert config.width == 32
    assert config.env == world_settings("foraging")
    said = capsys.readouterr().err
    assert "has settings of the world 'goals', which are ignored" in said
    assert said.count("\n") == 1


def test_a_file_without_a_world_is_for_any_world(tmp_path, capsys):
    config = parse("--config", write(tmp_path / "a.toml", "width = 32\n"), "--env.name", "goals")
    assert (config.width, config.env.name) == (32, "goals")
    assert not capsys.readouterr().err


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


def test_flags_with_paths_may_begin_with_the_home_folder(home):
    write(home / "mine.toml", "seed = 3\n")
    config = parse("--config=~/mine.toml", "--out=~/run", "--env.layout=~/a.txt,~/b.txt,ring")
    assert config.seed == 3
    assert config.out == home / "run"
    assert config.env.layout == f"{home}/a.txt,{home}/b.txt,ring"
    (home / "run").mkdir()
    write(home / "run" / "config.toml", dump(parse("--seed", "7")))
    assert parse("--resume", "--out=~/run").seed == 7


def test_files_with_paths_may_begin_with_the_home_folder(home):
    text = '[env]\nlayout = "~/a.txt"\n[partners]\nshare = 0.5\npool = ["~/run", "./~", "~x"]\n'
    config = parse("--config", write(home / "mine.toml", text))
    assert config.env.layout == f"{home}/a.txt"
    assert config.partners.pool == (f"{home}/run", "./~", "~x")


def test_a_layout_of_several_lines_is_no_path(home):
    assert expand_home("~/a\n~/b") == "~/a\n~/b"


def test_commands_find_the_home_folder(home):
    @dataclasses.dataclass(frozen=True)
    class Config:
        """A command."""

        runs: tyro.conf.Positional[tuple[Path, ...]] = ()
        out: Path | None = None

    config = read_flags(Config(), ["~/a", "~/b", "--out=~/c"], "script.py")
    assert config == Config((home / "a", home / "b"), home / "c")


def test_settings_files_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "mine.toml").write_bytes(b"\xef\xbb\xbfseed = 3\n")
    assert parse("--config", str(tmp_path / "mine.toml")).seed == 3
