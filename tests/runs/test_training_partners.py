"""The settings of partners on the command line, and the worlds that they make."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_lines import call, call_and_hear, check_refusal, parse
from saved_policies import write_policy
from scripts import load_script, shipped_script

from eqgrid_lab import Kitchen
from agents import (
    PolicyPartner,
    StuckRule,
    load_policy,
    read_metadata,
    read_policy,
)
from agents.files import checksum, shipped
from eqgrid import PartnerInput, Scheduled, WithPartner, iter_wrappers
from eqgrid.grid import poses
from eqgrid_lab.base import UsageError
from eqgrid_lab.partners import expanded
from eqgrid_lab.settings import default_settings, load

pytestmark = pytest.mark.slow

SMALL = ["--total-steps", "128", "--num-envs", "4", "--ppo.rollout-length", "8", "--env.horizon", 8]
SMALL += ["--eval-every", "64", "--eval-episodes", "2", "--width", "4"]
SMALL += ["--ppo.num-epochs", "1", "--ppo.num-minibatches", "2"]
SMALL += ["--env.random-starts", "0"]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("partners") / "run"
    assert call(*SMALL, "--total-steps", "64", "--num-seeds", 2, "--out", folder) == 0
    return folder


def partners_in(config):
    env = config.train_env()
    return [x for x in iter_wrappers(env.env) if isinstance(x, WithPartner)]


def test_all_seeds_of_a_run_take_part(run_folder):
    flags = ["--partners.share", "0.5", "--partners.noise", "0", "0.2", "--partners.pool"]
    config = parse(*map(str, SMALL), *flags, str(run_folder))
    found = config.partners.found()
    assert [Path(x).name for x in found.pool] == ["policy-0.safetensors", "policy-1.safetensors"]
    assert found.found() == found
    (wrapper,) = partners_in(config)
    assert wrapper.partners is not None
    assert wrapper.partners.num_partners == 2
    np.testing.assert_allclose([wrapper.share, *wrapper.noise], [0.5, 0.0, 0.2], rtol=1e-6)
    one = dataclasses.replace(config.partners, pool=(found.pool[1],))
    assert one.found() == one


def test_a_partner_of_any_kind_takes_part():
    flags = ["--partners.share", "1", "--partners.pool", "greedy+noise=0.2", "random", "agent"]
    (wrapper,) = partners_in(parse(*flags))
    assert wrapper.partners.num_partners == 3


def test_nobody_takes_part_by_default():
    assert partners_in(default_settings(shipped_script("ippo"), Kitchen())) == []


def test_the_share_changes_over_the_steps_of_all_environments():
    flags = ["--partners.share", "1", "--partners.noise", "0", "0.5", "--num-envs", "8"]
    flags += ["--partners.share-steps", "800"]
    for algorithm in ("ippo", "mappo", "body"):
        config = parse(*flags, algorithm=algorithm)
        env = dataclasses.replace(config, env=Kitchen()).train_env()
        (wrapper,) = (x for x in iter_wrappers(env.env) if isinstance(x, Scheduled))
        assert wrapper.where(wrapper.env) == 1
        shares = [float(wrapper.schedule(jnp.asarray(step))) for step in (0, 50, 100, 200)]
        np.testing.assert_allclose(shares, [0, 0.5, 1, 1])


def test_a_script_that_forgets_to_anneal_is_told(tmp_path, capsys):
    text = shipped("ippo.py").read_text(encoding="utf-8")
    line = "        env = self.anneal_partners(env)\n"
    assert line in text
    (tmp_path / "mine.py").write_text(text.replace(line, ""))
    flags = ["--partners.share", "1", "--partners.noise", "0", "0.5", "--out", tmp_path / "run"]
    own = load_script(tmp_path / "mine.py")
    heard = call_and_hear(capsys, *SMALL, *flags, "--partners.share-steps", "9", algorithm=own)
    check_refusal(heard, "share-steps has no effect in this script", codes=(2,))
    assert call(*SMALL, *flags, algorithm=own) == 0


def test_it_trains_with_them_and_goes_on(run_folder, tmp_path):
    flags = ["--partners.share", "0.9", "--partners.pool", run_folder]
    assert call(*SMALL, *flags, "--out", tmp_path / "a") == 0
    assert call("--out", tmp_path / "a", "--resume", "--total-steps", "256") == 0
    config = load(tmp_path / "a" / "config.toml", shipped_script("ippo"))
    assert config.partners.pool == config.partners.found().pool, "files, not a folder"
    assert len(config.partners.pool) > 1
    known = read_metadata(tmp_path / "a" / "policy.safetensors")["partners"]
    digests = [checksum(path) for path in config.partners.pool]
    assert [x["sha256"] for x in known] == digests
    assert {x["name"].split("/")[0] for x in known} == {"run"}


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--partners.share", "0.5"], "--partners.share has no effect alone"),
        (
            ["--partners.noise", "0.5", "0.2"],
            "--partners.noise 0.5 0.2 is no range",
        ),
        (["--partners.share", "1", "--partners.pool", "none"], "There is no checkpoint"),
    ],
)
def test_what_cannot_be_is_one_sentence(flags, sentence, capsys):
    check_refusal(call_and_hear(capsys, *SMALL, *flags), sentence)


@pytest.mark.parametrize(
    "flags",
    [("--env.observation", "planes"), ("--env.observation", "features96", "--agent-id")],
)
def test_partners_observe_the_world_as_they_learned_to(tmp_path, flags, key):
    write_policy(tmp_path / "other", *flags)
    run = ["--partners.share", "1", "--partners.pool", str(tmp_path / "other")]
    (wrapper,) = partners_in(parse(*run, "--env.random-starts", "1"))
    own = parse(*flags)
    theirs = own.observe(own.env.build(train=False))
    alone = PolicyPartner(load_policy(tmp_path / "other"))
    carry = wrapper.partners.initial_carry()

    @jax.jit
    def actions(key):
        observation, state = wrapper.env.reset(key)
        did, _ = wrapper.partners(PartnerInput(observation, state, jnp.asarray(1)), carry, key)
        return did, alone(PartnerInput(theirs.observe(state), None, jnp.asarray(1)), None, key)[0]

    did, expected = jax.vmap(actions)(jax.random.split(key, 50))
    np.testing.assert_array_equal(did, expected)
    assert len(set(did.tolist())) > 1


@pytest.mark.parametrize(
    ("flags", "layout", "sentence"),
    [
        (
            ["--env.observation", "planes"],
            "ring",
            "cannot play here: The policy reads",
        ),
    ],
)
def test_partners_that_cannot_observe_this_world_are_refused(tmp_path, flags, layout, sentence):
    write_policy(tmp_path / "other", *flags)
    run = ["--partners.share", "1", "--partners.pool", str(tmp_path / "other")]
    config = parse(*run, "--env.layout", layout)
    with pytest.raises(UsageError, match=sentence):
        config.train_env()


def test_a_clone_leaves_where_it_is_stuck():
    clone = str(shipped("people/cramped/clone-0.safetensors"))
    run = ["--partners.share", "1", "--partners.pool", clone]
    config = parse(*run)
    (wrapper,) = partners_in(config)
    (partner,) = wrapper.partners.stacks
    assert isinstance(partner, StuckRule)
    assert (partner.steps, partner.poses) == (3, poses)


@pytest.mark.parametrize(("name", "split"), [("clones", "train"), ("proxies", "test")])
def test_models_of_people_have_names(name, split):
    flags = ["--env.layout", "ring", "--partners.share", "1", "--partners.pool", name]
    config = parse(*flags)
    files = [read_policy(x) for x in expanded(config.partners.pool, "ring")]
    about = [(x.world.arguments["layout"], x.metadata) for x in files]
    assert [(layout, x["model_of_people"]["split"], x["seed"]) for layout, x in about] == [
        ("ring", split, seed) for seed in range(5)
    ]
    (wrapper,) = partners_in(config)
    assert wrapper.partners.num_partners == len(files)
    assert config.partners.found().pool == (name,)
    other = parse(*flags, "--env.layout", "cramped,ring")
    with pytest.raises(UsageError, match=f"no human {name} for the layout 'cramped,ring': ch"):
        other.train_env()


def test_partners_that_learned_another_game_are_refused(tmp_path):
    write_policy(tmp_path / "started", "--env.dynamics", "interactive")
    flags = ["--partners.share", "1", "--partners.pool", str(tmp_path / "started")]
    with pytest.raises(UsageError, match="the rules 'interactive', but this game with 'classic'"):
        parse(*flags).train_env()
    with pytest.raises(UsageError, match="was trained in overcooked, but this game in goals"):
        parse(*flags, "--env.name", "goals").train_env()


def test_the_key_of_a_partner_is_not_that_of_the_world(run_folder):
    """Two environments in one batch have different partners sooner or later."""
    flags = ["--partners.share", "1", "--partners.pool", str(run_folder)]
    config = parse(*map(str, SMALL), *flags, "--num-envs", "32")
    _, state = config.train_env().reset(jax.random.key(0))
    while not hasattr(state, "seat"):
        state = state.env_state
    assert set(np.asarray(state.seat)) == {0, 1}
    assert len(set(np.asarray(state.number))) > 1
