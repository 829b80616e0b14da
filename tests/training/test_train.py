import dataclasses
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compilations import counted
from jaxtyping import Array, Float
from learners import GRU, Clock, assert_close, clocks, loud_mlp

import agents
from agents import (
    PPO,
    Block,
    JointObservation,
    NonFiniteLoss,
    OutOfMemory,
    init_train_state,
    pick_run,
    ppo_loss,
    restore,
    save,
    train,
)
from eqgrid import (
    AbstractEnv,
    AbstractWrapper,
    AutoReset,
    LinearSchedule,
    LogEpisodes,
    ShapedReward,
    Vectorize,
)

PPO_SMALL = PPO(rollout_length=8, num_epochs=1, num_minibatches=2)
NUM_ENVS = 4


def start(key, *, env=None, ppo=PPO_SMALL, num_updates=6, **choices):
    env = clocks(NUM_ENVS) if env is None else env
    choices = {"network": loud_mlp, **choices}
    return env, init_train_state(ppo, env, key, **choices)


def run(env, state, *, num_updates=6, updates_per_block=2, **options):
    length = {"num_updates": num_updates, "updates_per_block": updates_per_block}
    return train(PPO_SMALL, env, state, **length, **options)


def arrays(state):
    return jax.tree.leaves(eqx.filter(state, eqx.is_array))


def start_many(keys, env, ppo=PPO_SMALL):
    make = lambda key: init_train_state(ppo, env, key, network=loud_mlp)  # noqa: E731
    return eqx.filter_jit(eqx.filter_vmap(make))(keys)


class Weighted(eqx.Module):
    """The loss of PPO with weights that are the same for all runs, although there are as many."""

    weights: Float[Array, "2"]

    def __call__(self, policy, batch, ppo, entropy, /):
        loss, parts = ppo_loss(policy, batch, ppo, entropy)
        return loss * self.weights.sum(), parts


def test_runs_that_train_together_are_what_they_are_alone(key):
    keys, rates, env = jax.random.split(key, 2), (1e-3, 1e-2), clocks(NUM_ENVS)
    plain = dataclasses.replace(PPO_SMALL, loss=Weighted(jnp.array([0.5, 0.25])))
    ppo = dataclasses.replace(plain, learning_rate=jnp.asarray(rates))
    states = start_many(keys, env)
    together = train(ppo, env, states, num_updates=3, updates_per_block=2)
    assert together.metrics.scalars["entropy"].shape == (3, 2)
    for i, rate in enumerate(rates):
        alone_ppo = dataclasses.replace(plain, learning_rate=rate)
        alone = train(alone_ppo, env, start(keys[i])[1], num_updates=3, updates_per_block=2)
        assert_close(pick_run(together.state, i), alone.state, tolerance=1e-3)
        own = jax.tree.map(lambda x, i=i: x[:, i], together.metrics)
        assert_close(own, alone.metrics, tolerance=1e-3)
    with pytest.raises(ValueError, match="There is no run -1 in a state of 2 runs"):
        pick_run(states, -1)


def test_a_block_overwrites_its_input_and_train_does_not(key):
    env, state = start(key)
    done = run(env, state, updates_per_block=4)
    assert not any(x.is_deleted() for x in arrays((state, done.state)))
    assert done.metrics.scalars["learning_rate"].shape == (6,)
    assert done.metrics.scalars["learning_rate"][-1] == 0 < done.metrics.scalars["learning_rate"][0]
    block = Block(PPO_SMALL, env, num_updates=6, length=4)
    first, metrics = block(state)
    with pytest.raises(ValueError, match="A block of at most 4 updates cannot make 5"):
        block(first, 5)
    last, rest = block(first, 2)
    assert all(x.is_deleted() for x in arrays((state.policy, first)))
    assert all(isinstance(x, np.ndarray) for x in jax.tree.leaves(metrics))
    assert block.train_seconds > 0
    assert eqx.tree_equal(last, done.state)
    together = jax.tree.map(lambda *x: np.concatenate(x), metrics, rest)
    jax.tree.map(np.testing.assert_array_equal, together, done.metrics)


@pytest.mark.slow
def test_a_run_compiles_once_and_other_numbers_or_a_longer_run_not_at_all(key):
    # A length of its own, or a compilation of another test might serve.
    ppo = PPO(rollout_length=14, num_epochs=1, num_minibatches=2)
    others = dataclasses.replace(
        ppo, learning_rate=0.1, gamma=0.5, clip_epsilon=0.1, entropy_coefficient=0.2
    )
    env, state = start(key, ppo=ppo)
    again = start(key, ppo=others)[1]
    with counted() as compilations:
        train(ppo, env, state, num_updates=6, updates_per_block=2)
        other = train(others, env, again, num_updates=6, updates_per_block=2)
        train(ppo, env, state, num_updates=9, updates_per_block=2)
    assert len(compilations) == 1
    rates = other.metrics.scalars["learning_rate"]
    np.testing.assert_allclose(rates, 0.1 * np.arange(10, -1, -2) / 11, rtol=1e-5)


def test_a_sweep_with_a_number_without_meaning_is_refused(key):
    with pytest.raises(ValueError, match=r"^gamma must be between 0 and 1"):
        dataclasses.replace(PPO_SMALL, gamma=jnp.array([0.5, 1.5]))
    with pytest.raises(ValueError, match=r"^learning_rate must be above 0"):
        dataclasses.replace(PPO_SMALL, learning_rate=float("nan"))
    start = eqx.filter_jit(
        lambda gamma: init_train_state(
            dataclasses.replace(PPO_SMALL, gamma=gamma), clocks(NUM_ENVS), key, network=loud_mlp
        )
    )
    with pytest.raises(Exception, match=r"gamma must be between 0 and 1"):
        jax.block_until_ready(start(jnp.asarray(1.5)).key)


def test_other_numbers_compile_no_other_start(key):
    ppo = PPO(rollout_length=8, num_minibatches=2, learning_rate=0.5, gamma=1)
    start(key, ppo=ppo)
    with counted() as compilations:
        start(key, ppo=dataclasses.replace(ppo, learning_rate=0.25, gamma=0.5, clip_epsilon=1))
    assert compilations == []


def test_other_schedules_compile_nothing_anew(key):
    def learn(weight, steps):
        schedule = LinearSchedule(weight, 0.0, steps)
        one = ShapedReward(AutoReset(LogEpisodes(Clock())), schedule, key="episode_return")
        env, state = start(key, env=Vectorize(one, NUM_ENVS))
        run(env, state, num_updates=2)

    learn(1.0, 10)
    with counted() as compilations:
        learn(2.0, 20)
    assert compilations == []


@pytest.mark.slow
@pytest.mark.to_the_bit
def test_no_key_is_used_twice_and_no_number_is_undefined(key):
    # Episodes of a clock are cut while a block runs, and in the first update none has ended.
    env = Vectorize(AutoReset(LogEpisodes(Clock())), NUM_ENVS)
    ppo = PPO(rollout_length=2, num_epochs=1, num_minibatches=1, normalize_values=True)
    with jax.debug_key_reuse(True), jax.debug_nans(True):
        env, state = start(key, env=env, ppo=ppo, network=agents.GRU)
        done = train(ppo, env, state, num_updates=8, updates_per_block=8)
    episodes = done.metrics.episodes
    assert episodes[0] == 0 < episodes.max()
    assert (done.metrics.episode_length[episodes == 0] == 0).all()
    assert (done.metrics.episode_length[episodes > 0] > 0).all()


@pytest.mark.parametrize(
    ("normalize", "choices"),
    [
        (True, {"critic_input": JointObservation()}),
        pytest.param(False, {"network": GRU, "shared": False}, marks=pytest.mark.slow),
    ],
)
def test_a_resumed_run_is_bitwise_the_same(key, tmp_path, normalize, choices):
    env, state = start(key, env=clocks(NUM_ENVS, normalize=normalize), **choices)
    whole = run(env, state)
    half, _ = Block(PPO_SMALL, env, num_updates=6, length=4)(state)
    save(tmp_path / "checkpoint", half)
    resumed = run(env, restore(tmp_path / "checkpoint", eqx.filter_eval_shape(lambda: half)))
    assert jnp.issubdtype(resumed.state.key.dtype, jax.dtypes.prng_key)
    assert eqx.tree_equal(resumed.state, whole.state)
    own = jax.tree.map(lambda x: x[4:], whole.metrics)
    jax.tree.map(np.testing.assert_array_equal, resumed.metrics, own)


def test_a_finished_run_has_nothing_left_to_do(key):
    env, state = start(key)
    done = train(PPO_SMALL, env, state, num_updates=0)
    assert eqx.tree_equal(done.state, state)
    assert {len(x) for x in jax.tree.leaves(done.metrics)} == {0}


def test_what_does_not_fit_into_memory_is_not_begun(key, monkeypatch):
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=1000))
    env, state = start(key)
    with pytest.raises(OutOfMemory, match=r"GB of memory, but 0\.0 GB are free") as error:
        run(env, state)
    assert error.value.needed > error.value.free == 1000
    assert not any(leaf.is_deleted() for leaf in arrays(state))


class Breaks(AbstractWrapper):
    """Pays what is not a number from the 21st step on, counted over all episodes."""

    env: AbstractEnv

    def reset(self, key):
        observation, state = self.env.reset(key)
        return observation, (state, jnp.asarray(0))

    def step(self, key, state, action):
        timestep, inner = self.env.step(key, state[0], action)
        count = state[1] + 1
        reward = jnp.where(count > 20, jnp.nan, timestep.reward)
        return eqx.tree_at(lambda t: t.reward, timestep, reward), (inner, count)

    def observe(self, state):
        return self.env.observe(state[0])


@pytest.mark.slow
def test_the_first_loss_that_is_no_number_is_named(key):
    # With 8 steps to an update, the 21st is in the third one.
    env = Vectorize(Breaks(AutoReset(LogEpisodes(Clock()))), NUM_ENVS)
    _, state = start(key, env=env)
    with pytest.raises(NonFiniteLoss, match="update 3 is not a finite number") as error:
        run(env, state)
    assert error.value.update == 3
    # The reward spoils the advantages, and these the actor, whose leaves come first.
    assert error.value.where == "the gradient of actor.network.layers[0].weight"


@pytest.mark.slow
def test_the_length_of_blocks_changes_nothing(key):
    env, state = start(key)
    ends = [run(env, state, updates_per_block=length) for length in (1, 2, 9)]
    for end in ends[1:]:
        assert eqx.tree_equal(end.state, ends[0].state)
        jax.tree.map(np.testing.assert_array_equal, end.metrics, ends[0].metrics)


def test_numbers_that_do_not_fit_are_refused(key):
    env, state = start(key)
    with pytest.raises(ValueError, match="A block needs at least 1 update, not 0"):
        run(env, state, updates_per_block=0)
    ahead = eqx.tree_at(lambda s: s.updates, state, jnp.asarray(8))
    with pytest.raises(ValueError, match="`num_updates` is 6, but the state has 8 updates"):
        run(env, ahead)
    with pytest.raises(ValueError, match="num_minibatches=3 does not divide the 32 steps"):
        start(key, ppo=PPO(rollout_length=8, num_minibatches=3))
