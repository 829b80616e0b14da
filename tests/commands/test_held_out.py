"""`eqgrid partners`, as a person uses it: its file of partners, its numbers, and how it says no."""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from command_lines import calling, check_refusal, parse
from run_files import table
from saved_policies import write_policy

from eqgrid_lab import models_of_people
from agents import (
    PolicyPartner,
    StuckRule,
    load_policy,
    read_metadata,
    read_policy,
    save_policy,
)
from agents.files import checksum
from eqgrid import NoisyPartner, RandomPartner, play
from eqgrid.envs.overcooked import KITCHENS
from eqgrid_lab.base import UsageError
from eqgrid_lab.commands import (
    HELD_OUT,
    PEOPLE,
    BestResponses,
    build_held_out,
    partners_command,
    read_held_out,
)
from eqgrid_lab.commands._heldout import HeldOut
from eqgrid_lab.commands._partners import summary
from eqgrid_lab.partners import Partners, is_policy
from eqgrid_lab.worlds import WORLDS, world_settings

pytestmark = pytest.mark.slow

GOALS = ("--env.name", "goals", "--env.shared", "--env.horizon", "12")
KITCHEN = ("--env.horizon", "12")
STAY = '[[partner]]\nname = "stay"\npartner = "stay"\n'


call = calling(partners_command)


def test_the_published_partners_can_be_read_and_built():
    partners, seed = read_held_out(HELD_OUT)
    assert seed == 0
    assert len({partner.name for partner in partners}) == len(partners) >= 12
    scripts = [partner for partner in partners if not is_policy(partner.partner)]
    built = build_held_out(scripts, HELD_OUT, parse().place(), Partners())
    noise = [float(x.partner.partition("=")[2] or 0) for x in scripts]
    assert [float(x.partner.level) for x in built] == pytest.approx(noise)


def test_scores_and_proximities(tmp_path, call):
    write_policy(tmp_path / "mine", *GOALS, seed=1)
    (tmp_path / "set.toml").write_text("seed = 3\n" + STAY.replace("stay", "random"))
    partners, seed = read_held_out(tmp_path / "set.toml")
    assert seed == 3
    place = parse(*GOALS).place()
    [built] = build_held_out(partners, tmp_path / "set.toml", place, Partners())
    BestResponses(tmp_path / "set.toml", place).keep(built, [1.0, 3.0], [])
    code, said = call("mine", "--partners", "set.toml", "--episodes", 4, "--out", "out")
    assert code == 0, said
    stored = json.loads((tmp_path / "set.best-responses.json").read_text())
    ((world, found),) = stored.items()
    assert world.startswith("goals {")
    entry = {"returns": [1.0, 3.0], "counters": []}
    assert found["random"] == {**entry, "partner": found["random"]["partner"]}
    result = json.loads((tmp_path / "out/partners.json").read_text())
    rows = table(tmp_path / "out/partners.csv")
    assert [(row["partner"], row["seat"]) for row in rows] == [("random", "0"), ("random", "1")]
    env = place.env
    mine = PolicyPartner(load_policy(tmp_path / "mine"))
    team = (mine, NoisyPartner(RandomPartner(env.action_space), 0.0, env.action_space))
    games = jax.vmap(lambda key: play(env, team, key).episode_return.mean())
    expected = games(jax.random.split(jax.random.key(3), 4)).mean()
    assert float(rows[0]["mean"]) == pytest.approx(float(expected))
    total = sum(float(row["mean"]) for row in rows)
    assert result["proximities"]["random"] == pytest.approx(total / 4)


def test_a_partner_may_observe_the_game_differently(tmp_path, call):
    write_policy(tmp_path / "mine", *GOALS)
    write_policy(tmp_path / "set/room/policy.safetensors", *GOALS, "--env.observation", "planes")
    (tmp_path / "set.toml").write_text('[[partner]]\nname = "p"\npartner = "set/{layout}"\n')
    code, said = call("mine", "--partners", "set.toml", "--episodes", 8, "--out", "out")
    assert code == 0, said
    returns = json.loads((tmp_path / "out/partners.json").read_text())["returns"]
    assert returns["p"] > 0


def test_partners_in_another_layout_than_that_of_training(tmp_path, call):
    """The same network acts the same, whether it was trained in generated kitchens, and plays in
    a kitchen that is padded to the size of their grid, or was trained in that kitchen.
    """
    write_policy(tmp_path / "anywhere", "--env.layout", "generated", *KITCHEN)
    write_policy(tmp_path / "ring", "--env.layout", "ring", *KITCHEN)
    (tmp_path / "set.toml").write_text(FRIEND + STAY.replace("stay", "greedy"))
    write_policy(tmp_path / "friend", "--env.layout", "ring", *KITCHEN, seed=1)
    flags = ("--layout", "ring", "--episodes", 2, "--partners", "set.toml")
    found = {}
    for name in ("anywhere", "ring"):
        code, said = call(name, *flags, "--out", f"out-{name}")
        assert code == 0, said
        found[name] = json.loads((tmp_path / f"out-{name}/partners.json").read_text())
        assert found[name]["layout"] == "ring"
    assert found["anywhere"]["returns"] == found["ring"]["returns"], "the same untrained network"
    check_refusal(call("ring", "--layout", "nowhere"), "nowhere")


FRIEND = '[[partner]]\nname = "friend"\npartner = "friend"\n'


def acquainted(folder, *flags, **known):
    """A policy `mine`, and `friend`, with whom it was trained, as their files say."""
    write_policy(folder / "friend", *flags, seed=1)
    write_policy(folder / "mine", *flags)
    known = known or {"sha256": checksum(folder / "friend")}
    metadata = read_metadata(folder / "mine") | {
        "partners": [{"name": "some/other", "sha256": "0"}, {"name": "a", "sha256": "1"} | known]
    }
    mine = read_policy(folder / "mine")
    save_policy(folder / "mine", mine.policy, metadata, world=mine.world)
    (folder / "set.toml").write_text(FRIEND)


@pytest.mark.parametrize("known_by", ["file", "run", "being this partner"])
def test_partners_of_training_do_not_judge(tmp_path, call, known_by):
    write_policy(tmp_path / "earlier", *KITCHEN, seed=1)  # of the same run as `friend`
    known = {"run": read_metadata(tmp_path / "earlier")["run"]} if known_by == "run" else {}
    acquainted(tmp_path, *KITCHEN, **known)
    if known_by == "being this partner":
        write_policy(tmp_path / "friend", *KITCHEN)
        write_policy(tmp_path / "mine", *KITCHEN)
    check_refusal(
        call("mine", "--partners", "set.toml"),
        "'mine' was trained with the held-out partner 'friend', or is this partner, "
        "so its result would be too high: choose other --partners, or add --allow-trained-with.",
    )
    assert not (tmp_path / "runs").exists()


def test_partners_of_training_may_be_allowed(tmp_path, call):
    acquainted(tmp_path, *GOALS)
    args = ("--partners", "set.toml", "--episodes", 2)
    code, said = call("mine", *args, "--allow-trained-with", "--out", "allowed")
    assert code == 0, said
    result = json.loads((tmp_path / "allowed/partners.json").read_text())
    assert result["trained_with"] == {"mine": ["friend"]}
    write_policy(tmp_path / "friend", *GOALS, seed=2)  # somebody else
    code, said = call("mine", *args, "--out", "strangers")
    assert code == 0, said
    result = json.loads((tmp_path / "strangers/partners.json").read_text())
    assert result["trained_with"] == {}


def test_proxies_of_people_are_held_out_in_every_kitchen():
    partners, _ = read_held_out(PEOPLE)
    for kitchen in KITCHENS:
        found = [Path(partner.found(PEOPLE, kitchen)).resolve() for partner in partners]
        assert found == [path.resolve() for path in models_of_people("proxies", kitchen)]
    built = build_held_out(partners, PEOPLE, parse("--env.layout", "ring").place(), Partners())
    assert {type(x.partner.partner) for x in built} == {StuckRule}


@pytest.mark.parametrize("name", WORLDS)
def test_every_world_can_be_judged(name):
    world = world_settings(name)
    assert world.as_judged() == world


def test_a_share_needs_a_best_response_that_earns_something(tmp_path):
    def read(*flags):
        return BestResponses(tmp_path / "set.toml", parse(*flags).place())

    best, returns = read(), np.asarray([[20.0, 10.0], [0.0, 0.0], [6.0, 6.0]])
    entries = [HeldOut(name, f"stay+noise=0.{i}") for i, name in enumerate("abcd")]
    *partners, other = build_held_out(entries, HELD_OUT, parse().place(), Partners())
    best.keep(partners[0], [10.0, 30.0], ["1,2"])
    best.keep(partners[1], [0.0, 0.0], [])
    said = summary(partners, returns, read())
    assert said["proximities"] == {"a": 0.75, "b": None, "c": None}
    assert said["regrets"] == {"a": 5.0, "b": 0.0, "c": None}
    assert said["exact"] == ["a", "b"]
    best.keep(partners[2], [8.0, 10.0], ["1,2"])
    said = summary(partners, returns, read())
    assert said["regrets"] == {"a": 5.0, "b": 0.0, "c": 3.0}
    assert said["exact"] == ["a", "b", "c"]
    assert said["returns"] == {"a": 15.0, "b": 0.0, "c": 6.0}
    assert said["proximities"]["c"] == pytest.approx(2 / 3)
    assert said["return_iqm"] == pytest.approx(7.0)
    assert read().returns(dataclasses.replace(other, name="a")) is None, "somebody else"
    assert read("--env.horizon", "401").returns(partners[0]) is None
    trained_elsewhere = read("--env.random-starts", "0", "--env.practice", "ring")
    assert trained_elsewhere.returns(partners[0]) == [10.0, 30.0], "the game is the same"


def test_best_responses_to_the_scripts_in_cramped_come_with_eqgrid():
    held_out, _ = read_held_out(HELD_OUT)
    place = parse("--env.layout", "cramped").place()
    partners = build_held_out(held_out, HELD_OUT, place, Partners())
    best = BestResponses(HELD_OUT, place)
    known = {x.name: best.returns(x) for x in partners if x.saved is None}
    assert len(known) == 9
    for name, returns in known.items():
        assert returns is not None, name
        assert not best.is_exact(next(x for x in partners if x.name == name))
        assert 0 < sum(returns) <= 2 * 280, name


def test_a_best_response_to_a_policy_is_forgotten_with_the_policy(tmp_path):
    place, file = parse(*KITCHEN).place(), tmp_path / "set.toml"

    def build(name):
        return build_held_out([HeldOut("a", name)], file, place, Partners())[0]

    write_policy(tmp_path / "one", *KITCHEN)
    write_policy(tmp_path / "other", *KITCHEN, seed=1)
    best = BestResponses(file, place)
    best.keep(build("one"), [1.0, 2.0], [])
    assert (best.returns(build("one")), best.returns(build("other"))) == ([1.0, 2.0], None)
    write_policy(tmp_path / "one", *KITCHEN, seed=2)
    assert best.returns(build("one")) is None


def test_exact_best_responses_to_proxies_of_people_come_with_eqgrid():
    partners, _ = read_held_out(PEOPLE)
    for kitchen in KITCHENS:
        place = parse("--env.layout", kitchen).place()
        best = BestResponses(PEOPLE, place)
        built = build_held_out(partners, PEOPLE, place, Partners())
        known = [x for x in built if best.is_exact(x)]
        assert len(known) == 5
        assert all(50 < value < 400 for x in known for value in best.returns(x))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("seed = 1", "needs a `name` and a `partner`"),
        (STAY + STAY, "two partners 'stay'"),
        (STAY + "speed = 2", "unknown key 'speed'"),
        ('[[partner]]\nname = "a"', "needs a `name` and a `partner`"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path, text, sentence):
    (tmp_path / "set.toml").write_text(text)
    with pytest.raises(UsageError, match=sentence):
        read_held_out(tmp_path / "set.toml")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("mine", "--partners", "set.toml"), "There is no checkpoint"),
        (("walker",), "eqgrid has no held-out partners for the world goals: name a file of"),
        (("walker", "--partners", "set.toml"), "It is for one kitchen of the world overcooked"),
        (("mine", "--partners", "others.toml"), "need the same rules"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(tmp_path, call, args, sentence):
    goals = ("--env.name", "goals")
    worlds = {"mine": KITCHEN, "walker": goals}
    for name in set(args) & set(worlds):
        write_policy(tmp_path / name, *worlds[name])
    policy = '[[partner]]\nname = "p"\npartner = "other"\n'
    (tmp_path / "set.toml").write_text(STAY.replace("stay", "greedy") + policy)
    (tmp_path / "others.toml").write_text(policy)
    if "others.toml" in args:
        write_policy(tmp_path / "other", "--env.dynamics", "interactive")
    check_refusal(call(*args), sentence, codes=(2,))
    assert not (tmp_path / "runs").exists()
