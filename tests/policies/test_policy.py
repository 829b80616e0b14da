import functools

import distrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learners import GRU, Clock, assert_close, build, clocks, loud_mlp

import agents
from agents import (
    MLP,
    AbstractNetwork,
    ActorCritic,
    IndependentParameters,
    JointObservation,
    LocalObservation,
    SharedParameters,
    entropy,
    sample_action,
)
from eqgrid import AutoReset, Vectorize


class Parts(Clock):
    """A clock whose observation has two arrays."""

    def observe(self, state):
        return {"clock": super().observe(state), "number": jnp.arange(2.0)[:, None]}


class ReadsClocks(AbstractNetwork):
    mlp: MLP

    def __init__(self, in_shape, out_size, *, final_scale, key):
        self.mlp = MLP(in_shape["clock"], out_size, final_scale=final_scale, key=key)

    def initial_carry(self):
        return None

    def __call__(self, x, carry):
        return self.mlp(x["clock"], carry)


def test_shared_agents_are_one_network(key):
    network = loud_mlp((4,), 3, final_scale=1.0, key=key)
    x = jax.random.normal(key, (5, 4))
    out, _ = SharedParameters(network, 5)(x, None)
    assert_close(out, jnp.stack([network(row, None)[0] for row in x]))


@pytest.mark.slow
@pytest.mark.parametrize("network", [loud_mlp, GRU])
def test_separate_agents_each_have_their_own(key, network):
    networks = [network((4,), 3, final_scale=1.0, key=k) for k in jax.random.split(key, 5)]
    team = IndependentParameters(networks)
    x = jax.random.normal(key, (5, 4))
    carry = team.initial_carry()
    out, next_carry = team(x, carry)
    for i, one in enumerate(networks):
        alone, alone_carry = one(x[i], one.initial_carry())
        assert_close(out[i], alone)
        assert_close(jax.tree.map(lambda c, i=i: c[i], next_carry), alone_carry)


def test_a_team_needs_an_agent(key):
    with pytest.raises(ValueError, match="at least 1 agent"):
        IndependentParameters([])
    with pytest.raises(ValueError, match="num_agents=0"):
        SharedParameters(MLP((1,), 1, key=key), 0)


def test_the_joint_view_is_own_first_then_cyclic():
    vectors = jnp.asarray(10 * np.arange(12)[:, None] + np.arange(2))
    joint = JointObservation()(vectors)
    for i in range(12):
        expected = [10 * ((i + k) % 12) + j for k in range(12) for j in range(2)]
        np.testing.assert_array_equal(joint[i], expected)


def test_the_joint_view_stacks_the_channels_of_images():
    images = jnp.arange(2 * 4 * 5 * 3, dtype=jnp.uint8).reshape(2, 4, 5, 3)
    joint = JointObservation()(images)
    assert joint.dtype == jnp.uint8
    np.testing.assert_array_equal(joint[1, 2, 4], [*images[1, 2, 4], *images[0, 2, 4]])
    np.testing.assert_array_equal(JointObservation()(jnp.arange(2.0)), [[0.0, 1.0], [1.0, 0.0]])


def test_an_observation_of_several_arrays_needs_a_network_that_reads_them(key):
    with pytest.raises(ValueError, match="several arrays, which this network does not read"):
        build(Vectorize(AutoReset(Parts()), 1), key, network=MLP)

    with pytest.raises(TypeError, match="argument"):  # a fault of the user's own network
        build(Vectorize(AutoReset(Parts()), 1), key, network=lambda *_, **__: MLP(size=3))

    policy = build(Vectorize(AutoReset(Parts()), 1), key, network=ReadsClocks)
    seen = Parts().observe(jnp.array([1, 5, 0]))
    assert_close(policy(seen, None)[1], policy.value(seen, None))


@pytest.mark.slow
def test_only_the_view_tells_mappo_from_ippo(key):
    env = clocks(1, num_agents=3)
    own = build(env, key, network=loud_mlp, critic_input=LocalObservation())
    joint = build(env, key, network=loud_mlp, critic_input=JointObservation())
    assert_close(own.actor, joint.actor)
    x = jax.random.normal(key, (3, 4))
    changed = x.at[2].add(1.0)
    for policy, seen in ((own, [2]), (joint, [0, 1, 2])):
        before, value, _ = policy(x, None)
        after, other_value, _ = policy(changed, None)
        np.testing.assert_array_equal(np.flatnonzero(np.any(before.logits != after.logits, 1)), [2])
        np.testing.assert_array_equal(np.flatnonzero(value != other_value), seen)
        assert_close(policy.value(x, None), value)


NETWORKS = [
    (actor, critic, shared)
    for actor in (GRU, functools.partial(agents.GRU, width=8))
    for critic in (MLP, GRU)
    for shared in (True, False)
]


@pytest.mark.parametrize(
    ("actor", "critic", "shared"),
    [NETWORKS[0], *(pytest.param(*x, marks=pytest.mark.slow) for x in NETWORKS[1:])],
)
def test_unrolling_is_one_step_after_the_other(key, actor, critic, shared):
    env, length = clocks(1), 6
    one, other = (build(env, key, network=n, shared=shared) for n in (actor, critic))
    policy = ActorCritic(one.actor, other.critic, LocalObservation())
    observation = jax.random.normal(key, (length, 2, 4))
    start = jnp.array([False, True, False, False, True, True])
    carry = jax.tree.map(lambda x: x + 0.25, policy.initial_carry())
    distributions, values = policy.unroll(observation, carry, start)
    for time in range(length):
        carry = policy.initial_carry() if start[time] else carry
        distribution, value, carry = policy(observation[time], carry)
        assert_close(distributions.logits[time], distribution.logits)
        assert_close(values[time], value)


def test_a_fresh_actor_is_nearly_uniform(key):
    policy = build(clocks(1), key)
    distribution, _, _ = policy(jax.random.normal(key, (2, 4)), None)
    np.testing.assert_allclose(distribution.probs, 1 / 3, atol=0.02)


@pytest.mark.parametrize("shared", [True, False])
def test_parameters_are_shared_or_separate(key, shared):
    policy = build(clocks(1, num_agents=3), key, network=loud_mlp, shared=shared)
    distribution, value, _ = policy(jnp.ones((3, 4)), None)
    assert np.unique(np.asarray(distribution.logits), axis=0).shape[0] == (1 if shared else 3)
    assert np.unique(np.asarray(value)).size == (1 if shared else 3)


def test_actions_are_drawn_with_their_probabilities():
    logits = jnp.log(jnp.array([0.0, 0.5, 0.0, 0.375, 0.125, 0.0]))
    uniform = (jnp.arange(8000.0) + 0.5) / 8000
    stacked = jnp.broadcast_to(logits, (8000, 6))
    action = jax.jit(lambda x, u: sample_action(distrax.Categorical(logits=x), u))(stacked, uniform)
    np.testing.assert_array_equal(np.bincount(action, minlength=6), [0, 4000, 0, 3000, 1000, 0])


@pytest.mark.parametrize("uniform", [0.0, float(np.nextafter(np.float32(1), np.float32(0)))])
def test_what_has_no_probability_is_never_drawn(key, uniform):
    some = jax.random.normal(key, (1000, 4))
    logits = jnp.pad(some, ((0, 0), (1, 1)), constant_values=-jnp.inf)
    action = jax.jit(lambda x, u: sample_action(distrax.Categorical(logits=x), u))(
        logits, jnp.full(1000, uniform)
    )
    assert action.min() >= 1
    assert action.max() <= 4


def test_the_network_is_the_callers_choice(key):
    policy = build(clocks(1), key, network=functools.partial(MLP, width=7, depth=3))
    assert [layer.weight.shape[0] for layer in policy.actor.network.layers] == [7, 7, 7, 3]
    assert [layer.weight.shape[0] for layer in policy.critic.network.layers] == [7, 7, 7, 1]


@pytest.mark.parametrize("never", [-1e9, -jnp.inf])
def test_what_has_no_probability_adds_nothing_to_the_entropy(never):
    def both(logits):
        distribution = distrax.Categorical(logits=logits)
        return entropy(distribution), distribution.entropy()

    logits = jnp.array([0.5, -1.0, never])
    ours, theirs = jax.jacobian(both)(logits)
    np.testing.assert_allclose(*both(logits), rtol=1e-6)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert jnp.isfinite(ours).all()
