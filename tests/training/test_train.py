import dataclasses
import os
import signal
import time
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compilations import counted
from learners import GRU, Clock, assert_close, clocks, loud_mlp

import agents.training._train
from agents import (
    PPO,
    JointObservation,
    Metrics,
    NonFiniteLoss,
    OutOfMemory,
    StopTraining,
    init_train_state,
    pick_run,
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


class Recorder:
    """A hook that keeps what it is told, but for the state."""

    def __init__(self):
        self.seen = []

    def __call__(self, progress):
        assert not any(leaf.is_deleted() for leaf in arrays(progress.state))
        self.seen.append((progress.updates, progress.env_steps, progress.metrics))


def arrays(state):
    return jax.tree.leaves(eqx.filter(state, eqx.is_array))


def stop_at(updates):
    def hook(progress):
        if progress.updates == updates:
            raise StopTraining("far enough")

    return hook


def start_many(keys, env, ppo=PPO_SMALL):
    make = lambda key: init_train_state(ppo, env, key, network=loud_mlp)  # noqa: E731
    return eqx.filter_jit(eqx.filter_vmap(make))(keys)


def test_train_takes_many_runs_and_is_for_each_what_it_is_alone(key):
    keys, rates, env = jax.random.split(key, 2), (1e-3, 1e-2), clocks(NUM_ENVS)
    ppo = dataclasses.replace(PPO_SMALL, learning_rate=jnp.asarray(rates))
    recorder = Recorder()
    states = start_many(keys, env)
    together = train(ppo, env, states, num_updates=3, updates_per_block=2, hooks=[recorder])
    assert (together.updates, together.env_steps, together.stopped) == (3, 96, None)
    assert [metrics.scalars["entropy"].shape for _, _, metrics in recorder.seen] == [(2, 2), (1, 2)]
    for i, rate in enumerate(rates):
        alone_ppo = dataclasses.replace(PPO_SMALL, learning_rate=rate)
        alone = train(alone_ppo, env, start(keys[i])[1], num_updates=3, updates_per_block=2)
        assert_close(pick_run(together.state, i), alone.state, tolerance=1e-3)
        own = jax.tree.map(lambda x, i=i: x[:, i], together.metrics)
        assert_close(own, alone.metrics, tolerance=1e-3)


def test_the_first_run_whose_loss_is_no_number_is_named(key):
    states = eqx.filter_eval_shape(start_many, jax.random.split(key, 2), clocks(NUM_ENVS))
    bad = np.array([[1, 1], [1, np.nan], [np.nan, np.nan]], np.float32)
    ones, none = jnp.ones((3, 2)), jnp.full((3, 2), -1)
    metrics = Metrics(dict.fromkeys(("grad_norm", "value_loss"), ones), none, ones, ones, none)
    agents.training._train._check_finite(metrics, 4, states)
    metrics = metrics.with_scalars(value_loss=jnp.asarray(bad))
    with pytest.raises(
        NonFiniteLoss, match=r"of update 6 of run 1 is not .* \(first the value loss\)"
    ) as error:
        agents.training._train._check_finite(metrics, 4, states)
    assert (error.value.update, error.value.run) == (6, 1)


def test_hooks_see_every_block(key):
    env, state = start(key)
    recorder = Recorder()
    done = run(env, state, hooks=[recorder, recorder])
    assert [updates for updates, _, _ in recorder.seen] == [2, 2, 4, 4, 6, 6]
    assert [steps for _, steps, _ in recorder.seen[::2]] == [64, 128, 192]
    for _, _, metrics in recorder.seen:
        assert all(isinstance(x, np.ndarray) and x.shape == (2,) for x in jax.tree.leaves(metrics))
    assert (done.updates, done.num_updates, done.env_steps, done.num_env_steps) == (6, 6, 192, 192)
    assert int(done.state.updates) == 6
    assert done.stopped is None
    assert 0 < done.compile_seconds < done.wall_seconds
    assert 0 < done.train_seconds < done.wall_seconds
    rates = [metrics.scalars["learning_rate"] for _, _, metrics in recorder.seen]
    assert rates[-1][-1] == 0 < rates[0][0]


@pytest.mark.slow
def test_a_run_compiles_once_and_other_numbers_or_a_longer_run_not_at_all(key):
    # A length of its own, or a compilation of another test might serve.
    ppo = PPO(rollout_length=14, num_epochs=1, num_minibatches=2)
    others = dataclasses.replace(
        ppo, learning_rate=0.1, gamma=0.5, clip_epsilon=0.1, entropy_coefficient=0.2
    )
    env, state = start(key, ppo=ppo)
    again, longer = start(key, ppo=others)[1], start(key, ppo=ppo)[1]
    blocks = []
    with counted() as compilations:
        hook = lambda progress: blocks.append(len(compilations))  # noqa: E731
        train(ppo, env, state, num_updates=6, updates_per_block=2, hooks=[hook])
        assert blocks == [1, 1, 1]
        other = train(others, env, again, num_updates=6, updates_per_block=2)
        train(ppo, env, longer, num_updates=9, updates_per_block=2)
    assert len(compilations) == 1
    np.testing.assert_allclose(
        other.metrics.scalars["learning_rate"], [0.1 * 2 / 11, 0.0], rtol=1e-5
    )


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


@pytest.mark.parametrize("donate", [False, True])
def test_states_stay_unless_they_are_donated(key, donate):
    states = []
    env, state = start(key)
    hook = lambda progress: states.append(progress.state)  # noqa: E731
    done = run(env, state, num_updates=4, hooks=[hook], donate=donate)
    assert done.state is states[-1]
    older = arrays((state.policy, states[0].policy))
    assert [leaf.is_deleted() for leaf in older] == [donate] * len(older)
    assert not any(leaf.is_deleted() for leaf in arrays(done.state))


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
    like = eqx.filter_eval_shape(lambda: state)
    first = run(env, state, hooks=[stop_at(4)])
    assert (first.updates, first.stopped) == (4, "far enough")
    save(tmp_path / "checkpoint", first.state)
    resumed = run(env, restore(tmp_path / "checkpoint", like))
    _, state = start(key, env=env, **choices)
    whole = run(env, state)
    assert jnp.issubdtype(resumed.state.key.dtype, jax.dtypes.prng_key)
    assert eqx.tree_equal(resumed.state, whole.state)
    assert resumed.env_steps == whole.env_steps


def test_a_finished_run_has_nothing_left_to_do(key):
    env, state = start(key)
    done = train(PPO_SMALL, env, state, num_updates=0)
    assert done.state is state
    assert done.updates == done.num_updates == 0


@pytest.mark.usefixtures("hears_ctrl_c")
def test_ctrl_c_ends_a_loop_over_runs(key):
    def press_ctrl_c(_):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)

    env, state = start(key)
    handler, begun = signal.getsignal(signal.SIGINT), []

    def loop():
        for seed in range(3):
            begun.append(seed)
            run(env, state, num_updates=2, hooks=[press_ctrl_c])

    with pytest.raises(KeyboardInterrupt):
        loop()
    assert begun == [0]
    assert signal.getsignal(signal.SIGINT) is handler


def test_it_stops_when_asked_after_all_hooks_have_seen_the_block(key):
    env, state = start(key)
    recorder = Recorder()
    reason = lambda: "interrupted" if len(recorder.seen) == 2 else None  # noqa: E731
    done = run(env, state, hooks=[stop_at(4), recorder], should_stop=reason)
    assert done.stopped == "interrupted", "it counts more than what a hook says"
    assert done.updates == int(done.state.updates) == 4
    assert [updates for updates, _, _ in recorder.seen] == [2, 4]


def test_a_reason_that_is_given_once_while_a_block_compiles_is_enough(key):
    env, state = start(key)
    recorder, reasons = Recorder(), ["interrupted"]
    once = lambda: reasons.pop() if reasons else None  # noqa: E731
    length = 5  # no other test has compiled this block
    done = run(env, state, updates_per_block=length, hooks=[recorder], should_stop=once)
    assert (done.stopped, done.updates, recorder.seen) == ("interrupted", 0, [])
    assert done.state is state


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
def test_a_loss_that_is_no_number_stops_before_the_hooks(key):
    # With 8 steps to an update, the 21st is in the third one.
    env = Vectorize(Breaks(AutoReset(LogEpisodes(Clock()))), NUM_ENVS)
    _, state = start(key, env=env)
    recorder = Recorder()
    with pytest.raises(NonFiniteLoss, match="update 3 is not a finite number") as error:
        run(env, state, hooks=[recorder])
    assert error.value.update == 3
    # The reward spoils the advantages, and these the actor, whose leaves come first.
    assert error.value.where == "the gradient of actor.network.layers[0].weight"
    assert [updates for updates, _, _ in recorder.seen] == [2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("updates_per_block", "blocks"), [(4, [4, 6]), (1, [1, 2, 3, 4, 5, 6]), (9, [6])]
)
def test_the_last_block_is_as_long_as_is_left(key, updates_per_block, blocks):
    env, state = start(key)
    recorder = Recorder()
    hooks = [recorder]
    done = run(env, state, updates_per_block=updates_per_block, hooks=hooks)
    assert [updates for updates, _, _ in recorder.seen] == blocks
    lengths = [len(metrics.scalars["policy_loss"]) for _, _, metrics in recorder.seen]
    assert lengths == np.diff([0, *blocks]).tolist()
    assert recorder.seen[-1][2].scalars["learning_rate"][-1] == 0
    _, state = start(key)
    whole = run(env, state)
    assert eqx.tree_equal(done.state, whole.state), "blocks change nothing"


def test_numbers_that_do_not_fit_are_refused(key):
    env, state = start(key)
    with pytest.raises(ValueError, match="`updates_per_block` must be at least 1, not 0"):
        run(env, state, updates_per_block=0)
    ahead = eqx.tree_at(lambda s: s.updates, state, jnp.asarray(8))
    with pytest.raises(ValueError, match="`num_updates` is 6, but the state has 8 updates"):
        run(env, ahead)
    with pytest.raises(ValueError, match="num_minibatches=3 does not divide the 32 steps"):
        start(key, ppo=PPO(rollout_length=8, num_minibatches=3))
