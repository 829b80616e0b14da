"""`eqgrid evaluate`, as a person uses it: its numbers, its seats, its files, and how it says no."""

import dataclasses
import errno
import json
import os
import re
import time
import tomllib
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_lines import call as train, calling, check_refusal, exit_code, parse
from PIL import Image
from safetensors.numpy import load_file
from saved_policies import write_policy

from eqgrid_lab import models_of_people
from agents import (
    OutOfMemory,
    PolicyWorld,
    load_policy,
    load_trajectories,
    read_metadata,
    read_policy,
    save_policy,
)
from eqgrid import make, unwrap_state
from eqgrid.envs.overcooked.layouts import _layouts
from eqgrid.grid import _layout
from eqgrid_lab.base import RunError
from eqgrid_lab.commands import (
    Game,
    PolicyFlags,
    _evaluation,
    evaluate_command,
    judging_env,
    lineups,
    write_episodes,
)
from eqgrid_lab.partners import read_saved, run_mark
from eqgrid_lab.worlds import _choose, written_out

GOALS = ("--env.name", "goals", "--env.shared", "--env.horizon", "12")


call = calling(evaluate_command)


def scores(folder):
    return json.loads((folder / "evaluation.json").read_text())


def place(path, episodes):
    """The environments that the command plays in."""
    return judging_env(read_saved(path).place(), episodes, ("events",))


@pytest.mark.slow
def test_two_policies_that_observe_differently_play_in_both_seats(tmp_path, call):
    flags = {
        "a": GOALS,
        "b": (*GOALS, "--env.observation", "planes", "--env.normalize-observation"),
    }
    write_policy(tmp_path / "a", *flags["a"], seed=3, shared=False)
    write_policy(tmp_path / "b", *flags["b"], seed=13)
    options = ("--episodes", 20, "--out", "out", "--trajectories", "games.npz")
    code, said = call("a", "b", *options)
    assert code == 0, said
    assert "arrival" in said
    results = scores(tmp_path / "out")["results"]
    lineups = [(seats, how) for seats in (["a", "b"], ["b", "a"]) for how in ("drawn", "greedy")]
    assert [(r["seats"], r["actions"]) for r in results] == lineups
    worlds = {name: parse(*own).env.build(train=False) for name, own in flags.items()}
    for result in (results[1], results[3]):
        teams = [(load_policy(tmp_path / name), worlds[name]) for name in result["seats"]]
        returns, arrivals, lengths = by_hand(teams, place(tmp_path / "a", 20), 0)
        np.testing.assert_allclose(result["return_of_agents"], returns, rtol=1e-6)
        np.testing.assert_allclose(result["events"]["arrival"], arrivals, rtol=1e-6)
        assert result["length_mean"] == pytest.approx(lengths)
    assert results[1]["return_of_agents"] != results[3]["return_of_agents"]
    check_episodes(load_trajectories(tmp_path / "games.npz", make("goals")), results)
    assert (tmp_path / "out" / "episode-2.gif").exists()


def check_episodes(episodes, results):
    """All that were played are in the file, in the order of the results."""
    ends = np.cumsum(episodes.length)[:-1]
    returns = [x.sum(axis=0) for x in np.split(np.asarray(episodes.reward), ends)]
    means = np.reshape(returns, (len(results), -1, 2)).mean(axis=1)
    np.testing.assert_allclose(means, [r["return_of_agents"] for r in results], rtol=1e-6)
    lengths = np.reshape(episodes.length, (len(results), -1)).mean(axis=1)
    np.testing.assert_allclose(lengths, [r["length_mean"] for r in results])


def test_episodes_that_do_not_fit_into_memory_are_one_line(tmp_path, monkeypatch):
    def play():
        raise OutOfMemory(2 * 10**9, 10**9)
        yield

    with pytest.raises(RunError, match=r"needs 2.0 GB .*: lower --episodes, or leave out"):
        write_episodes(tmp_path / "x.npz", play())


def by_hand(team, env, seed):
    """Every agent asks its own policy, one episode and one step after another, and observes the
    world as that policy learned to.
    """
    _, states = env.reset(jax.random.split(jax.random.key(seed))[1])
    one, step = env.env.env, eqx.filter_jit(env.env.env.step)  # without AutoReset
    arrival = read_names(one).index("arrival")

    @eqx.filter_jit
    def act(policy, world, state, carry):
        return policy.act(world.observe(unwrap_state(state)), carry, None, greedy=True)

    sums = []
    for episode in range(env.num_envs):
        state = jax.tree.map(lambda x, i=episode: x[i], states)
        carries = [policy.initial_carry() for policy, _ in team]
        returns, events, length, done = np.zeros(2), np.zeros(2), 0, False
        while not done:
            actions = []
            for seat, (policy, world) in enumerate(team):
                action, carries[seat] = act(policy, world, state, carries[seat])
                actions.append(action[seat])
            timestep, state = step(jax.random.key(0), state, jnp.stack(actions))
            returns, length = returns + timestep.reward, length + 1
            events = events + np.asarray(timestep.info["events"])[:, arrival]
            done = bool(timestep.done)
        sums.append((returns, events, length))
    return [np.mean([x[i] for x in sums], axis=0) for i in range(3)]


def read_names(env):
    while not hasattr(env, "event_names"):
        env = env.env
    return env.event_names


def test_agents_with_parameters_of_their_own_change_places(tmp_path):
    def teams(*names):
        return lineups(Game.open(PolicyFlags(names)))

    shared, own = str(tmp_path / "a"), str(tmp_path / "b")
    write_policy(tmp_path / "a", *GOALS)
    write_policy(tmp_path / "b", *GOALS, shared=False)
    assert [team.seats for team in teams(shared)] == [("a", "a")]
    first, second = teams(own)
    assert first.seats == ("b (agent 0)", "b (agent 1)")
    assert second.seats == ("b (agent 1)", "b (agent 0)")
    policy = load_policy(own)
    observation = jnp.arange(2.0 * policy.observation.shape[1]).reshape(2, -1)
    logits = policy.outputs(observation, None)[0]
    swapped = second.team(False).partners[0].policy.outputs(observation[::-1], None)[0]
    np.testing.assert_allclose(swapped, logits[::-1], rtol=1e-4)
    assert [team.seats for team in teams(own, own)] == [
        ("b (1)", "b (2)"),
        ("b (2)", "b (1)"),
    ]


@pytest.mark.slow
def test_numbers_that_cannot_be_written_are_said(tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_policy(tmp_path / "a", *GOALS)
    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr("sys.argv", ["prog", "a", "--episodes", "2", "--no-video", "--out", "out"])
    monkeypatch.chdir(tmp_path)
    assert exit_code(_evaluation) == 1
    said = capsys.readouterr()
    assert re.search(r"drawn .* \d+\.\d+ ± ", said.out)
    assert said.err == "error: 'out/evaluation.json': No space left on device.\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_it_writes_numbers_and_a_video(tmp_path, call, monkeypatch):
    """A second evaluation in the same second has a folder of its own."""
    monkeypatch.setattr(time, "strftime", lambda _: "now")
    first, second = (tmp_path / "runs" / f"evaluation-room-now{x}" for x in ("", "-2"))
    write_policy(tmp_path / "a.safetensors", *GOALS)
    code, said = call("a.safetensors", "--episodes", 4, "--trajectories", "games.npz")
    assert code == 0, said
    assert "seat 1" in said
    result = scores(first)
    assert result["world"] == "goals"
    assert result["layout"] == "room"
    assert result["trained_steps"] == [7]
    assert result["policies"] == ["a.safetensors"]
    one = place(tmp_path / "a.safetensors", 1).env
    check_episodes(load_trajectories(tmp_path / "games.npz", one), result["results"])
    with Image.open(first / "episode.gif") as video:
        assert 1 <= video.n_frames <= 13
    assert call("a.safetensors", "--episodes", 4, "--no-video", "--seed", 3)[0] == 0
    assert [path.name for path in second.iterdir()] == ["evaluation.json"]
    assert [scores(folder)["seed"] for folder in (first, second)] == [0, 3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "layout", "algorithm"),
    [
        (("--critic", "state"), "forced", "mappo"),
        (("--env.layout", "generated", "--env.generated.pool", "4"), "cramped", "ippo"),
        (("--env.name", "warehouse"), None, "ippo"),
    ],
    ids=["without the state", "with a person, from drawn layouts", "with ids and moments"],
)
def test_it_plays_wherever_the_policy_fits(tmp_path, call, flags, layout, algorithm):
    write_policy(tmp_path / "a", *flags, "--env.horizon", "10", algorithm=algorithm)
    chosen = ("--layout", layout) if layout else ()
    person = [models_of_people("proxies", layout)[0]] if layout == "cramped" else []
    code, said = call("a", *person, *chosen, "--episodes", 2, "--out", "out")
    assert code == 0, said
    result = scores(tmp_path / "out")
    assert result["layout"] == (layout or "tiny-2ag-normal")
    assert result["results"][0]["length_mean"] == 10


def test_a_policy_takes_the_text_of_its_layout_along(tmp_path):
    text = "XXPXXX\nO  2 O\nX1   X\nXDXSXX\n"
    (tmp_path / "mine.layout").write_text(text)
    env = parse("--env.layout", str(tmp_path / "mine.layout")).env
    assert written_out(env) == dataclasses.replace(env, layout=text)
    grid = f"'grid': {text.strip()!r}"
    text = f"{{{grid},\n'start_all_orders': [{{'ingredients': ['onion']}}]}}\n"
    (tmp_path / "theirs.layout").write_text(text)
    theirs = dataclasses.replace(env, layout=str(tmp_path / "theirs.layout"))
    assert written_out(theirs) == dataclasses.replace(env, layout=text)
    named = parse().env
    assert written_out(named) is named


BAD = {
    "missing": (("nowhere",), "There is no checkpoint 'nowhere'"),
    "damaged": (("damaged",), "'damaged' is damaged"),
    "without a run": (("alone",), "does not name its world"),
    "three": (("goals", "goals", "goals"), "name one policy, which plays with itself, or 2"),
    "two worlds": (("goals", "kitchen"), "'goals' was trained in goals, but 'kitchen' in overcook"),
    "other numbers": (("planes", "--layout", "ring"), "The partner 'planes' cannot play here: "),
    "into a run": (("goals", "--out", "run"), "'run' exists and is not empty: choose another"),
    "other suffix": (("kitchen", "--trajectories", "x.csv"), "ends in .npz"),
    "not a folder": (("kitchen", "--trajectories", "no/x.npz"), "There is no folder 'no'"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Policies of all kinds, and what only looks like one."""
    folder = tmp_path_factory.mktemp("files")
    write_policy(folder / "goals", *GOALS)
    write_policy(folder / "kitchen")
    write_policy(folder / "planes", "--env.observation", "planes")
    save_policy(folder / "alone", load_policy(folder / "goals"))
    content = bytearray((folder / "goals").read_bytes())
    content[-1] ^= 1
    (folder / "damaged").write_bytes(content)
    (folder / "run").mkdir()
    (folder / "run" / "config.toml").write_text("")
    return folder


@pytest.mark.robustness
@pytest.mark.parametrize(("args", "says"), BAD.values(), ids=BAD)
def test_bad_usage_is_one_line(call, monkeypatch, files, args, says):
    monkeypatch.chdir(files)
    before = sorted(files.rglob("*"))
    check_refusal(call(*args), says)
    assert sorted(files.rglob("*")) == before, "nothing is written"


@pytest.mark.robustness
@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"world": {"name": "moon"}}, "has the unknown world 'moon'"),
        ({"world": {"name": "goals", "arguments": {"horizon": "long"}}}, "'horizon'"),
        ({"world": {"name": "goals", "wrappers": [{"Popen": {}}]}}, "'Popen', which eqgrid does"),
        ({"env_steps": "text"}, "its metadata: Expected `int`"),
    ],
    ids=str,
)
def test_strange_metadata_are_one_line(call, files, tmp_path, entries, says):
    file = read_policy(files / "goals")
    save_policy(tmp_path / "a", file.policy, {**file.metadata, **entries})
    heard = call("a")
    check_refusal(heard, says, codes=(1,))
    assert os.listdir(tmp_path) == ["a"], "nothing is written"


@pytest.mark.robustness
@pytest.mark.parametrize("world", ["overcooked", "goals"])
def test_a_file_that_a_policy_names_is_not_opened(call, tmp_path, monkeypatch, world):
    """Not even if there is a layout in it."""
    write_policy(tmp_path / "a", "--env.name", world)
    file, path = read_policy(tmp_path / "a"), str(tmp_path / "mine.layout")
    Path(path).write_text(str(make(world).layout))
    named = PolicyWorld(world, {**file.world.arguments, "layout": path})
    save_policy(tmp_path / "a", file.policy, file.metadata, world=named)
    opened = []
    for module in (_layout, _layouts, _choose):
        monkeypatch.setattr(module, "read_regular_text", opened.append)
    sentence = f"The policy 'a' was trained in the layout {path!r}, which is not a known name, "
    sentence += "and files named by a policy are not opened: choose a layout with --layout.\n"
    assert call("a") == (1, f"error: {sentence}")
    assert opened == []


@pytest.mark.slow
def test_a_run_leaves_a_policy_that_can_be_evaluated(tmp_path, call):
    flags = "--env.name goals --total-steps 512 --num-envs 4 --ppo.rollout-length 32 --env.horizon"
    flags += " 20 --eval-episodes 4 --eval-every 128 --out run"
    flags += " --env.normalize-observation"
    assert train(*flags.split()) == 0
    run = tmp_path / "run"
    result = json.loads((run / "result.json").read_text())
    which = "best" if result["best_return_mean"] >= result["eval_return_mean"] else "last"
    assert result["policy"] == which
    metadata = read_metadata(run / "policy.safetensors")
    assert metadata["checkpoint"] == which
    assert metadata["run"] == run_mark(tomllib.loads((run / "config.toml").read_text()))
    name = "best_return_mean" if which == "best" else "eval_return_mean"
    assert metadata["eval_return_mean"] == result[name]
    whole = load_file(run / "checkpoints" / "last.safetensors")
    names = {"best": "['best'].actor_critic", "last": "['state'].policy"}
    for leaf, array in load_file(run / "policy.safetensors").items():
        if leaf.startswith(".actor_critic"):
            kept = whole[leaf.replace(".actor_critic", names[which])]
            np.testing.assert_array_equal(array[None], kept)  # with an axis of seeds
    policy = load_policy(run)
    assert policy.normalization is not None
    (run / "policy.safetensors").unlink()  # as in a run that was killed
    assert which == "last" or eqx.tree_equal(load_policy(run), policy)
    code, said = call("run", "--episodes", 4, "--out", "out")
    assert code == 0, said
    assert scores(tmp_path / "out")["policies"] == [str(Path("run/checkpoints/best.safetensors"))]
