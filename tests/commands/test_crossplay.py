"""`eqgrid crossplay`, as a person uses it: its matrix, its intervals, its files, its errors."""

import json
import shutil

import jax
import numpy as np
import pytest
from command_lines import calling, check_refusal, parse
from PIL import Image
from run_files import table
from saved_policies import write_policy

from agents import PartnerTeam, PolicyPartner, evaluate, find_policy, load_policy
from eqgrid import ConstantPartner, RandomPartner, make
from eqgrid_lab.commands import _crossplay, crossplay_command, play_all, short_names
from eqgrid_lab.commands._crossplay import summary
from eqgrid_lab.show import bootstrap_crossplay, interval_of_mean

GOALS = ("--env.name", "goals", "--env.shared", "--env.horizon", "12")


call = calling(crossplay_command)


@pytest.mark.slow
def test_the_matrix_is_that_of_the_pairs(tmp_path, call):
    for seed in (10, 9):
        write_policy(tmp_path / f"runs/policy-{seed}.safetensors", *GOALS, seed=seed)
    write_policy(tmp_path / "other", *GOALS, seed=3)
    code, said = call("runs", "other", "--episodes", 6, "--greedy", "--out", "out")
    assert code == 0, said
    names = ["runs/policy-9", "runs/policy-10", "other"]
    files = [f"{name}.safetensors" for name in names[:2]] + ["other"]
    result = json.loads((tmp_path / "out/crossplay.json").read_text())
    assert result["policies"] == files
    rows = table(tmp_path / "out/crossplay.csv")
    assert [(row["first"], row["second"]) for row in rows] == [(a, b) for a in names for b in names]
    means = np.asarray([float(row["mean"]) for row in rows]).reshape(3, 3)
    np.testing.assert_allclose(means, result["matrix"])
    assert result["self_play"] == pytest.approx(np.diag(means).mean())
    assert result["gap"] == pytest.approx(result["self_play"] - result["cross_play"])
    with Image.open(tmp_path / "out/matrix.png") as picture:
        assert picture.size[0] > 300
    policies = [load_policy(tmp_path / file) for file in files]
    config = parse(*GOALS)
    many = config.eval_env(config.env.build(train=False), 400)
    for i, j in ((0, 1), (1, 0)):
        team = PartnerTeam([PolicyPartner(policies[k], greedy=True) for k in (i, j)])
        expected = np.asarray(evaluate(team, many, jax.random.key(5)).episode_return)
        low, high = interval_of_mean(expected.mean(axis=-1))
        error = 2 * (high - low) + 4 * float(rows[3 * i + j]["std"]) / np.sqrt(6) + 1e-6
        assert abs(means[i, j] - expected.mean()) < error


def test_a_policy_that_is_named_twice_is_a_mistake(tmp_path, call):
    write_policy(tmp_path / "run/policy.safetensors", *GOALS)
    says = "The partner 'run/policy.safetensors' is named twice: name each one once."
    check_refusal(call("run", "run/policy.safetensors"), says)


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["/a/runs/x", "/b/policies/cramped"], ["x", "cramped"]),
        (["shipped:ring", "shipped:plan-ring"], ["shipped:ring", "shipped:plan-ring"]),
        (["a/x", "b/x", "a/y"], ["a/x", "b/x", "y"]),
        (["x", "a/x"], ["x", "a/x"]),
        (["/p/a/seed-0", "/p/b/seed-0", "/q/b/seed-0"], ["a/seed-0", "p/b/seed-0", "q/b/seed-0"]),
        (["a/x", "a/x"], ["x (1)", "x (2)"]),
    ],
)
def test_labels_are_the_shortest_endings_that_differ(names, labels):
    assert short_names(names) == labels


def test_bundled_policies_are_named_and_have_short_labels(call, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(_crossplay, "draw_matrix", lambda _, names, *__: drawn.extend(names))
    monkeypatch.setattr(_crossplay, "play_all", lambda *_: np.full((2, 2, 2), 0.9637))
    policies = [find_policy("shipped:cramped"), "shipped:plan-cramped"]
    code, said = call(*policies, "--episodes", 2, "--out", "out", "--layout", "cramped")
    assert code == 0, said
    assert drawn == [str(policies[0]).removesuffix(".safetensors"), policies[1]]
    header = said.splitlines()
    assert any(line.split()[-2:] == ["cramped", "shipped:plan-cramped"] for line in header)
    assert said.count("0.964") == 6, "two digits would be 1.0"
    says = "error: There is no bundled policy 'plan'"
    check_refusal(call("shipped:cramped", "shipped:plan", "--out", "other"), says)


@pytest.mark.slow
def test_policies_that_observe_differently_play_as_among_themselves(tmp_path, call):
    """The random numbers of an episode are the same, whoever plays in the other teams."""
    for name, flags in {"a": (), "b": (), "planes": ("--env.observation", "planes")}.items():
        write_policy(tmp_path / name, *GOALS, *flags, seed=ord(name[0]))
    matrices = {}
    for names in ("a b", "planes a b"):
        code, said = call(*names.split(), "--episodes", 40, "--out", f"out {names}")
        assert code == 0, said
        found = json.loads((tmp_path / f"out {names}" / "crossplay.json").read_text())
        matrices[names] = np.asarray(found["matrix"])
    np.testing.assert_allclose(matrices["planes a b"][1:, 1:], matrices["a b"], rtol=1e-6)
    assert (matrices["a b"] > 0).all()
    shutil.copyfile(tmp_path / "planes", tmp_path / "copy")
    code, _ = call("planes", "copy", "--episodes", 40, "--out", "alone")
    assert code == 0
    alone = json.loads((tmp_path / "alone" / "crossplay.json").read_text())["matrix"]
    assert matrices["planes a b"][0, 0] == pytest.approx(alone[0][0])


@pytest.mark.slow
def test_partners_of_several_structures_have_their_rows(key):
    env = make("goals", horizon=5, num_agents=2)
    partners = [
        RandomPartner(env.action_space),
        ConstantPartner(4),
        RandomPartner(env.action_space),
    ]
    returns = np.stack([*play_all(env, partners, jax.random.split(key, 3))])
    assert returns.shape == (3, 3, 3)
    np.testing.assert_array_equal(returns[0], returns[2])
    np.testing.assert_array_equal(returns[:, 0], returns[:, 2])


def test_intervals_of_crossplay_are_those_of_a_loop():
    matrix = np.random.default_rng(1).random((5, 5)) + 2 * np.eye(5)
    rng, means = np.random.default_rng(0), []
    for rows in rng.integers(5, size=(2000, 5)):
        pairs = [matrix[i, j] for i in rows for j in rows if i != j]
        if pairs:
            own = np.mean([matrix[i, i] for i in rows])
            means.append((own, np.mean(pairs), own - np.mean(pairs)))
    expected = np.percentile(means, [2.5, 97.5], axis=0).T
    found = bootstrap_crossplay(matrix)
    for name, ends in zip(("self_play", "cross_play", "gap"), expected, strict=True):
        np.testing.assert_allclose(found[name], ends)
    said = summary(matrix)
    assert said["gap_interval"][0] < said["gap"] < said["gap_interval"][1]
    few = summary(matrix[:4, :4])
    assert (few["gap_interval"], few["gap"]) == (None, pytest.approx(2.0, abs=0.5))


def test_intervals_hold_the_mean_as_often_as_they_say():
    scores = np.random.default_rng(0).normal(3.0, 2.0, (4000, 6))
    low, high = interval_of_mean(scores)
    assert abs(((low < 3) & (high > 3)).mean() - 0.95) < 0.015


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("a",), "at least two policies"),
        (("a", "cooks"), "was trained in goals, but 'cooks' in overcooked"),
        (("cooks", "started"), "the rules 'classic', but 'started' with 'interactive'"),
        (("cooks", "ring"), "choose with --layout"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(tmp_path, call, args, sentence):
    written = {
        "a": GOALS,
        "b": GOALS,
        "cooks": (),
        "started": ("--env.dynamics", "interactive"),
        "ring": ("--env.layout", "ring"),
    }
    for name in set(args) & set(written):
        write_policy(tmp_path / name, *written[name])
    check_refusal(call(*args), sentence)
    assert not (tmp_path / "runs").exists()
