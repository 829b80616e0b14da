"""What `train` and its friends ask of an algorithm: one of one's own gets all of it."""

import dataclasses
import functools
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compilations import counted
from learners import assert_close, clocks, loud_mlp

from agents import (
    PPO,
    AbstractAlgorithm,
    AbstractTrainState,
    ActorCritic,
    Block,
    NonFiniteLoss,
    RunnerState,
    TrainState,
    gae,
    init_train_state,
    pick_run,
    ppo_loss,
    restore,
    save,
    train,
    transfer,
)

ENVS = 4


@final
class TalliedState(AbstractTrainState[ActorCritic]):
    """What PPO needs, and a sum."""

    policy: ActorCritic
    runner: RunnerState
    updates: jax.Array
    rest: tuple
    tally: jax.Array
    kept = {"parameters": ("policy", "tally"), "optimizer": ()}  # noqa: RUF012

    @classmethod
    def of(cls, run, tally):
        rest = (run.opt_state, run.value_moments, run.key)
        return cls(run.policy, run.runner, run.updates, rest, tally)

    @property
    def run(self) -> TrainState:
        opt_state, value_moments, key = self.rest
        return TrainState(
            policy=self.policy,
            opt_state=opt_state,
            value_moments=value_moments,
            runner=self.runner,
            key=key,
            updates=self.updates,
        )


@final
class Tallied(AbstractAlgorithm[TalliedState]):
    """PPO that also sums something."""

    ppo: PPO
    weight: float = 1.0

    def init(self, policy, env, key):
        return TalliedState.of(self.ppo.init(policy, env, key), jnp.zeros(()))

    def update(self, env, state, *, num_updates):
        run, metrics = self.ppo.update(env, state.run, num_updates=num_updates)
        tally = state.tally + self.weight
        return TalliedState.of(run, tally), metrics.with_scalars(tally=tally)

    def steps_per_update(self, env):
        return self.ppo.steps_per_update(env)


PLAIN = PPO(rollout_length=8, num_epochs=1, num_minibatches=2)
OWN = Tallied(PLAIN, 0.5)


@pytest.mark.slow
def test_it_trains_as_what_is_inside_of_it(key):
    env = clocks(ENVS)
    own = train(OWN, env, init_train_state(OWN, env, key), num_updates=2)
    plain = train(PLAIN, env, init_train_state(PLAIN, env, key), num_updates=2)
    assert_close(own.state.run, plain.state)
    np.testing.assert_allclose(own.metrics.scalars["tally"], [0.5, 1.0])
    assert own.metrics.scalars.keys() == {*plain.metrics.scalars, "tally"}


def test_it_goes_on_from_a_checkpoint(key, tmp_path):
    env = clocks(ENVS)
    start = init_train_state(OWN, env, key)
    half = train(OWN, env, start, num_updates=2).state
    save(tmp_path / "half", half)
    again = restore(tmp_path / "half", like=start)
    length = {"num_updates": 4, "updates_per_block": 2}
    ends = [train(OWN, env, state, **length).state for state in (half, again)]
    assert eqx.tree_equal(*ends)
    assert ends[0].tally == 2.0


def test_many_are_trained_at_once(key):
    env = clocks(ENVS)
    start = eqx.filter_vmap(lambda key: init_train_state(OWN, env, key))
    many = dataclasses.replace(OWN, weight=jnp.array([0.5, 2.0]))
    done = train(many, env, start(jax.random.split(key, 2)), num_updates=2)
    np.testing.assert_allclose(done.metrics.scalars["tally"], [[0.5, 2.0], [1.0, 4.0]])
    assert pick_run(done.state, 1).tally == 4.0


def test_it_is_transferred_as_its_state_says(key):
    env = clocks(ENVS)
    state, fresh = (init_train_state(OWN, env, k) for k in jax.random.split(key))
    state = train(OWN, env, state, num_updates=2).state
    moved = transfer(state, fresh, env)
    assert eqx.tree_equal(moved.policy, state.policy)
    assert (moved.tally, moved.updates) == (1.0, 2)
    assert eqx.tree_equal(moved.run.opt_state, fresh.run.opt_state)
    assert eqx.tree_equal(transfer(state, fresh, env, keep=()).policy, fresh.policy)


def test_a_metric_that_is_no_number_ends_the_run(key):
    env, bad = clocks(ENVS), dataclasses.replace(OWN, weight=float("inf"))
    state = init_train_state(bad, env, key)
    with pytest.raises(NonFiniteLoss, match=r"of update 1 is not .* \(first the tally\)"):
        train(bad, env, state, num_updates=2)
    many = dataclasses.replace(OWN, weight=jnp.array([1.0, 2e38, jnp.inf]))
    state = eqx.filter_vmap(lambda key: init_train_state(OWN, env, key))(jax.random.split(key, 3))
    with pytest.raises(NonFiniteLoss, match=r"of update 1 of run 2 is not") as error:
        train(many, env, state, num_updates=2)
    assert (error.value.update, error.value.run) == (1, 2)


def scaled(policy, batch, ppo, entropy_coefficient, *, scale):
    loss, parts = ppo_loss(policy, batch, ppo, entropy_coefficient)
    return scale * loss, parts | {"scaled": scale * loss}


@final
class Scaled(eqx.Module):
    scale: float | jax.Array

    def __call__(self, *args):
        return scaled(*args, scale=self.scale)


def partly(scale):
    return functools.partial(scaled, scale=scale)


@pytest.mark.parametrize("loss", [Scaled, partly])
def test_another_loss_is_what_is_learned_and_its_numbers_are_settings(loss, key):
    env, free = clocks(ENVS), dataclasses.replace(PLAIN, max_grad_norm=1e9)

    def norm(ppo):
        state = init_train_state(ppo, env, key, network=loud_mlp)
        return train(ppo, env, state, num_updates=1).metrics.scalars

    plain, once = norm(free), norm(dataclasses.replace(free, loss=loss(1.0)))
    assert once.keys() == {*plain, "scaled"}
    np.testing.assert_allclose(once["grad_norm"], plain["grad_norm"], rtol=1e-3)
    with counted() as compilations:
        twice = norm(dataclasses.replace(free, loss=loss(2.0)))
    assert compilations == []
    assert twice["grad_norm"][0] > 1.5 * once["grad_norm"][0]


def test_equal_algorithms_have_equal_structures():
    """Whatever their functions are: another structure would be another program."""
    for make in (
        PPO,
        lambda: PPO(loss=scaled),
        lambda: PPO(loss=Scaled(0.5)),
        lambda: PPO(loss=partly(0.5), advantage=functools.partial(gae)),
    ):
        assert eqx.tree_equal(make(), make())
        assert all(type(x) is float for x in jax.tree.leaves(make()))
    other = jax.tree.structure(PPO(loss=Scaled(0.7)))
    assert other == jax.tree.structure(PPO(loss=Scaled(0.5))) != jax.tree.structure(PPO())


def test_what_is_extra_is_kept(key, tmp_path):
    env = clocks(ENVS)
    extra = {"count": jnp.asarray(3), "key": key}
    fresh = init_train_state(PLAIN, env, key)
    state = dataclasses.replace(fresh, extra=extra)
    state = train(PLAIN, env, state, num_updates=1).state
    assert eqx.tree_equal(state.extra, extra)
    assert eqx.tree_equal(transfer(state, fresh, env).extra, extra)
    assert transfer(state, fresh, env, keep=()).extra is None
    save(tmp_path / "run", state)
    assert eqx.tree_equal(restore(tmp_path / "run", like=state), state)


def test_an_array_that_a_state_has_twice_can_be_donated(key):
    env = clocks(ENVS)
    start = init_train_state(PLAIN, env, key)
    start = dataclasses.replace(start, extra=start.policy.actor)  # as a target network
    kept = jax.tree.map(jnp.copy, eqx.filter(start.extra, eqx.is_array))
    state, _ = Block(PLAIN, env, num_updates=2, length=2)(start)
    assert eqx.tree_equal(eqx.filter(state.extra, eqx.is_array), kept)
    assert not eqx.tree_equal(state.policy.actor, state.extra)
