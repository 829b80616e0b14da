"""Policies that travel: a loaded one acts as the trained one, and what does not fit is refused."""

import functools
import json
import math
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import final, get_args

import distrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from kitchen_checks import unchecked
from learners import GRU, Clock, build, clocks, loud_mlp
from race import Race
from saved_policies import forge

import agents
from agents import (
    CNN,
    MLP,
    PPO,
    AbstractActionHead,
    AbstractCriticInput,
    AbstractNetwork,
    Activation,
    Block,
    CheckpointError,
    Dense,
    GlobalState,
    JointObservation,
    evaluate,
    find_policies,
    find_policy,
    init_train_state,
    load_policy,
    read_metadata,
    restore,
    save,
    save_policy,
    train,
    trained_policy,
)
from agents.files import _checkpoint
from eqgrid import (
    AbstractSpace,
    AbstractVectorEnv,
    AbstractVectorWrapper,
    AutoReset,
    LogEpisodes,
    NormalizeObservation,
    NormalizeReward,
    Vectorize,
    make,
)
from eqgrid.grid import WithState

ENVS = 4
SMALL = PPO(rollout_length=8, num_epochs=1, num_minibatches=2)


def foraging(num_envs=ENVS, *, state=False, **options):
    world = make("foraging", size=5, num_food=1, horizon=10, **options)
    world = world.with_observation(WithState(world.observation)) if state else world
    return Vectorize(AutoReset(LogEpisodes(world)), num_envs)


def policy_of(env, key, **choices):
    """A policy that nobody trained, with the moments of a first observation."""
    _, env_state = reset(env, key)
    return trained_policy(build(env, key, **choices), env, env_state)


@eqx.filter_jit
def reset(env, key):
    return env.reset(key)


def some_mlp(*args, **options):
    choices = {"activation": "gelu", "precision": "bfloat16"}
    return MLP(*args, width=8, depth=3, **choices, **options)


def some_gru(*args, **options):
    return agents.GRU(*args, width=6, encoder=some_cnn, **options)


def predicting(*args, **options):
    return agents.PredictingGRU(*args, width=6, encoder=some_cnn, **options)


def some_cnn(*args, **options):
    return CNN(*args, features=3, depth=2, **{"width": 5, **options})


def straight(*args, **options):
    return MLP(*args, depth=0, **options)


@functools.cache
def plain():
    """A policy with the default parts, for the tests that change nothing in it."""
    return policy_of(clocks(1), jax.random.key(0))


POLICIES = {
    "defaults": lambda key: policy_of(foraging(), key),
    "mlp": lambda key: policy_of(foraging(), key, network=some_mlp),
    "no hidden layer": lambda key: policy_of(foraging(), key, network=straight),
    "cnn": lambda key: policy_of(foraging(observation="grid"), key, network=some_cnn),
    "gru": lambda key: policy_of(foraging(observation="grid"), key, network=some_gru),
    "predicting": lambda key: policy_of(foraging(observation="grid"), key, network=predicting),
    "independent gru": lambda key: policy_of(
        foraging(observation="grid"), key, network=some_gru, shared=False
    ),
    "joint": lambda key: policy_of(foraging(), key, critic_input=JointObservation()),
    "state": lambda key: policy_of(foraging(state=True), key, critic_input=GlobalState()),
    "normalised": lambda key: policy_of(NormalizeObservation(foraging()), key),
    "normalised state": lambda key: policy_of(
        NormalizeObservation(foraging(state=True), clip=math.inf), key, critic_input=GlobalState()
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_what_was_saved_is_loaded(name, key, tmp_path):
    policy = POLICIES[name](key)
    save_policy(tmp_path / "a", policy, {"note": "mine"})
    loaded = load_policy(tmp_path / "a")
    assert eqx.tree_equal(loaded, policy)
    metadata = read_metadata(tmp_path / "a")
    assert metadata["note"] == "mine"
    assert metadata["policy"]["num_agents"] == 2
    assert metadata["policy"]["action_space"] == {"eqgrid.Discrete": {"n": 6}}
    assert set(metadata["policy"]["versions"]) == {"eqgrid", "jax", "equinox"}


@pytest.mark.parametrize("activation", get_args(Activation))
def test_activations_have_names(activation, key, tmp_path):
    env = clocks(1)
    function = getattr(jax.nn, activation)
    policy = policy_of(env, key, network=lambda *a, **o: MLP(*a, activation=function, **o))
    save_policy(tmp_path / "a", policy)
    assert load_policy(tmp_path / "a").actor_critic.actor.network.activation == activation


@final
class Multiplied(AbstractNetwork):
    """A network of somebody's own, with hyperparameters: an `MLP` whose output is multiplied."""

    mlp: MLP
    widths: tuple[int, ...]
    factor: float = eqx.field(static=True)

    def __init__(self, in_shape, out_size, *, widths=(8,), factor=1.0, final_scale, key):
        self.widths, self.factor = widths, factor
        self.mlp = MLP(in_shape, out_size, width=widths[0], final_scale=final_scale, key=key)

    def initial_carry(self):
        return None

    def __call__(self, x, carry):
        return self.factor * self.mlp(x, carry)[0], None


@final
class Blurred(AbstractCriticInput):
    """A critic input of somebody's own, with a hyperparameter."""

    share: float = 1.0

    def local(self, observation):
        return observation

    def __call__(self, observation):
        return self.share * observation


def own_parts(key, *, shared=True):
    network, head = partial(Multiplied, widths=(4, 2), factor=3.0), partial(Hot, heat=5.0)
    return policy_of(
        clocks(1), key, network=network, critic_input=Blurred(0.5), head=head, shared=shared
    )


@pytest.mark.parametrize("shared", [True, False])
def test_parts_of_ones_own_are_built_as_they_were(key, tmp_path, shared):
    policy, known = own_parts(key, shared=shared), OWN
    save_policy(tmp_path / "a", policy)
    content = (tmp_path / "a").read_bytes()
    loaded = load_policy(tmp_path / "a", parts=known)
    assert eqx.tree_equal(loaded, policy)
    save_policy(tmp_path / "a", loaded)
    assert (tmp_path / "a").read_bytes() == content
    for name in known:
        with pytest.raises(CheckpointError, match=f"{name}', which .* pass parts={{'{name}'"):
            load_policy(tmp_path / "a", parts={x: y for x, y in known.items() if x != name})


@final
class Waves(AbstractNetwork):
    """A network with hyperparameters that no file can hold: a function, and one that is no
    attribute; with an encoder, and with an array that its constructor gets.
    """

    encoder: AbstractNetwork
    head: Dense
    scale: Array
    wave: Callable = eqx.field(static=True)
    hidden_gain: float = eqx.field(static=True)

    def __init__(
        self, in_shape, out_size, *, scale, encoder=MLP, wave=jnp.sin, gain=1.0, final_scale, key
    ):
        self.encoder = encoder(in_shape, 3, final_scale=final_scale, key=key)
        self.head = Dense(3, out_size, scale=final_scale, key=key)
        self.scale, self.wave, self.hidden_gain = scale, wave, gain

    def initial_carry(self):
        return None

    def __call__(self, x, carry):
        return self.wave(self.head(self.scale * self.encoder(x, carry)[0])), None


@pytest.mark.parametrize("shared", [True, False])
def test_hyperparameters_that_no_file_holds_are_asked_for(key, tmp_path, shared):
    own = partial(Waves, gain=2.0, wave=jnp.cos)
    encoder, scale = partial(Multiplied, widths=(4, 2)), jnp.arange(3.0)
    network = partial(own, encoder=encoder, scale=scale)
    policy = policy_of(clocks(1), key, network=network, shared=shared)
    save_policy(tmp_path / "a", policy)
    names = {"Waves": Waves, "Multiplied": Multiplied}
    with pytest.raises(CheckpointError, match=r"functools.partial\(Waves, gain=..., wave=...\)"):
        load_policy(tmp_path / "a", parts=names)
    assert eqx.tree_equal(load_policy(tmp_path / "a", parts={**names, "Waves": own}), policy)


def test_a_fault_in_a_class_of_the_user_is_not_a_fault_of_the_file(key, tmp_path):
    own = partial(Waves, gain=2.0, wave=jnp.cos, encoder=MLP, scale=1.0)
    save_policy(tmp_path / "a", policy_of(clocks(1), key, network=own))
    with pytest.raises(AttributeError, match="waev") as error:
        load_policy(tmp_path / "a", parts={"Waves": lambda *_, **__: own.waev})
    assert "cannot be built with these parts" in error.value.__notes__[-1]


@final
class Backwards(AbstractCriticInput):
    """A critic input whose actors see everything in another order."""

    def local(self, observation):
        return observation[:, ::-1]

    def __call__(self, observation):
        return observation


def test_actors_see_what_the_critic_input_leaves_them(key):
    policy = policy_of(clocks(2), key, critic_input=Backwards(), network=loud_mlp)
    observation = reset(clocks(2), key)[0][0]
    expected = policy.actor_critic(observation, None)[0].logits
    outputs, _ = policy.outputs(observation, None)
    np.testing.assert_allclose(jax.nn.log_softmax(outputs), expected, atol=1e-5)


def test_a_dict_is_an_observation_too(key, tmp_path):
    env = NormalizeObservation(Vectorize(AutoReset(LogEpisodes(Race())), ENVS))

    def network(in_shape, out_size, **options):
        return Reader(MLP((math.prod(in_shape["vector"]),), out_size, **options))

    policy = policy_of(env, key, network=network)
    save_policy(tmp_path / "a", policy)
    assert eqx.tree_equal(load_policy(tmp_path / "a", parts={"Reader": network}), policy)


class Reader(AbstractNetwork):
    """A network of somebody else's."""

    mlp: MLP

    def initial_carry(self):
        return None

    def __call__(self, x, carry):
        return self.mlp(x["vector"], carry)


@pytest.mark.slow
def test_it_acts_as_the_trained_one_to_the_bit(key, tmp_path):
    env = NormalizeObservation(foraging())
    state = init_train_state(SMALL, env, key, shared=False)
    run = train(SMALL, env, state, num_updates=3)
    env_state = run.state.runner.env_state
    save_policy(tmp_path / "a", trained_policy(run.state.policy, env, env_state))
    trained = evaluate(run.state.policy, env.freeze(env_state), key)
    loaded = load_policy(tmp_path / "a")
    assert eqx.tree_equal(loaded.actor_critic, run.state.policy)
    assert eqx.tree_equal(evaluate(loaded.actor_critic, loaded.wrap(foraging()), key), trained)


@pytest.mark.slow
def test_a_policy_outlives_the_state_that_a_block_overwrites(key):
    env = NormalizeObservation(clocks(ENVS))
    state = init_train_state(SMALL, env, key)
    policy = trained_policy(state.policy, env, state.runner.env_state)
    frozen = env.freeze(state.runner.env_state)
    before = jax.tree.map(np.array, eqx.filter((policy, frozen), eqx.is_array))
    Block(SMALL, env, num_updates=2, length=2)(state)
    with pytest.raises(RuntimeError, match="deleted"):
        np.array(state.runner.env_state.moments.mean)
    after = eqx.filter((policy, frozen), eqx.is_array)
    jax.tree.map(np.testing.assert_array_equal, after, before)


def test_observations_are_those_of_the_wrapper(key):
    env = NormalizeObservation(clocks(ENVS))
    _, env_state = reset(env, jax.random.key(1))
    policy = trained_policy(build(env, key), env, env_state)
    raw, _ = reset(env.env, key)
    seen, _ = reset(env.freeze(env_state), key)
    normalised = eqx.filter_jit(policy.normalization)
    for one in range(ENVS):
        np.testing.assert_array_equal(normalised(raw[one], local=False), seen[one])
    expected, _, _ = policy.actor_critic(seen[0], None)
    logits, _ = policy.outputs(raw[0], None)
    np.testing.assert_allclose(jax.nn.log_softmax(logits), expected.logits, rtol=1e-5)


def test_actions_are_drawn_by_their_probabilities(key):
    policy = plain()
    bias = jnp.log(jnp.asarray([0.2, 0.7, 0.1]))
    policy = eqx.tree_at(
        lambda p: p.actor_critic.actor.network.layers[-1], policy, replace_fn=silent(bias)
    )
    observation = np.zeros((2, 4))
    keys = jax.random.split(key, 4000)
    actions, carry = jax.vmap(lambda k: policy.act(observation, None, k))(keys)
    assert carry is None
    assert actions.dtype == jnp.int32
    shares = [float((actions == action).mean()) for action in range(3)]
    np.testing.assert_allclose(shares, [0.2, 0.7, 0.1], atol=0.03)
    greedy, _ = policy.act(observation, None, None, greedy=True)
    np.testing.assert_array_equal(greedy, [1, 1])
    one, two = (policy.act(observation, None, key)[0] for _ in range(2))
    np.testing.assert_array_equal(one, two)


def silent(bias):
    return lambda layer: eqx.tree_at(
        lambda d: (d.weight, d.bias), layer, (jnp.zeros_like(layer.weight), bias)
    )


def test_a_recurrent_policy_remembers(key, tmp_path):
    env = clocks(1)
    policy = policy_of(env, key, network=GRU)
    save_policy(tmp_path / "a", policy)
    policy = load_policy(tmp_path / "a", parts={"GRU": GRU})
    observation, _ = Clock().reset(key)
    carry, theirs = policy.initial_carry(), policy.actor_critic.initial_carry()
    for _ in range(3):
        action, carry = policy.act(observation, carry, None, greedy=True)
        distribution, _, theirs = policy.actor_critic(observation, theirs)
        np.testing.assert_array_equal(action, distribution.mode())
        np.testing.assert_allclose(carry, theirs[0], rtol=1e-5, atol=1e-6)
    assert not np.allclose(carry, policy.initial_carry())
    with pytest.raises(
        ValueError, match=r"start with initial_carry\(\)\) float32\[2, 8\].* nothing"
    ):
        policy.act(observation, None, key)


@pytest.mark.slow
def test_the_state_of_the_world_is_not_needed_to_act(key):
    env = foraging(state=True)
    policy = policy_of(NormalizeObservation(env), key, critic_input=GlobalState())
    shown, _ = reset(env.env, key)
    policy.check(env)
    policy.check(env.env)
    policy.check(foraging())
    one, two = (policy.act(x, None, key)[0] for x in (shown, shown.local))
    np.testing.assert_array_equal(one, two)
    with pytest.raises(ValueError, match="The policy reads observations"):
        policy.wrap(foraging())


WRONG = {
    "agents": (lambda: foraging(num_agents=3), "acts for 2 agents, but the environment has 3"),
    "actions": (lambda: clocks(1), r"actions 0 to 5, but those of the environment are 0 to 2"),
    "observation": (
        lambda: foraging(observation="grid"),
        r"reads observations float32\[2, 9\], but the environment returns \w+\[2, \d+, \d+, \d+\]",
    ),
    "twice": (lambda: NormalizeObservation(foraging()), "without NormalizeObservation"),
}


@pytest.mark.parametrize(("env", "says"), WRONG.values(), ids=WRONG)
def test_what_does_not_fit_is_refused(key, env, says):
    policy, other = policy_of(foraging(), key), env()
    for refuse in (policy.check, policy.wrap):
        with pytest.raises(ValueError, match=says):
            refuse(other)


@pytest.mark.parametrize(
    ("observation", "says"),
    [
        (np.zeros((2, 5)), r"float32\[2, 4\], all agents in one array, but got float32\[2, 5\]"),
        ({"vector": np.zeros((2, 4))}, r"but got \['vector'\] float32\[2, 4\]"),
        ([0.0], r"float32\[2, 4\], .* something that is not an array: \[0.0\]"),
    ],
)
def test_an_observation_that_does_not_fit_is_refused(key, observation, says):
    with unchecked(), pytest.raises(ValueError, match=says):
        plain().act(observation, None, key)


def test_a_key_is_needed_to_draw(key):
    with pytest.raises(ValueError, match="act needs a key to sample actions"):
        plain().act(np.zeros((2, 4)), None, None)


def test_moments_are_needed(key):
    env = NormalizeObservation(clocks(1))
    policy = build(env, key)
    with pytest.raises(ValueError, match="pass env_state"):
        trained_policy(policy, env)
    _, env_state = reset(env, key)
    frozen = trained_policy(policy, env.freeze(env_state))
    assert eqx.tree_equal(frozen, trained_policy(policy, env, env_state))


class Doubled(AbstractVectorWrapper):
    """Shows twice of what there is."""

    env: AbstractVectorEnv

    def reset(self, key):
        observation, state = self.env.reset(key)
        return 2 * observation, state

    def step(self, key, state, action):
        timestep, state = self.env.step(key, state, action)
        shown = (2 * timestep.observation, 2 * timestep.final_observation)
        where = lambda t: (t.observation, t.final_observation)  # noqa: E731
        return eqx.tree_at(where, timestep, shown), state

    def observe(self, state):
        return 2 * self.env.observe(state)


def test_what_changes_observations_later_is_refused_by_name(key):
    inner = clocks(1)
    env = NormalizeReward(Doubled(NormalizeObservation(inner)))
    _, env_state = reset(env, key)
    says = r"a Doubled around .*: use NormalizeObservation\(Doubled\(\.\.\.\)\)\.$"
    for state in (env_state, None):
        with pytest.raises(ValueError, match=says):
            trained_policy(build(env, key), env, state)
    env = NormalizeReward(NormalizeObservation(Doubled(inner)))
    seen, env_state = reset(env, key)
    policy = trained_policy(build(env, key), env, env_state)
    expected, _, _ = policy.actor_critic(seen[0], None)
    logits, _ = policy.outputs(2 * reset(inner, key)[0][0], None)
    np.testing.assert_allclose(jax.nn.log_softmax(logits), expected.logits, rtol=1e-5)


def test_a_critic_input_of_the_user_is_read_by_its_name(key, tmp_path):
    policy = policy_of(clocks(2), key, critic_input=Backwards())
    save_policy(tmp_path / "a", policy)
    assert eqx.tree_equal(load_policy(tmp_path / "a", parts={"Backwards": Backwards}), policy)


def strange_space(policy):
    class Odd(AbstractSpace):
        def sample(self, key):
            return jnp.zeros(())

        def contains(self, x):
            return jnp.array(True)

    return eqx.tree_at(lambda p: p.action_space, policy, Odd())


def strange_activation(policy):
    mlp = MLP((4,), 3, activation=lambda x: x, key=jax.random.key(0))
    return eqx.tree_at(lambda p: p.actor_critic.actor.network, policy, mlp)


@final
class Hot(AbstractActionHead):
    """A head of somebody's own: divided logits, and one trained number."""

    heat: float
    shift: Array

    def __init__(self, space, heat=2.0):
        self.heat, self.shift = heat, jnp.arange(space.n, dtype=float)

    def out_size(self, space):
        return space.n

    def distribution(self, output):
        return distrax.Categorical(logits=output / self.heat + self.shift[None])

    def noise(self, key, space, shape):
        return jax.random.uniform(key, shape)

    def sample(self, distribution, noise):
        return agents.sample_action(distribution, noise)

    def most_probable(self, distribution):
        return distribution.mode()

    def action(self, raw_action, space):
        return raw_action

    def entropy(self, distribution):
        return agents.entropy(distribution)


OWN = {"Multiplied": Multiplied, "Hot": Hot, "Blurred": Blurred}


def endless_network(policy):
    mlp = MLP((4,), 3, width=2, depth=101, key=jax.random.key(0))
    return eqx.tree_at(lambda p: p.actor_critic.actor.network, policy, mlp)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (endless_network, r"`int` <= 100 - at `\$.depth`"),
        (strange_space, "it has a 'Odd', which eqgrid does not know"),
        (strange_activation, "the activation of agents.MLP is .*: use one that has a name"),
    ],
)
def test_what_has_no_name_is_not_saved(key, tmp_path, change, says):
    with pytest.raises(ValueError, match=says):
        save_policy(tmp_path / "a", change(plain()))
    assert list(tmp_path.iterdir()) == []


def change_description(metadata, **entries):
    return {**metadata, "policy": {**metadata["policy"], **entries}}


MLP_TABLE = {"width": 64, "depth": 2, "activation": "tanh", "precision": "float32"}


def actor(**arguments):
    return {"actor": team({"agents.MLP": {**MLP_TABLE, **arguments}})}


def team(network, name="agents.SharedParameters"):
    return {name: {"network": network}}


def array(**entries):
    return {"observation": {"array": entries}}


BOX = {"low": 0.0, "high": 1.0, "shape": [2**20] * 4}
STRANGE = {
    "format": ({"format": "another 1"}, r"'another 1' - at `\$.format`"),
    "newer format": ({"format": "eqgrid policy 4"}, "it was written by a newer version of eqgrid"),
    "head of other actions": (
        {"head": {"agents.ClippedNormalHead": {}}},
        "its action head, agents.ClippedNormalHead, is not for actions of a Discrete",
    ),
    "network": (
        {"actor": team({"subprocess.Popen": {"args": "true"}})},
        "it has a 'subprocess.Popen', which eqgrid does not know: if it is your own class, pass",
    ),
    "team": ({"actor": team({}, "T")}, "its actor or critic is 'T', and not the SharedParameters"),
    "width": (
        actor(width=32),
        r"at .actor_critic.actor.network.layers\[0\].weight it holds float32\[64, 4\], but float32"
        r"\[32, 4\] is needed\.$",
    ),
    "huge": (actor(width=10**12), r"Expected `int` <= 1048576 - at `\$.width`"),
    "unknown": ({"more": 1}, "unknown field `more`"),
    "no observation": (
        {"observation": {"dict": {}}},
        "its observation has a part that is not an array",
    ),
    "long": ({"observation": [0] * 2000}, "a text or a list that is too long"),
    "large actions": ({"action_space": {"eqgrid.Box": BOX}}, "the bounds of its actions have"),
}


@pytest.mark.parametrize(("entries", "says"), STRANGE.values(), ids=STRANGE)
def test_a_strange_description_is_one_sentence(key, tmp_path, entries, says):
    policy = plain()
    save_policy(tmp_path / "a", policy)
    save(tmp_path / "a", policy, change_description(read_metadata(tmp_path / "a"), **entries))
    with pytest.raises(CheckpointError, match=says) as refusal:
        load_policy(tmp_path / "a")
    assert str(refusal.value).startswith(f"The policy '{tmp_path}/a' cannot be used: ")
    assert "\n" not in str(refusal.value)


def test_forged_arrays_are_refused(key, tmp_path):
    """Its checksum is right, and its metadata fit, but it has other arrays than they say."""
    save_policy(tmp_path / "a", policy_of(clocks(1), key, network=straight))
    about, data = _checkpoint.read(tmp_path / "a")
    name = ".actor_critic.actor.network.layers[0].bias"
    forge(tmp_path / "b", about, {**data, name: data[name][:2]})
    with pytest.raises(CheckpointError, match=r"bias it holds float32\[2\], not float32\[3\]"):
        load_policy(tmp_path / "b")
    forge(tmp_path / "c", about, {other: x for other, x in data.items() if other != name})
    with pytest.raises(CheckpointError, match="its description does not match its arrays"):
        load_policy(tmp_path / "c")
    forge(tmp_path / "d", {**about, "metadata": []}, data)
    for read in (load_policy, read_metadata, lambda path: restore(path, {})):
        with pytest.raises(CheckpointError, match=r"Expected `object`, got `array` - at `\$.meta"):
            read(tmp_path / "d")


def test_any_program_can_read_what_is_in_it(key, tmp_path):
    save_policy(tmp_path / "a", plain())
    content = (tmp_path / "a").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    about = json.loads(header["__metadata__"]["about"])["metadata"]["policy"]
    assert about["observation"] == {"array": {"shape": [4], "dtype": "float32"}}
    assert about["actor"] == team({"agents.MLP": MLP_TABLE})
    assert about["critic_input"] == {"agents.LocalObservation": {}}
    assert header[".actor_critic.actor.network.layers[0].weight"]["shape"] == [64, 4]


@pytest.mark.parametrize(
    ("where", "wrong", "says"),
    [
        (
            lambda policy: policy.actor_critic.critic.network.layers[1].bias,
            jnp.nan,
            r"at .actor_critic.critic.network.layers\[1\].bias it holds numbers that",
        ),
        (
            lambda policy: policy.normalization.moments.mean,
            jnp.inf,
            "at .normalization.moments.mean it holds numbers that are not finite",
        ),
        (lambda policy: policy.normalization.moments.count, -5.0, "a count or a variance below 0"),
    ],
)
def test_impossible_numbers_are_refused(key, tmp_path, where, wrong, says):
    policy = policy_of(NormalizeObservation(clocks(1)), key)
    wrong = jnp.full_like(where(policy), wrong)
    save_policy(tmp_path / "a", eqx.tree_at(where, policy, wrong))
    with pytest.raises(CheckpointError, match=says):
        load_policy(tmp_path / "a")


@pytest.mark.slow
def test_loading_runs_no_code(key, tmp_path):
    """Nothing is imported, compiled from text or unpickled while a file is read."""
    save_policy(tmp_path / "a", plain())
    script = f"""
import sys
from agents import load_policy
load_policy({str(tmp_path / "a")!r})  # what JAX itself imports and compiles, it has by now
def watch(event, args):
    if event in ("import", "pickle.find_class", "subprocess.Popen", "os.system"):
        raise SystemExit(f"{{event}} {{args}}")
    if event in ("compile", "exec") and "generate" not in str(args):
        raise SystemExit(f"{{event}} {{args}}")
sys.addaudithook(watch)
load_policy({str(tmp_path / "a")!r})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_folder_has_a_final_policy_or_the_best_one_of_each_seed(key, tmp_path):
    with pytest.raises(CheckpointError, match="There is no policy in the folder"):
        find_policy(tmp_path)
    policy = plain()
    for name in ("checkpoints/best", "policy"):
        save_policy(tmp_path / f"{name}.safetensors", policy)
        assert find_policies(tmp_path) == [find_policy(tmp_path)]
        assert find_policy(tmp_path) == tmp_path / f"{name}.safetensors"
    assert eqx.tree_equal(load_policy(tmp_path), policy)
    files = [tmp_path / f"seeds/policy-{seed}.safetensors" for seed in (9, 10)]
    for file in reversed(files):
        save_policy(file, policy)
    assert find_policies(tmp_path / "seeds") == files
    with pytest.raises(CheckpointError, match="several seeds: name one"):
        find_policy(tmp_path / "seeds")


def test_a_missing_file_and_a_plain_checkpoint_are_named(key, tmp_path):
    with pytest.raises(CheckpointError, match="There is no checkpoint"):
        load_policy(tmp_path / "nowhere.safetensors")
    save(tmp_path / "a", {"x": jnp.zeros(2)})
    with pytest.raises(CheckpointError, match="is a training state and not a policy"):
        load_policy(tmp_path / "a")


@pytest.mark.slow
def test_agents_change_places(key):
    policy = policy_of(clocks(1), key, shared=False)
    observation = jnp.arange(8.0).reshape(2, 4)
    logits, _ = policy.outputs(observation, None)
    swapped, _ = policy.reorder([1, 0]).outputs(observation[::-1], None)
    np.testing.assert_allclose(swapped, logits[::-1], rtol=1e-5)
    shared = plain()
    assert eqx.tree_equal(shared.reorder([1, 0]), shared)
    with pytest.raises(ValueError, match="each agent from 0 to 1 once"):
        policy.reorder([0, 0])


@pytest.mark.slow
def test_policies_are_converted_to_the_other_mode_of_jax(tmp_path):
    code = """
import sys
import jax
from agents import CheckpointError, load_policy, save_policy
from eqgrid import make
source, target = sys.argv[1:]
jax.config.update("jax_enable_x64", True)
try:
    load_policy(source)
except CheckpointError as error:
    print(error)
policy = load_policy(source, convert=True)
observation, _ = make("goals").reset(jax.random.key(0))
assert policy.act(observation, policy.initial_carry(), jax.random.key(1))[0].shape == (2,)
assert str(jax.tree.leaves(policy.actor_critic)[0].dtype) == "float64"
save_policy(target, policy)
"""
    envs = Vectorize(AutoReset(make("goals", num_agents=2)), 2)
    policy = trained_policy(agents.actor_critic(envs, jax.random.key(0)), envs)
    source, target = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    save_policy(source, policy)
    done = subprocess.run(
        [sys.executable, "-c", code, source, target], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    words = r"it holds float32\[.*\], but float64\[.*\] is needed in JAX's 64-bit mode \(jax_enable"
    assert re.search(words, done.stdout)
    with pytest.raises(CheckpointError, match=r"float32.* is needed without JAX's 64-bit mode"):
        load_policy(target)
    assert eqx.tree_equal(load_policy(target, convert=True), load_policy(source))
