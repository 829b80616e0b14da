"""Worlds, wrappers, partners, policies and train states equal their copies."""

import copy
import functools
import pickle

import cloudpickle
import equinox as eqx
import jax
import pytest

from agents import (
    CNN,
    PPO,
    GlobalState,
    JointObservation,
    PartnerTeam,
    PolicyPartner,
    PredictingGRU,
    StuckRule,
    init_train_state,
    load_policy,
    save_policy,
    trained_policy,
)
from eqgrid import (
    AppendAgentId,
    AppendTimeLeft,
    AutoReset,
    ConstantPartner,
    DelayedPartner,
    LinearSchedule,
    LogEpisodes,
    NoisyPartner,
    NormalizeObservation,
    NormalizeReward,
    OneOf,
    RandomPartner,
    Scheduled,
    ShapedReward,
    TimeLimit,
    Vectorize,
    WithPartner,
    make,
)
from eqgrid.envs.goals import GeneratedMazes
from eqgrid.envs.overcooked import GeneratedKitchens, ScriptedCook
from eqgrid.grid import Egocentric, Planes, WithState, poses

COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "cloudpickle": lambda x: cloudpickle.loads(cloudpickle.dumps(x)),
}
"""Each makes a copy, as `copy` does within a process and the others do for other processes."""

WORLDS = {
    f"{name}-{view}": functools.partial(make, name, observation=view)
    for name, views in {
        "overcooked": ("features", "planes", "features96"),
        "overcooked_v2": ("features", "planes"),
        "foraging": ("vector", "grid"),
        "rescue": ("planes", "features"),
        "minigrid": ("planes", "symbolic"),
        "goals": ("features", "planes"),
        "harvest": ("planes",),
        "cleanup": ("planes",),
    }.items()
    for view in views
} | {"warehouse": functools.partial(make, "warehouse")}


def check(tree):
    for name, make_copy in COPIES.items():
        copied = make_copy(tree)
        assert jax.tree.structure(copied) == jax.tree.structure(tree), name
        assert bool(eqx.tree_equal(copied, tree)), name


@pytest.mark.parametrize("name", WORLDS)
def test_worlds(name):
    check(WORLDS[name]())


@pytest.mark.parametrize("generator", [GeneratedKitchens, GeneratedMazes])
def test_generators_of_layouts(generator):
    check(generator())


def the_share(env):
    return env.env.share


def test_wrappers_and_their_states():
    world = make("overcooked", observation="features", horizon=20)
    one = AutoReset(LogEpisodes(AppendTimeLeft(AppendAgentId(TimeLimit(world, 20)), 20)))
    one = ShapedReward(one, LinearSchedule(1.0, 0.0, 10))
    envs = NormalizeReward(NormalizeObservation(Vectorize(one, 2)))
    check(envs)
    check(envs.reset(jax.random.key(0))[1])
    partner = RandomPartner(world.action_space)
    one = AutoReset(WithPartner(LogEpisodes(world), OneOf([partner])))
    check(Scheduled(one, the_share, LinearSchedule(0.0, 1.0, 100)))
    check(make("goals").with_observation(Egocentric(Planes(radius=2))))


def test_partners_of_every_kind():
    policy = load_policy("shipped:ring")
    world = make("overcooked", layout="ring", observation="features")
    own = PolicyPartner(policy, greedy=True, env=world)
    for partner in (
        own,
        StuckRule(PolicyPartner(policy), poses),
        ScriptedCook(world.layout),
        NoisyPartner(own, 0.1, world.action_space),
        DelayedPartner(ConstantPartner(4), 2, 4),
        OneOf([own, PolicyPartner(policy), RandomPartner(world.action_space)]),
    ):
        check(partner)
        check(PartnerTeam((own, partner)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "critic_input"),
    [(CNN, JointObservation()), (PredictingGRU, GlobalState())],
)
def test_policies_and_train_states(network, critic_input, tmp_path):
    world = make("overcooked", observation="planes")
    if isinstance(critic_input, GlobalState):  # the observation is then a Module
        world = world.with_observation(WithState(world.observation))
    envs = NormalizeReward(Vectorize(AutoReset(LogEpisodes(world)), 8))
    ppo = PPO(rollout_length=8, num_minibatches=2)
    key = jax.random.key(0)
    small = functools.partial(network, width=8)
    state = init_train_state(ppo, envs, key, network=small, critic_input=critic_input)
    check(state)
    check(ppo)
    policy = trained_policy(state.policy, envs)
    check(policy)
    for name, make_copy in COPIES.items():
        save_policy(tmp_path / name, make_copy(policy))
        assert (tmp_path / name).read_bytes() == (tmp_path / "deepcopy").read_bytes()
        assert eqx.tree_equal(load_policy(tmp_path / name), policy)


def test_a_copy_needs_no_other_program():
    """A world that was copied, as for a pool of workers, is not compiled again."""
    env = make("overcooked_v2")
    action = jax.numpy.zeros(env.num_agents, int)
    _, state = env.reset(jax.random.key(0))
    traced = []

    @eqx.filter_jit
    def step(env, state):
        traced.append(env)
        return env.step(jax.random.key(1), state, action)

    for make_copy in COPIES.values():
        step(make_copy(env), make_copy(state))
    assert len(traced) == 1
