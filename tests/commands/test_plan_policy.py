"""Policies that act as optimal plans: what they learn, their files, and what is refused."""

import functools
import itertools
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_lines import check_refusal, exit_code
from policies import plan_policy

from eqgrid_lab import Kitchen
from agents import MLP, read_metadata
from eqgrid import ConstantPartner, play
from eqgrid.envs.overcooked import Overcooked
from eqgrid_lab.plans import Distillation, compare_with_plan, plan_actions, play_from, repeat
from eqgrid_lab.runs import read_policy
from eqgrid_lab.settings import default_settings, shipped_script

pytestmark = [pytest.mark.slow]
HORIZON = 60


def test_games_are_those_of_the_environment(key):
    env = Overcooked("cramped", horizon=HORIZON, observation="timed_features")
    size = env.reset(key)[0].shape[-1]
    network = MLP((size,), 6, width=64, activation="relu", key=key)
    starts = repeat(env.reset(key)[1], 3)
    played = play_from(env, network, starts, jnp.array([0.0, 0.5, 1.0]), key, 20, True)
    for game in range(3):
        own = jax.tree.map(lambda x, game=game: x[game], played.worlds)
        worlds = [jax.tree.map(lambda x, t=t: x[t], own) for t in range(20)]
        for time, (before, after) in enumerate(itertools.pairwise(worlds)):
            assert int(before.time) == time
            np.testing.assert_allclose(played.observations[game, time], env.observe(before))
            if game == 0:
                seen = env.observe(before)
                best = jnp.stack([network(x, None)[0].argmax() for x in seen])
                timestep, expected = env.step(key, before, best.astype(jnp.int32))
                assert jax.tree.all(jax.tree.map(np.array_equal, expected, after))
                assert float(timestep.reward[0]) == float(played.rewards[game, time])


def run(monkeypatch, *args):
    monkeypatch.setattr(sys, "argv", ["plan_policy.py", *map(str, args)])
    return exit_code(plan_policy)


def test_a_round_has_games_at_each_level_of_noise():
    with pytest.raises(ValueError, match="games must be a multiple of 4, but it is 30"):
        Distillation(games=30)


def test_it_learns_what_is_possible_and_its_file_is_a_policy_like_any_other(monkeypatch, tmp_path):
    compared = []

    def compare_and_keep(env, table, network, key):
        found = compare_with_plan(env, table, network, key, games=32, states=100)
        compared.append((table, *found))
        return found

    quick = functools.partial(Distillation, games=32, examples=2**17)
    monkeypatch.setattr(plan_policy, "Distillation", quick)
    monkeypatch.setattr(plan_policy, "compare_with_plan", compare_and_keep)
    flags = ["--horizon", HORIZON, "--width", 64, "--rounds", 14, "--out", tmp_path / "plan"]
    assert run(monkeypatch, "cramped", *flags) == 0
    numbers = json.loads((tmp_path / "plan" / "plan_policy.json").read_text())
    assert (numbers["layout"], numbers["joint_states"]) == ("cramped", 36_800)
    ((table, found, best),) = compared
    assert numbers["greedy"] == numbers["value"] == table.value == best.rewards.sum() > 0
    assert numbers["sampled"]["mean"] > 0.9 * table.value
    assert numbers["share_off_the_plan"] > 0.8
    assert (found.returns <= found.possible + 1e-3).all()
    _, values = plan_actions(table, jax.tree.map(lambda x: x[:, :1], best.worlds))
    assert values.tolist() == [[table.value]]
    assert (tmp_path / "plan" / "episode.gif").stat().st_size > 1000
    path = tmp_path / "plan" / "policy.safetensors"
    assert read_metadata(path)["plan"]["value"] == numbers["value"]
    saved = read_policy(path, None)
    settings = default_settings(shipped_script("ippo"), Kitchen(layout="cramped"))
    shown = settings.observe(settings.env.build(train=False))
    partner = saved.config.partner(saved.policy, settings, shown)
    game = play(shown, (partner, ConstantPartner(4)), jax.random.key(0), max_steps=5)
    assert int(game.episode_length) == 5
    observation, _ = saved.config.env.build(train=False).reset(jax.random.key(0))
    assert not np.any(saved.policy.values(observation, None)[0])


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["nowhere"], "nowhere"),
        (["ring", "--memory-gib", "0.001"], "GiB of memory: raise --memory-gib"),
        (["cramped,ring"], "name one layout"),
        (["cramped", "--counters", "0,0"], "There is no counter in row 0, column 0"),
    ],
)
def test_what_cannot_be_taught_is_refused(monkeypatch, tmp_path, capsys, flags, says):
    code = run(monkeypatch, *flags, "--out", tmp_path / "plan")
    check_refusal((code, capsys.readouterr().err), says, codes=(2,))
    assert not (tmp_path / "plan" / "policy.safetensors").exists()
