"""The policy files that come with the project earn what the page about them says."""

import re
from pathlib import Path

import equinox as eqx
import pytest

from eqgrid_lab import world_settings
from agents import CheckpointError, evaluate, find_policy, load_policy, read_policy
from agents.files import shipped_policies
from eqgrid import AutoReset, LogEpisodes, Vectorize, make
from eqgrid.envs.overcooked import KITCHENS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
WHAT = r"(?:I|MA)PPO|\[an optimal plan\]\([^)]*\)"
ROWS = re.findall(rf"^\| `([\w-]+)\.safetensors` \| (?:{WHAT}) \| \d+ \| (\d+) \|$", PAGE, re.M)


def test_every_file_has_a_row():
    files = {path.stem for path in (ROOT / "experiments" / "policies").glob("*.safetensors")}
    assert files == {name for name, _ in ROWS} | {"biped"} > {*KITCHENS}
    assert {*shipped_policies()} == files


@pytest.mark.parametrize("name", [name for name, _ in ROWS])
def test_it_acts_in_the_world_that_it_names(name):
    file = read_policy(f"shipped:{name}")
    assert file.world.arguments["layout"] == name.removeprefix("plan-")
    file.policy.check(file.env())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "earns"), [(name, float(earns)) for name, earns in ROWS])
def test_a_policy_earns_what_the_page_says(name, earns, key):
    policy = load_policy(ROOT / "experiments" / "policies" / f"{name}.safetensors")
    observation = "timed_features" if name.startswith("plan-") else "features"
    kitchen = make("overcooked", layout=name.removeprefix("plan-"), observation=observation)
    env = policy.wrap(Vectorize(AutoReset(LogEpisodes(kitchen)), 16))
    played = eqx.filter_jit(evaluate)(policy.actor_critic, env, key)
    assert abs(float(played.episode_return.mean()) - earns) < 4


@pytest.mark.slow
def test_the_biped_reaches_its_goal(key):
    earns = re.search(r"^\| `biped\.safetensors` \| PPO, .*\| 0 \| (\d+) \|$", PAGE, re.M)
    assert earns
    policy = load_policy("shipped:biped")
    world = world_settings("body", model="biped", task="reach").build(train=False)
    env = policy.wrap(Vectorize(AutoReset(LogEpisodes(world)), 64))
    played = eqx.filter_jit(evaluate)(policy.actor_critic, env, key)
    assert abs(float(played.episode_return.mean()) - float(earns[1])) < 20


def test_bundled_policies_are_loaded_by_name():
    assert find_policy("shipped:cramped") == shipped_policies()["cramped"]
    with pytest.raises(CheckpointError, match=r"'crampd'.*cramped"):
        load_policy("shipped:crampd")
