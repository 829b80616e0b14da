"""Worlds of a user's own modules on the command line, and what must not import them."""

import functools
import json
import shutil
import sys
from pathlib import Path

import equinox as eqx
import jax
import pytest
from command_lines import call, call_and_hear, check_refusal, hear, parse
from own_modules import in_folder_of
from PIL import Image
from run_files import rows
from saved_policies import write_policy

from eqgrid import ObservationAndState, TimeLimit, unwrap
from eqgrid.grid import AbstractGridWorld
from eqgrid_lab.base import UsageError
from eqgrid_lab.commands import (
    crossplay_command,
    evaluate_command,
    partners_command,
)
from eqgrid_lab.settings import dump, own_flags
from eqgrid_lab.worlds import world_settings

MODULE = '''
import pathlib
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike, Float

from eqgrid import AbstractEnv, AbstractWrapper, AutoReset, Discrete, TimeLimit, TimeStep
from eqgrid import Vectorize, make
from eqgrid.envs.foraging import Foraging
from eqgrid.envs.overcooked import Overcooked
from eqgrid.grid import AbstractReward

pathlib.Path("imported").touch()
HINT = "text"


class Race(AbstractEnv):
    """Agents are paid for the action that the time asks for.

    **Arguments:**

    - `length`: how long
        a race is.
    - `pay`, `fine`: what a step is worth.
    """

    num_agents: int = eqx.field(static=True)
    length: int = eqx.field(static=True)
    pay: float = eqx.field(static=True)
    event_names: tuple[str, ...] = eqx.field(static=True)
    action_space: Discrete = Discrete(2)

    def __init__(
        self,
        length: int = 4,
        *,
        num_agents: int = 2,
        pay: Float[ArrayLike, ""] = 1,
        kind: Literal["sprint", "relay"] = "sprint",
        best: float | None = None,
        legs: tuple[int, ...] = (1, 2),
        activation=jax.nn.relu,
        train: bool = True,
    ):
        self.num_agents, self.length, self.pay = num_agents, length, float(pay)
        self.event_names = ("right", "training" if train else "judging")

    def reset(self, key):
        return self.observe(jnp.asarray(0)), jnp.asarray(0)

    def step(self, key, state, action):
        right = action == state % 2
        events = jnp.stack([right.astype(int), jnp.ones_like(action)], axis=1)
        reward, never = self.pay * right.astype(float), jnp.zeros(self.num_agents, bool)
        over = state + 1 >= self.length
        info = {"events": events}
        return TimeStep(self.observe(state + 1), reward, never, over, info), state + 1

    def observe(self, state):
        return jnp.broadcast_to(state.astype(float), (self.num_agents, 1))

    def render_episode(self, states, *, captions=()):
        assert states.shape == (len(captions),)
        return f"{len(captions)} states, {captions[0]}".encode()


class Plain(AbstractWrapper):
    env: AbstractEnv

    def reset(self, key):
        return self.env.reset(key)

    def step(self, key, state, action):
        return self.env.step(key, state, action)

    def observe(self, state):
        return self.env.observe(state)


def forage(layout: str = "field", horizon: int = 20, size: int = 8):
    return TimeLimit(Plain(Foraging(size, horizon=horizon, observation="grid")), 10)


def kitchen(horizon: int = 20):
    return Plain(Overcooked("cramped", horizon=horizon))


class Clock(AbstractReward):
    price: float = 1.0

    def __call__(self, step):
        return jnp.full(step.world.num_agents, self.price)


def paid(horizon: int = 4, price: float = 1.0):
    return make("overcooked", horizon=horizon).with_reward(Clock(price))


def needs(size: int):
    return Race()


def hinted(size: "Nowhere" = 3):
    return Race()


def taken(title: str = "a"):
    return Race()


def limited(best: int | None = 3):
    return Race()


def many():
    return Vectorize(Race(), 4)


def fails():
    raise KeyError("a shoe")


def resets():
    return AutoReset(make("goals"))


class Wide(Race):
    def step(self, key, state, action):
        timestep, state = super().step(key, state, action)
        return eqx.tree_at(lambda x: x.reward, timestep, timestep.reward[None]), state


class Broken(Race):
    def step(self, key, state, action):
        return super().step(key, state, jnp.zeros(3) + jnp.zeros(4))


class Misused(Race):
    def step(self, key, state, action):
        return Vectorize(Race(), 0).step(key, state, action)


class Undrawn(Race):
    def render_episode(self, states, *, captions=()):
        raise KeyError("a pen")
'''
SMALL = ("--num-envs", "4", "--width", "8", "--total-steps", "64", "--ppo.rollout-length", "8")
SMALL += ("--ppo.num-epochs", "1", "--ppo.num-minibatches", "2", "--eval-every", "32")
SMALL += ("--eval-episodes", "4")
RACE = ("--env.name", "toy_race:Race")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a module, which nothing has imported."""
    with in_folder_of(tmp_path, monkeypatch, toy_race=MODULE, broken="1 / 0\n"):
        yield tmp_path


def test_a_list_of_ones_own_may_have_a_value_twice(folder):
    assert parse(*RACE, "--env.legs", "2", "2").env.legs == (2, 2)
    (folder / "equal.toml").write_text('[env]\nname = "toy_race:Race"\nlegs = [2, 2]\n')
    assert parse(*RACE, "--config", "equal.toml").env.legs == (2, 2)


def test_settings_are_the_parameters_of_the_factory(capsys):
    env = parse(*RACE, "--env.length", "6", "--env.pay", "0.5", "--env.legs", "3").env
    assert (env.name, env.title, env.horizon) == ("toy_race:Race", "Race", None)
    assert (env.length, env.num_agents, env.pay, env.kind) == (6, 2, 0.5, "sprint")
    assert (env.best, env.legs, env.normalize_observation) == (None, (3,), True)
    assert not hasattr(env, "activation")
    assert not hasattr(env, "train")
    world = env.build(train=True)
    assert (world.length, world.pay) == (6, 0.5)
    assert env.build(train=True) is world  # compiled once
    assert world.event_names[1] == "training"
    assert env.build(train=False).event_names[1] == "judging"
    assert env.totals(env.build(train=False)) == {"events": ("event_right", "event_judging")}
    assert (env.has_video, env.has_images, env.has_shaped_reward) == (True, False, False)
    assert parse(*RACE).ppo.normalize_values
    with pytest.raises(SystemExit):
        parse(*RACE, "--help")
    said = " ".join(capsys.readouterr().out.split())
    assert "How long a race is. (default: 4)" in said
    assert "What a step is worth. (default: 1.0)" in said


def test_a_horizon_cuts_episodes_unless_the_factory_has_one():
    world = parse(*RACE, "--env.horizon", "3").env.build(train=True)
    assert isinstance(world, TimeLimit)
    assert world.limit == 3
    env = parse("--env.name", "toy_race:kitchen", "--env.horizon", "5").env
    assert unwrap(env.build(train=True)).horizon == 5


def test_a_grid_world_in_wrappers_keeps_its_events_and_its_shaped_reward():
    env = parse("--env.name", "toy_race:kitchen").env
    world = env.build(train=False)
    assert not isinstance(world, AbstractGridWorld)
    assert env.totals(world) == {
        "events": tuple(f"event_{name}" for name in unwrap(world).event_names)
    }
    assert (env.has_video, env.has_shaped_reward, env.has_images) == (True, True, True)
    env = parse("--env.name", "toy_race:forage").env
    assert (env.title, env.has_shaped_reward, env.has_images) == ("forage-field", False, True)
    assert not env.normalize_observation


def test_critics_see_the_state_of_a_grid_world_in_wrappers():
    config = parse("--env.name", "toy_race:forage", "--critic", "state", algorithm="mappo")
    env = config.train_env()
    seen, _ = eqx.filter_eval_shape(env.reset, jax.random.key(0))
    assert isinstance(seen, ObservationAndState)
    plain = parse("--env.name", "toy_race:forage", algorithm="mappo").train_env()
    assert seen.local.shape == eqx.filter_eval_shape(plain.reset, jax.random.key(0))[0].shape
    with pytest.raises(ValueError, match="--critic state is for worlds on a grid"):
        parse(*RACE, "--critic", "state", algorithm="mappo").train_env()


def test_a_settings_file_brings_all_of_it_back_if_the_world_is_named():
    config = parse(*RACE, "--env.length", "5", "--env.pay", "2")
    Path("settings.toml").write_text(dump(config))
    assert parse(*RACE, "--config", "settings.toml").env == config.env
    assert own_flags(config) == " --env.name toy_race:Race"


BAD = {
    "toy_rase:Race": "there is no module 'toy_rase' in the current folder, and no installed",
    "toy_race:Rase": r"its module .* has no function or class 'Rase'",
    "toy_race:needs": "The parameter 'size' of toy_race:needs must be a keyword parameter",
    "toy_race:taken": "The parameter 'title' of toy_race:taken cannot be a flag",
    "toy_race:many": "needs one environment, but Vectorize is a batch of",
    "toy_race:resets": "builds a world in AutoReset, which scripts add themselves: leave",
    "toy_race:Wide": r"cannot be used: reward must have the shape \(2,\), but has \(1, 2\)",
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said_in_one_sentence(name):
    with pytest.raises(UsageError, match=BAD[name]) as error:
        parse("--env.name", name)
    assert "\n" not in str(error.value)


FAULTS = {
    "broken:Race": (ZeroDivisionError, "its module cannot be imported"),
    "toy_race:hinted": (NameError, "The type hints of toy_race:hinted cannot be read"),
    "toy_race:fails": (KeyError, "--env.name toy_race:fails cannot be built"),
    "toy_race:Broken": (TypeError, "--env.name toy_race:Broken cannot be used"),
    "toy_race:Misused": (ValueError, "--env.name toy_race:Misused cannot be used"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_world_has_its_traceback(folder, name):
    kind, note = FAULTS[name]
    with pytest.raises(kind) as error:
        parse("--env.name", name)
    assert note in error.value.__notes__[-1]
    if name != "toy_race:hinted":  # the line is in an annotation, which Python evaluates
        assert any(Path(x.path).parent == folder for x in error.traceback)


def test_none_in_place_of_a_default_cannot_be_stored():
    own = world_settings("toy_race:limited", best=None)
    with pytest.raises(UsageError, match=r"--env\.best cannot be None, since a settings file"):
        own.check()


SETTINGS = '[env]\nname = "toy_race:Race"\n'


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--config", "settings.toml"), "which eqgrid imports only if you name it"),
        (("--out", ".", "--resume"), "add --env.name toy_race:Race"),
        (("--config", "settings.toml", "--env.name", "toy_rase:Race"), "no module 'toy_rase'"),
    ],
)
def test_files_alone_import_nothing(args, says, capsys):
    Path("settings.toml").write_text(SETTINGS)
    Path("config.toml").write_text(SETTINGS)
    check_refusal(call_and_hear(capsys, *args), says, codes=(2,))
    assert not Path("imported").exists()


HELD_OUT = """
[[partner]]
name = "random"
partner = "random"

[[partner]]
name = "trained"
partner = "set/Race/trained"
"""


@pytest.mark.slow
def test_it_trains_resumes_and_is_judged(capsys):
    assert call(*RACE, *SMALL, "--out", "a") == 0
    assert Path("a/episode.gif").read_bytes() == b"5 states, score 0"
    assert rows(Path("a"))[-1]["event_judging"] == "8.0", "of both agents"
    result = json.loads(Path("a/result.json").read_text())
    assert (result["world"], result["layout"]) == ("toy_race:Race", "Race")
    longer = (*RACE, "--out", "a", "--resume", "--total-steps", "96")
    before = Path("a/policy.safetensors").read_bytes()
    Path("toy_race.py").write_text(f"{MODULE}\n")
    says = "The world in 'FOLDER/toy_race.py' has changed since the run in 'a' was started"
    said = call_and_hear(capsys, *longer)
    check_refusal((said[0], said[1].replace(str(Path.cwd()), "FOLDER")), says, codes=(2,))
    assert Path("a/policy.safetensors").read_bytes() == before
    assert call(*longer, "--resume-changed") == 0
    assert [row["env_steps"] for row in rows(Path("a"))] == ["32", "64", "96"]
    assert call(*longer) == 0, "it continued with the new world"
    flags = ("--partners.share", "0.5", "--partners.pool", "a")
    Path("b").mkdir()
    assert call(*RACE, *SMALL, *flags, "--seed", "1", "--out", "b") == 0
    heard = call_and_hear(capsys, *SMALL, *flags, "--out", "c")
    check_refusal(heard, "names the world 'toy_race:Race', which eqgrid", codes=(1,))
    judge = functools.partial(hear, capsys)
    Path("imported").unlink()
    sys.modules.pop("toy_race")
    for command in (evaluate_command, crossplay_command, partners_command):
        says = "names the world 'toy_race:Race', which eqgrid imports only if you name it"
        check_refusal(judge(command, "a", "b"), says, codes=(1,))
        assert not Path("imported").exists()
    heard = judge(evaluate_command, "a", "--env.name", "goals")
    check_refusal(heard, "'goals' is not MODULE:NAME of your own world: leave it", codes=(2,))
    Path("set.toml").write_text(HELD_OUT)
    shutil.copytree("b", "set/Race/trained")
    assert judge(evaluate_command, "a", "b", *RACE, "--episodes", "4", "--out", "e")[0] == 0
    assert Path("e/episode.gif").read_bytes() == b"5 states, score 0"
    assert judge(crossplay_command, "a", "b", *RACE, "--episodes", "4", "--out", "x")[0] == 0
    args = ("a", *RACE, "--episodes", "4", "--partners", "set.toml", "--out", "p")
    assert judge(partners_command, *args)[0] == 0
    returns = json.loads(Path("p/partners.json").read_text())["returns"]
    assert set(returns) == {"random", "trained"}


@pytest.mark.slow
def test_a_grid_world_in_wrappers_has_a_video(capsys):
    write_policy(Path("p.safetensors"), "--env.name", "toy_race:forage")
    args = ["p.safetensors", "--env.name", "toy_race:forage", "--episodes", "2", "--out", "e"]
    assert hear(capsys, evaluate_command, *args)[0] == 0
    with Image.open("e/episode.gif") as video:
        assert video.n_frames == 11, "the inner limit ends an episode"
    result = json.loads(Path("e/evaluation.json").read_text())
    assert (result["layout"], result["results"][0]["length_max"]) == ("forage-field", 10)


@pytest.mark.slow
def test_another_reward_in_a_bundled_world_is_trained_and_resumed(capsys):
    paid = ("--env.name", "toy_race:paid")
    assert call(*paid, *SMALL, "--env.price", "3", "--out", "a") == 0
    assert call(*paid, "--out", "a", "--resume", "--total-steps", "96") == 0
    returns = [row["eval_return_mean"] for row in rows(Path("a"))]
    assert len(returns) > 2
    assert set(map(float, returns)) == {12}, "the price of four steps, before and after the resume"
    result = json.loads(Path("a/result.json").read_text())
    assert result["optimum"] is result["eval_fraction_of_optimum"] is None, "of another reward"
    args = ("a", *paid, "--episodes", "4", "--out", "e")
    assert hear(capsys, evaluate_command, *args)[0] == 0
    result = json.loads(Path("e/evaluation.json").read_text())
    assert result["results"][0]["return_mean"] == 12


@pytest.mark.slow
def test_many_seeds_train_in_it(capsys):
    assert call(*RACE, *SMALL, "--num-seeds", "2", "--out", "s") == 0
    assert Path("s/episode.gif").is_file()
    assert call(*RACE, "--out", "s", "--resume", "--total-steps", "96") == 0
    args = ("--env.name", "toy_race:Undrawn", *SMALL, "--out", "u")
    code, said = call_and_hear(capsys, *args)
    *traceback, warning = said.splitlines()
    assert (code, traceback[-1]) == (0, "KeyError: 'a pen'")
    assert "u/episode.gif' cannot be drawn: KeyError" in warning
    assert Path("u/curve.png").exists()
