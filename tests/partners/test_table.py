"""Partners by their names, and policies with their worlds."""

import re
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from saved_policies import write_policy

from eqgrid_lab import PARTNERS, Kitchen, Partners, Place, world_settings
from agents import (
    CheckpointError,
    PartnerTeam,
    PolicyPartner,
    PolicyWorld,
    StuckRule,
    evaluate,
    load_policy,
    read_policy,
    record_episodes,
    save_policy,
    save_trajectories,
)
from agents.files import _checkpoint
from eqgrid import (
    AbstractWrapper,
    AppendAgentId,
    AutoReset,
    ConstantPartner,
    DelayedPartner,
    LogEpisodes,
    NoisyPartner,
    RandomPartner,
    RecordedPartner,
    Vectorize,
    make,
)
from eqgrid.envs.overcooked import ScriptedCook
from eqgrid_lab.base import UsageError
from eqgrid_lab.partners import changes_of, expanded, in_folder, is_policy

RING = Kitchen(layout="ring", horizon=20)
KINDS = {
    "agent": PolicyPartner,
    "clone": StuckRule,
    "plan": PolicyPartner,
    "greedy": ScriptedCook,
    "onion": ScriptedCook,
    "dish": ScriptedCook,
    "random": RandomPartner,
    "stay": ConstantPartner,
}


@pytest.fixture(scope="module")
def ring():
    return Place.of(RING)


@pytest.mark.parametrize("name", KINDS)
def test_each_name_is_a_partner_that_plays(name, ring):
    built = Partners().build(name, ring)
    assert isinstance(built.partner, KINDS[name])
    assert built.words == PARTNERS[name].words
    envs = Vectorize(AutoReset(LogEpisodes(ring.env)), 2)
    team = PartnerTeam([built.partner, RandomPartner(ring.env.action_space)])
    assert evaluate(team, envs, jax.random.key(0)).episode_length.tolist() == [20, 20]


def test_the_menu_has_all_partners_without_arguments_that_fit(ring):
    assert [x.name for x in Partners().menu(ring)] == list(KINDS)
    others = Partners().menu(Place.of(world_settings("goals")))
    assert [x.name for x in others] == ["random", "stay"]
    started = Partners().menu(Place.of(Kitchen(layout="ring", dynamics="interactive")))
    assert [x.name for x in started] == ["greedy", "onion", "dish", "random", "stay"]


def test_changes_apply_from_left_to_right(ring):
    partner = Partners().build("greedy+noise=0.2+delay=3", ring).partner
    assert isinstance(partner, DelayedPartner)
    assert partner.steps == 3
    assert isinstance(partner.partner, NoisyPartner)
    assert float(partner.partner.level) == pytest.approx(0.2)
    assert changes_of("runs/a+b+noise=0.5") == "+noise=0.5"
    assert changes_of("runs/a+b") == ""


def test_names_stand_for_all_seeds_of_a_run_and_all_models(tmp_path):
    for seed in (3, 12):
        write_policy(tmp_path / "run" / f"policy-{seed}.safetensors", seed=seed)
    names = expanded(("greedy", f"{tmp_path}/run+noise=0.1", "proxies"), "ring")
    assert names[:3] == [
        "greedy",
        f"{tmp_path}/run/policy-3.safetensors+noise=0.1",
        f"{tmp_path}/run/policy-12.safetensors+noise=0.1",
    ]
    assert [Path(x).name for x in names[3:]] == [f"proxy-{i}.safetensors" for i in range(5)]
    assert in_folder("a.safetensors+delay=1", Path("b")) == "b/a.safetensors+delay=1"
    assert in_folder("greedy", Path("b")) == "greedy"
    assert not any(map(is_policy, ("greedy+noise=1", "recording:x.npz", "waiter:waiter")))


def test_a_recorded_episode_is_played_again(ring, tmp_path):
    envs = Vectorize(AutoReset(LogEpisodes(ring.env)), 1)
    team = PartnerTeam([RandomPartner(ring.env.action_space)] * 2)
    episodes = record_episodes(team, envs, jax.random.key(0), max_steps=20)
    save_trajectories(tmp_path / "games.npz", episodes)
    partner = Partners().build(f"recording:{tmp_path}/games.npz", ring).partner
    assert isinstance(partner, RecordedPartner)
    again = record_episodes(PartnerTeam([partner] * 2), envs, jax.random.key(1), max_steps=20)
    np.testing.assert_array_equal(again.action, episodes.action)


def test_a_partner_of_the_user_is_a_function_of_the_world(ring, tmp_path, monkeypatch):
    (tmp_path / "waiter.py").write_text(
        "from eqgrid import ConstantPartner\n\ndef waiter(world):\n    return ConstantPartner(4)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert isinstance(Partners().build("waiter:waiter", ring).partner, ConstantPartner)
    for name in ("waiter:waiter", "program:echo"):
        with pytest.raises(UsageError, match="must be named on the command line"):
            Partners(imports=False).build(name, ring)


@pytest.mark.parametrize(
    ("name", "world", "says"),
    [
        ("greedy", "goals", "'greedy' cannot play here: It is for one kitchen of"),
        ("agent", "goals", "eqgrid has none for this layout"),
        ("nobody", "overcooked", "There is no checkpoint 'nobody'"),
        ("shipped:ring", "goals", "it was trained in overcooked, but this game in goals"),
        ("recording:x.npz", "overcooked", "x.npz"),
        ("greedy+noise=2", "overcooked", "cannot play here"),
    ],
)
def test_what_cannot_play_is_one_sentence(name, world, says):
    with pytest.raises((UsageError, CheckpointError), match=re.escape(says)) as error:
        Partners().build(name, Place.of(world_settings(world)))
    assert "\n" not in str(error.value)


def test_a_file_is_opened_once(ring, monkeypatch):
    opened, read = [], _checkpoint.read_regular_file
    monkeypatch.setattr(
        _checkpoint, "read_regular_file", lambda path: opened.append(path) or read(path)
    )
    partners = Partners()
    for greedy in (False, True):
        partners.build("shipped:ring+noise=0.5", ring, greedy=greedy)
    assert partners.read("shipped:ring").env.layout == "ring"
    assert len(opened) == 1


class Doubled(AbstractWrapper):
    """Multiplies observations."""

    env: object
    factor: float = 2.0

    def reset(self, key):
        observation, state = self.env.reset(key)
        return self.factor * observation, state

    def step(self, key, state, action):
        timestep, state = self.env.step(key, state, action)
        return eqx.tree_at(
            lambda x: (x.observation, x.final_observation),
            timestep,
            (self.factor * timestep.observation, self.factor * timestep.final_observation),
        ), state

    def observe(self, state):
        return self.factor * self.env.observe(state)


def test_a_file_rebuilds_the_world_with_its_wrappers(tmp_path, key):
    world = make("goals", horizon=9)
    place = Place.of(world_settings("goals", horizon=9), lambda x: Doubled(AppendAgentId(x), 3.0))
    assert place.wrappers == [{"eqgrid.AppendAgentId": {}}, {"Doubled": {"factor": 3.0}}]
    write_policy(tmp_path / "a", "--env.name", "goals", "--env.horizon", "9", "--agent-id")
    save_policy(tmp_path / "b", load_policy(tmp_path / "a"), world=place.policy_world)
    with pytest.raises(CheckpointError, match="it has a 'Doubled', which eqgrid does not know"):
        read_policy(tmp_path / "b").env()
    env = read_policy(tmp_path / "b", parts={"Doubled": Doubled}).env()
    observation, _ = env.reset(key)
    expected, _ = AppendAgentId(world).reset(key)
    np.testing.assert_allclose(observation, 3.0 * expected)
    file = read_policy(tmp_path / "a")
    assert file.world == PolicyWorld("goals", file.world.arguments, [{"eqgrid.AppendAgentId": {}}])
    file.policy.check(file.env())


def test_the_page_reads_a_policy_with_numpy_alone():
    page = Path(__file__).parents[2] / "docs" / "policies.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = (x for x in blocks if "safe_open" in x)
    found: dict = {}
    exec(block, found)
    policy = load_policy("shipped:ring")
    seen = np.random.default_rng(0).normal(size=policy.observation.shape).astype(np.float32)
    outputs, _ = policy.outputs(jnp.asarray(seen), None)
    np.testing.assert_allclose(found["logits"](seen), outputs, rtol=1e-4, atol=1e-5)
