"""The command that finds best responses, and the action probabilities of partners."""

import functools
import io
import json
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import unchecked
from learners import build
from rich.console import Console

from eqgrid_lab import Kitchen
from agents import GRU, PolicyPartner, StuckRule, trained_policy
from eqgrid import (
    ConstantPartner,
    NoisyPartner,
    OneOf,
    PartnerInput,
    RandomPartner,
    Vectorize,
    make,
    play,
)
from eqgrid.envs.overcooked import HandsOff, ScriptedCook, Tile
from eqgrid.grid import poses
from eqgrid_exact import Chances, ChanceTables, JointModel
from eqgrid_exact.commands import _best_response
from eqgrid_lab.base import UsageError
from eqgrid_lab.commands import PEOPLE, BestResponses, build_held_out, read_held_out
from eqgrid_lab.partners import Partners, Place, read_saved
from eqgrid_lab.show import progress

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kitchen():
    return make("overcooked", layout="cramped")


def policy_for(env, **network):
    envs = Vectorize(env, 1)
    return trained_policy(build(envs, jax.random.key(0), **network), envs)


@pytest.mark.parametrize("greedy", [False, True])
def test_probabilities_are_those_of_the_actions(kitchen, greedy):
    own = PolicyPartner(policy_for(kitchen), greedy=greedy)
    observation, state = kitchen.reset(jax.random.key(0))
    for partner in (own, NoisyPartner(own, 0.4, kitchen.action_space), ConstantPartner(3)):
        told = np.asarray(Chances(partner, kitchen, 1)(state))
        seen = PartnerInput(observation, state, jnp.asarray(1))
        keys = jax.random.split(jax.random.key(1), 20_000)

        def act(key, partner=partner, seen=seen):
            return partner(seen, partner.initial_carry(), key)[0]

        drawn = np.bincount(np.asarray(eqx.filter_jit(jax.vmap(act))(keys)), minlength=6) / len(
            keys
        )
        assert told.sum() == pytest.approx(1, abs=1e-6)
        assert np.abs(drawn - told).max() < 0.015
    even = Chances(RandomPartner(kitchen.action_space), kitchen, 0)(state)
    assert np.asarray(even) == pytest.approx(1 / 6)


def test_partners_whose_probabilities_are_not_known_are_refused(kitchen):
    remembers = PolicyPartner(policy_for(kitchen, network=functools.partial(GRU, width=8)))
    with pytest.raises(ValueError, match="has a memory"):
        Chances(NoisyPartner(remembers, 0.1, kitchen.action_space), kitchen, 0)
    stuck = StuckRule(PolicyPartner(policy_for(kitchen)), poses)
    for partner in (ScriptedCook("cramped"), OneOf([ConstantPartner(4)]), stuck):
        with pytest.raises(ValueError, match=f"{type(partner).__name__} are not known"):
            Chances(partner, kitchen, 0)
    several = make("overcooked_v2", layout="cramped_room")
    assert Chances(ConstantPartner(4), several, 0) is not None


def test_the_best_response_to_a_proxy_is_kept_and_found(tmp_path, monkeypatch, capsys):
    file = tmp_path / "people.toml"
    text = re.sub(r"\.\./people", str(PEOPLE.parent.parent / "people"), PEOPLE.read_text())
    file.write_text(text)
    flags = ["--partners", str(file), "--only", "proxy-0", "--horizon", "60", "--episodes", "400"]
    with unchecked():
        _best_response.run(["cramped", *flags, "--keep", "--out", str(tmp_path / "out")])
    result = json.loads((tmp_path / "out" / "best_responses.json").read_text())
    values = [found["value"] for found in result["responses"]]
    assert all(5 < value < 40 for value in values)
    for found in result["responses"]:
        mean = found["played"]["mean"]
        width = found["played"]["high"] - mean
        assert abs(found["value"] - mean) < 2.5 * width + 0.02
        assert not found["exact"]  # without the stuck rule
    assert (tmp_path / "out" / "proxy-0-seat-1.gif").read_bytes().startswith(b"GIF89a")
    place = Place.of(Kitchen(layout="cramped", horizon=60))
    built = build_held_out(read_held_out(file)[0], file, place, Partners())
    assert BestResponses(file, place).returns(built[0]) == values
    assert BestResponses(file, place).returns(built[1]) is None


def test_an_agent_is_compared_with_best_responses(tmp_path):
    """With a partner that acts at random, its return is also that of games."""
    flags = ["--partners", "people", "--only", "proxy-0", "--levels", "0", "1", "--seats", "0"]
    agent = PEOPLE.parent.parent / "policies" / "cramped.safetensors"
    flags += ["--agent", str(agent), "--horizon", "60", "--out", str(tmp_path)]
    with unchecked():
        _best_response.run(["cramped", *flags])
    found = json.loads((tmp_path / "best_responses.json").read_text())["responses"]
    assert {x["level"] for x in found} == {0.0, 1.0}
    shares = [x["return"] / x["best_response"] for x in found]
    assert shares == sorted(shares)
    assert all(0 < share <= 1 for share in shares)
    assert (tmp_path / "robustness.png").stat().st_size > 5000
    place = Place.of(Kitchen(layout="cramped", horizon=60))
    env = place.env
    counters = jnp.asarray(np.asarray(env.layout.tiles) == Tile.COUNTER)
    team = (read_saved(agent).partner(place), RandomPartner(env.action_space))
    careful = [HandsOff(partner, counters) for partner in team]
    with unchecked():
        game = eqx.filter_jit(jax.vmap(lambda key: play(env, careful, key).episode_return[0]))
        returns = np.asarray(game(jax.random.split(jax.random.key(0), 2000)))
    (expected,) = (x["return"] for x in found if x["level"] == 1)
    assert abs(returns.mean() - expected) < 5 * returns.std() / np.sqrt(len(returns))
    assert expected > 2


def test_whoever_observes_the_time_has_a_table_for_each_part(kitchen):
    policy = policy_for(kitchen)
    model = JointModel(kitchen, whole=True)
    chances = Chances(PolicyPartner(policy), kitchen, 1)
    console = Console(file=io.StringIO())
    kept = ChanceTables(model, chances, 400, functools.partial(progress, console))
    assert kept.parts == [0, 361]  # what agents see says that fewer than 40 steps are left


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ([], "Name partners"),
        (["--partners", "people", "--only", "nobody"], "no partner 'nobody'"),
        (["--partners", "people", "--counters", "x"], "--counters takes cells"),
        (["--partners", "people", "--counters", "all"], "more than --memory-gib 1"),
    ],
)
def test_bad_input_gets_a_sentence(flags, says, tmp_path):
    args = ["cramped", "--memory-gib", "1", *flags, "--out", str(tmp_path / "out")]
    with pytest.raises((UsageError, OSError), match=re.escape(says)):
        _best_response.run(args)
    assert not (tmp_path / "out").exists()
