"""The settings of partners on the command line, and the worlds that they make."""

import dataclasses
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_lines import call, call_and_hear, check_refusal, parse
from saved_policies import write_policy

from eqgrid_lab import Kitchen
from agents import PolicyPartner, StuckRule, checksum, find_policy, load_policy, read_metadata
from agents.files import shipped
from eqgrid import PartnerInput, Scheduled, WithPartner, iter_wrappers
from eqgrid.grid import poses
from eqgrid_lab.base import UsageError
from eqgrid_lab.runs import _policies, read_policy
from eqgrid_lab.settings import default_settings, load, load_script, shipped_script

pytestmark = pytest.mark.slow

SMALL = ["--total-steps", "128", "--num-envs", "4", "--ppo.rollout-length", "8", "--env.horizon", 8]
SMALL += ["--eval-every", "64", "--eval-episodes", "2", "--width", "4"]
SMALL += ["--ppo.num-epochs", "1", "--ppo.num-minibatches", "2"]
SMALL += ["--env.random-starts", "0"]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("partners") / "run"
    assert call(*SMALL, "--total-steps", "64", "--out", folder) == 0
    checkpoints = folder / "checkpoints"
    shutil.copy(checkpoints / "last.safetensors", checkpoints / "older.safetensors")
    assert call("--out", folder, "--resume", "--total-steps", "128") == 0
    return folder


def check_partners(config):
    for path in config.partners.files(config.env.title):
        _policies.check_trained_here(path, config)


def partners_in(config):
    env = config.train_env()
    return [x for x in iter_wrappers(env.env) if isinstance(x, WithPartner)]


def test_all_checkpoints_of_a_run_take_part(run_folder):
    flags = ["--partners.share", "0.5", "--partners.noise", "0", "0.2", "--partners.policies"]
    config = parse(*map(str, SMALL), *flags, str(run_folder))
    files = sorted(x.name for x in (run_folder / "checkpoints").glob("*.safetensors"))
    assert len(files) > 2
    found = [Path(x) for x in config.partners.found().policies]
    assert {x.name for x in found} <= set(files)
    steps = [read_metadata(run_folder / "checkpoints" / x)["env_steps"] for x in files]
    assert sorted(read_metadata(x)["env_steps"] for x in found) == sorted(set(steps))
    assert config.partners.found().found() == config.partners.found()
    (wrapper,) = partners_in(config)
    assert wrapper.partners is not None
    assert wrapper.partners.num_partners == len(found) > 1
    np.testing.assert_allclose([wrapper.share, *wrapper.noise], [0.5, 0.0, 0.2], rtol=1e-6)
    one = dataclasses.replace(config.partners, policies=(str(find_policy(run_folder)),))
    assert len(one.found().policies) == 1


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
    flags = ["--partners.share", "0.9", "--partners.policies", run_folder]
    assert call(*SMALL, *flags, "--out", tmp_path / "a") == 0
    assert call("--out", tmp_path / "a", "--resume", "--total-steps", "256") == 0
    config = load(tmp_path / "a" / "config.toml", shipped_script("ippo"))
    assert config.partners.policies == config.partners.found().policies, "files, not a folder"
    assert len(config.partners.policies) > 1
    known = read_metadata(tmp_path / "a" / "policy.safetensors")["partners"]
    digests = [checksum(path) for path in config.partners.policies]
    assert [x["sha256"] for x in known] == digests
    assert {x["name"].split("/")[0] for x in known} == {"checkpoints"}


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--partners.share", "0.5"], "--partners.share has no effect alone"),
        (
            ["--partners.noise", "0.5", "0.2"],
            "--partners.noise 0.5 0.2 is no range",
        ),
        (["--partners.share", "1", "--partners.policies", "none"], "There is no checkpoint"),
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
    run = ["--partners.share", "1", "--partners.policies", str(tmp_path / "other")]
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
        (["--env.observation", "planes"], "ring", "does not fit: The policy reads observations"),
    ],
)
def test_partners_that_cannot_observe_this_world_are_refused(tmp_path, flags, layout, sentence):
    write_policy(tmp_path / "other", *flags)
    run = ["--partners.share", "1", "--partners.policies", str(tmp_path / "other")]
    config = parse(*run, "--env.layout", layout)
    with pytest.raises(UsageError, match=sentence):
        config.train_env()


def test_a_clone_leaves_where_it_is_stuck_and_stays_in_its_kitchen():
    clone = str(shipped("people/cramped/clone-0.safetensors"))
    run = ["--partners.share", "1", "--partners.policies", clone]
    config = parse(*run)
    check_partners(config)
    (wrapper,) = partners_in(config)
    (partner,) = wrapper.partners.stacks
    assert isinstance(partner, StuckRule)
    assert (partner.steps, partner.poses) == (3, poses)
    saved = read_policy(Path(clone), None)
    plain = dataclasses.replace(saved.config, stuck_steps=0)
    saved = dataclasses.replace(saved, config=plain)
    assert isinstance(saved.partner(config, config.env.build(train=False)), PolicyPartner)
    elsewhere = parse(*run, "--env.layout", "ring")
    with pytest.raises(UsageError, match="was trained in 'cramped', and supports no other layout"):
        elsewhere.train_env()


@pytest.mark.parametrize(("name", "split"), [("clones", "train"), ("proxies", "test")])
def test_models_of_people_have_names(name, split, tmp_path, monkeypatch):
    flags = ["--env.layout", "ring", "--partners.share", "1", "--partners.policies", name]
    config = parse(*flags)
    files = config.partners.files("ring")
    runs = [read_metadata(path)["run"] for path in files]
    assert [(x["env"]["layout"], x["split"], x["seed"]) for x in runs] == [
        ("ring", split, seed) for seed in range(5)
    ]
    check_partners(config)
    (wrapper,) = partners_in(config)
    assert wrapper.partners.num_partners == len(files)
    assert config.partners.found().policies == (name,)
    other = parse(*flags, "--env.layout", "cramped,ring")
    with pytest.raises(UsageError, match=f"no human {name} for the layout 'cramped,ring': ch"):
        check_partners(other)
    monkeypatch.chdir(tmp_path)
    write_policy(tmp_path / name)
    assert config.partners.found().policies == (str(tmp_path / name),), "a file of one's own"


def test_partners_that_learned_another_game_are_refused(tmp_path):
    write_policy(tmp_path / "started", "--env.dynamics", "interactive")
    flags = ["--partners.share", "1", "--partners.policies", str(tmp_path / "started")]
    with pytest.raises(UsageError, match="the rules 'interactive', but this run with 'classic'"):
        check_partners(parse(*flags))
    with pytest.raises(UsageError, match="was trained in overcooked, but this run in goals"):
        check_partners(parse(*flags, "--env.name", "goals"))


def test_the_key_of_a_partner_is_not_that_of_the_world(run_folder):
    """Two environments in one batch have different partners sooner or later."""
    flags = ["--partners.share", "1", "--partners.policies", str(run_folder)]
    config = parse(*map(str, SMALL), *flags, "--num-envs", "32")
    _, state = config.train_env().reset(jax.random.key(0))
    while not hasattr(state, "seat"):
        state = state.env_state
    assert set(np.asarray(state.seat)) == {0, 1}
    assert len(set(np.asarray(state.number))) > 1
