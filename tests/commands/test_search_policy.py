"""Searches for better games: what is found is the best, what is taught, and what is refused."""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_lines import check_refusal, exit_code
from plans_by_hand import tiny
from policies import search_policy
from saved_policies import write_policy

from agents import actor_critic, read_metadata, trained_policy
from eqgrid import AutoReset, Vectorize
from eqgrid.envs.overcooked.plans import JointModel, reachable_counters, solve
from eqgrid_lab.plans import Search, play_teacher, repeat
from eqgrid_lab.runs import read_policy

pytestmark = [pytest.mark.slow]
POLICIES = Path(search_policy.__file__).parents[1] / "heldout/policies"
MEMORY = POLICIES / "cramped/ippo-memory.safetensors"
CLONE = POLICIES.parents[1] / "people/cramped/clone-0.safetensors"


def search_in(env, key, discount):
    envs = Vectorize(AutoReset(env), 1)
    policy = trained_policy(actor_critic(envs, key), envs)
    return Search(env, policy, discount), env.reset(key)[1]


@pytest.mark.parametrize(("dynamics", "seed"), [("classic", 5), ("interactive", 14)])
def test_the_best_way_is_that_of_all_plans(key, dynamics, seed):
    env = tiny(dynamics, seed)
    search, start = search_in(env, key, 0.9)
    model = JointModel(env, reachable_counters(env.layout))
    search.search(repeat(start, 1), 4096, 6)
    assert search.best_return(start, 3) == solve(model, 3) > 0
    assert search.best_return(start, 6) == solve(model, 6)
    assert search.best_return(start, 20) <= solve(model, 20)


def test_the_actions_earn_what_a_state_is_worth(key):
    env = tiny("classic", 5)
    search, start = search_in(env, key, 0.9)

    def earned():
        games = play_teacher(env, search.best_actions, repeat(start, 1))
        return sum(0.9**time * reward.item() for time, (*_, reward) in enumerate(games))

    def worth():
        return search.values(repeat(start, 1)).item()

    with pytest.raises(KeyError):
        worth()
    policy = earned()
    search.search(repeat(start, 1), 1, 1)
    assert worth() >= policy - 1e-3
    search.search(repeat(start, 1), 64, 30)
    assert worth() > policy
    np.testing.assert_allclose(earned(), worth(), atol=0.05)
    before = worth()
    search.explore(start, 16, 10, seed=0)
    assert worth() >= before
    np.testing.assert_allclose(earned(), worth(), atol=0.05)


@pytest.mark.parametrize("kitchen", ["cramped", "circuit"])
def test_at_first_states_are_worth_what_the_policy_earns(key, kitchen):
    """In the circuit, the policy comes to no state again before 163 steps. A better action is found
    for the first state alone, whose actions are tried.
    """
    saved = read_policy(POLICIES.parents[1] / f"policies/{kitchen}.safetensors", None)
    env, policy, steps = saved.config.env.build(train=False), saved.policy, 2400
    start = env.reset(key)[1]

    @jax.jit
    def play(world):
        def step(world, _):
            action, _ = policy.act(env.observe(world), None, None, greedy=True)
            timestep, after = env.step(key, world, action)
            return after, (world, timestep.reward.mean())

        return jax.lax.scan(step, world, None, length=steps)[1]

    worlds, rewards = play(start)
    rewards = np.asarray(rewards, np.float64)
    discounts = 0.99 ** np.arange(steps)
    expected = [discounts[: steps - time] @ rewards[time:] for time in range(7, 400, 7)]
    search = Search(env, policy)
    search.search(repeat(start, 1), 1, 1)
    np.testing.assert_allclose(
        search.values(jax.tree.map(lambda x: x[7:400:7], worlds)), expected, atol=0.01
    )
    assert search.best_return(start, 400) >= rewards[:400].sum() > 0


def run(monkeypatch, *args):
    monkeypatch.setattr(sys, "argv", ["search_policy.py", *map(str, args)])
    return exit_code(search_policy)


@pytest.mark.parametrize("cooks", [1, 3])
def test_the_file_is_a_policy_like_any_other(monkeypatch, tmp_path, cooks):
    policy, out = tmp_path / "policy.safetensors", tmp_path / "out"
    too_many = str.maketrans("123"[cooks:], " " * (3 - cooks))
    layout = "XXPXXX\nO1 2 O\nX  3 X\nXDXSXX".translate(too_many)
    kitchen = ["--env.layout", layout, "--env.horizon", "30", "--env.normalize-observation"]
    write_policy(policy, *kitchen)
    flags = ["--beam", 8, "--depth", 12, "--width", 8, "--rounds", 1, "--out", out]
    assert run(monkeypatch, policy, *flags) == 0
    numbers = json.loads((out / "search_policy.json").read_text())
    assert numbers["best_of_known_ways"] >= numbers["search"] >= numbers["policy"] == 0
    assert numbers["states"] > numbers["states_with_all_actions"] > 8
    assert (out / "episode.gif").stat().st_size > 1000
    path = out / "policy.safetensors"
    assert read_metadata(path)["search"]["states"] == numbers["states"]
    saved = read_policy(path, None)
    world = saved.config.env.build(train=False)
    observation, _ = world.reset(jax.random.key(0))
    assert int(world.horizon) == 30
    assert saved.policy.act(observation, None, None, greedy=True)[0].shape == (cooks,)
    assert not jnp.any(saved.policy.values(observation, None)[0])


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ((), "Name the folder of a run, or a policy file"),
        ((MEMORY,), "has a memory"),
        ((CLONE,), "remembers where it is stuck"),
        (["--env.observation", "timed_features"], "observes the time in its timed_features"),
        (["--env.observation", "planes"], "observes the time in its planes"),
        (["--agent-id"], "observes more than the kitchen shows"),
        (["--env.layout", "cramped,ring"], "name one layout"),
        (["--env.name", "foraging"], "is for kitchens"),
    ],
)
def test_what_cannot_be_searched_is_refused(monkeypatch, tmp_path, capsys, policy, says):
    if isinstance(policy, list):
        policy = [write_policy(tmp_path / "policy.safetensors", *policy)]
    code = run(monkeypatch, *policy, "--out", tmp_path / "out")
    check_refusal((code, capsys.readouterr().err), says, codes=(2,))
    assert not (tmp_path / "out").exists()
