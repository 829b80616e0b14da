"""Proximal policy optimisation, for feed-forward and recurrent policies."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped
from msgspec import Meta

from agents.policies._heads import ActionDistribution
from agents.policies._policy import ActorCritic
from eqgrid import AbstractVectorEnv, RunningMoments

from ._batch import Batch, cut_rollout, minibatch, nearest_divisors, shuffle
from ._gae import AdvantageEstimator, gae
from ._rollout import Rollout, collect_rollout
from ._runner import RunnerState, init_runner

_ADAM_EPS = 1e-5
_VALUE_EPS = 1e-5

Hyperparameter: TypeAlias = float | Float[Array, "..."]
"""A number, or an array: a vector holds the values of a sweep under `eqx.filter_vmap`."""


class _Range(NamedTuple):
    """The range of a setting, with its wording in error messages."""

    words: str
    contains: Callable[[Any], Any]


_POSITIVE = _Range("above 0", lambda x: x > 0)
_NOT_NEGATIVE = _Range("at least 0", lambda x: x >= 0)
_AT_LEAST_ONE = _Range("at least 1", lambda x: x >= 1)
_SHARE = _Range("between 0 and 1", lambda x: (x >= 0) & (x <= 1))


def _count(default: int, limits: _Range) -> Any:
    """A static field for an integer, which determines shapes."""
    return eqx.field(default=default, static=True, metadata={"range": limits})


def _number(default: float, limits: _Range) -> Any:
    """A field for a `Hyperparameter`; integers and NumPy scalars are converted to `float`."""
    return eqx.field(default=default, converter=_as_float, metadata={"range": limits})


def _as_float(x: Any) -> Any:
    return float(x) if isinstance(x, int | np.number) else x


_Learner: TypeAlias = tuple[PyTree[Float[Array, "..."]], PyTree, Bool[Array, ""]]
"""The parameters, the state of the optimiser, and whether `target_kl` has been exceeded."""


@final
class TrainState(eqx.Module):
    """The state of a training run between two updates.

    **Arguments:**

    - `policy`: the parameters.
    - `opt_state`: the state of the optimiser.
    - `value_moments`: the moments of the critic's targets so far, with which they are standardised
        if `PPO.normalize_values` is set; empty otherwise.
    - `runner`: the state of the environments, including the moments and the episode statistics of
        their wrappers, and of the agents.
    - `key`: the source of all further randomness.
    - `updates`: the number of updates made so far.
    """

    policy: ActorCritic
    opt_state: PyTree
    value_moments: RunningMoments
    runner: RunnerState
    key: PRNGKeyArray
    updates: Int[Array, "*runs"]


@final
class Metrics(eqx.Module):
    """Metrics of one update. The first six are means over its gradient steps.

    **Arguments:**

    - `policy_loss`, `value_loss`, `entropy`: the three parts of the loss; the entropy is in nats.
    - `approx_kl`: the approximate KL divergence from the policy that collected the rollout, in nats
        (the third estimator of Schulman 2020, "Approximating KL divergence").
    - `clip_fraction`: the fraction of the minibatch with a policy ratio outside of the clip range.
    - `grad_norm`: the global norm of the gradient before clipping.
    - `bad_leaf`: the first parameter whose gradient was not finite, as its index among the trained
        leaves of the policy; -1 if all were finite.
    - `explained_variance`: the fraction of the variance of the critic's targets that its values
        explain, before the update; at most 1.
    - `learning_rate`: the learning rate of the last gradient step.
    - `episode_return`, `episode_length`: means over the agents and over the episodes that ended
        in the rollout (raw rewards; steps); 0 if none ended.
    - `episodes`: the number of episodes that ended in the rollout.
    """

    policy_loss: Float[Array, "*updates"]
    value_loss: Float[Array, "*updates"]
    entropy: Float[Array, "*updates"]
    approx_kl: Float[Array, "*updates"]
    clip_fraction: Float[Array, "*updates"]
    grad_norm: Float[Array, "*updates"]
    bad_leaf: Int[Array, "*updates"]
    explained_variance: Float[Array, "*updates"]
    learning_rate: Float[Array, "*updates"]
    episode_return: Float[Array, "*updates"]
    episode_length: Float[Array, "*updates"]
    episodes: Int[Array, "*updates"]


@final
class PPO(eqx.Module):
    """Proximal policy optimisation with a clipped ratio (Schulman et al. 2017).

    Settings of type float may be arrays. `init_train_state` and `train` convert them to arrays, so
    other values do not recompile; vectors of values are a sweep under `eqx.filter_vmap`. Integers
    and booleans determine shapes and branches, so they are static.
    """

    rollout_length: Annotated[int, Meta(ge=1, le=2**20)] = _count(128, _AT_LEAST_ONE)
    """Steps per environment and update."""
    num_epochs: Annotated[int, Meta(ge=1, le=2**20)] = _count(4, _AT_LEAST_ONE)
    """Passes over the rollout per update."""
    num_minibatches: Annotated[int, Meta(ge=1, le=2**24)] = _count(8, _AT_LEAST_ONE)
    """Gradient steps per epoch."""
    learning_rate: Hyperparameter = _number(1e-3, _POSITIVE)
    """Learning rate of Adam."""
    anneal_learning_rate: bool = eqx.field(default=True, static=True)
    """Lower the learning rate linearly, to 0 at the last gradient step."""
    critic_learning_rate: Hyperparameter = _number(0.0, _NOT_NEGATIVE)
    """Learning rate of the critic (0: that of the actor)."""
    gamma: Hyperparameter = _number(0.99, _SHARE)
    """Discount factor."""
    gae_lambda: Hyperparameter = _number(0.95, _SHARE)
    """GAE lambda: decay of the trace per step."""
    clip_epsilon: Hyperparameter = _number(0.2, _POSITIVE)
    """Clip range of the policy ratio, around 1."""
    value_clip: Hyperparameter = _number(0.0, _NOT_NEGATIVE)
    """Clip range of a value, around its old one (0: no clipping)."""
    normalize_values: bool = eqx.field(default=False, static=True)
    """Critics predict standardised returns."""
    huber_delta: Hyperparameter = _number(0.0, _NOT_NEGATIVE)
    """Huber threshold of value errors, in units of the critic's output (0: off)."""
    target_kl: Hyperparameter = _number(0.0, _NOT_NEGATIVE)
    """Stop updating on a rollout above this KL divergence, in nats (0: never)."""
    entropy_coefficient: Hyperparameter = _number(0.01, _NOT_NEGATIVE)
    """Weight of the entropy bonus at the start, per nat."""
    entropy_coefficient_end: Hyperparameter = _number(0.0, _NOT_NEGATIVE)
    """Weight of the entropy bonus at the end, reached linearly."""
    value_coefficient: Hyperparameter = _number(0.5, _NOT_NEGATIVE)
    """Weight of the critic's loss."""
    max_grad_norm: Hyperparameter = _number(0.5, _POSITIVE)
    """Maximum global norm of the gradient."""
    normalize_advantages: bool = eqx.field(default=True, static=True)
    """Standardise the advantages of every minibatch."""
    advantage_std_offset: Hyperparameter = _number(1e-8, _NOT_NEGATIVE)
    """Added to the deviation of advantages, in rewards; a large one damps noise."""
    chunk_length: Annotated[int, Meta(ge=0, le=2**20)] = _count(0, _NOT_NEGATIVE)
    """Steps per training sequence of a recurrent policy (0: the whole rollout)."""
    advantage: AdvantageEstimator = eqx.field(default=gae, static=True)
    """Function that estimates advantages; set in code, since it has no flag."""

    def __check_init__(self):
        """Checks the ranges of all settings that are not traced; `init` checks the others.

        **Raises:** `ValueError` when a setting is out of its range.
        """
        for name, limits in _ranges().items():
            number = getattr(self, name)
            if not isinstance(number, Tracer) and not np.all(limits.contains(np.asarray(number))):
                raise ValueError(f"{name} must be {limits.words}, but it is {number}.")

    def with_arrays(self) -> "PPO":
        """Converts settings of type float to arrays, which are inputs of a compiled program.

        **Returns:** the settings, with 32-bit arrays in place of floats; arrays are kept.
        """
        return jax.tree.map(
            lambda x: jax.device_put(np.float32(x)) if isinstance(x, float) else x, self
        )

    def init(self, policy: ActorCritic, env: AbstractVectorEnv, key: PRNGKeyArray) -> TrainState:
        """Initialises a run.

        **Arguments:**

        - `policy`: the parameters to start from.
        - `env`: the environments.
        - `key`: the source of all randomness of the run.

        **Returns:** the state before the first update.

        **Raises:** `ValueError` when `chunk_length` or `num_minibatches` does not divide the
        rollout, and `eqx.EquinoxRuntimeError` when a traced setting is out of its range.
        """
        self.check(env, policy.recurrent)
        key, init_key = jax.random.split(key)
        parameters, rest = eqx.partition(policy, eqx.is_inexact_array)
        parameters = _check_traced(self, parameters)
        opt_state = self.optimiser(1).init(parameters)
        policy = eqx.combine(parameters, rest)
        runner = init_runner(policy, env, init_key)
        updates = jnp.zeros((), dtype=jnp.int32)
        return TrainState(policy, opt_state, RunningMoments.empty(()), runner, key, updates)

    def update(
        self, env: AbstractVectorEnv, state: TrainState, *, num_updates: int | Int[Array, ""]
    ) -> tuple[TrainState, Metrics]:
        """Makes one update: collects a rollout, and updates the policy on it.

        **Arguments:**

        - `env`: the environments.
        - `state`: the state of the run.
        - `num_updates`: the number of updates of the whole run, over which settings are annealed.

        **Returns:** the next state, and the metrics of the update.

        **Raises:** `ValueError` when `chunk_length` or `num_minibatches` does not divide the
        rollout.
        """
        self.check(env, state.policy.recurrent)
        key, collect_key, learn_key = jax.random.split(state.key, 3)
        rollout, runner = collect_rollout(
            state.policy, env, state.runner, collect_key, self.rollout_length
        )
        learner = (state.policy, state.opt_state, state.value_moments)
        policy, opt_state, moments, metrics = self.learn(
            *learner, rollout, learn_key, state.updates, num_updates=num_updates
        )
        return TrainState(policy, opt_state, moments, runner, key, state.updates + 1), metrics

    def learn(
        self,
        policy: ActorCritic,
        opt_state: PyTree,
        value_moments: RunningMoments,
        rollout: Rollout,
        key: PRNGKeyArray,
        updates: Int[Array, ""],
        *,
        num_updates: int | Int[Array, ""],
    ) -> tuple[ActorCritic, PyTree, RunningMoments, Metrics]:
        """Updates the policy on one rollout.

        **Arguments:**

        - `policy`, `opt_state`: the parameters that collected the rollout, and the state of the
            optimiser.
        - `value_moments`: the moments of all targets of the critic so far.
        - `rollout`: the rollout.
        - `key`: the source of randomness of the minibatches.
        - `updates`: the number of updates made before this one.
        - `num_updates`: the number of updates of the whole run, over which settings are annealed.

        **Returns:** the next parameters, the next state of the optimiser, the moments after the new
        targets, and the metrics of the update.
        """
        batch, next_moments = self.batch(policy, rollout, value_moments)
        rows = shuffle(key, len(batch.value), self.num_epochs, self.num_minibatches)
        parameters, rest = eqx.partition(policy, eqx.is_inexact_array)
        optimiser = self.optimiser(num_updates)
        entropy_coefficient = self.entropy_coefficient_at(updates, num_updates)
        step = functools.partial(_gradient_step, self, optimiser, rest, batch, entropy_coefficient)
        learner = (parameters, opt_state, jnp.zeros((), dtype=bool))
        (parameters, opt_state, _), losses = jax.lax.scan(step, learner, rows)
        steps_per_update = self.num_epochs * self.num_minibatches
        last_step = (updates + 1) * steps_per_update - 1
        bad_leaf = losses.pop("bad_leaf")
        metrics = Metrics(
            **{name: jnp.mean(x) for name, x in losses.items()},
            bad_leaf=bad_leaf[jnp.argmax(bad_leaf >= 0)],
            explained_variance=self._explained_variance(batch, value_moments, next_moments),
            learning_rate=self.learning_rate_at(num_updates * steps_per_update, last_step),
            **_episode_metrics(rollout.info),
        )
        return eqx.combine(parameters, rest), opt_state, next_moments, metrics

    def batch(
        self, policy: ActorCritic, rollout: Rollout, value_moments: RunningMoments
    ) -> tuple[Batch, RunningMoments]:
        """Builds the training batch of a rollout: sequences of single steps, or of chunks of steps
        for a recurrent policy.

        **Arguments:**

        - `policy`: the policy that collected the rollout.
        - `rollout`: the rollout.
        - `value_moments`: the moments of all targets of the critic so far. If values are
            normalised, those of the rollout are standardised with these moments, and the targets of
            the batch with the returned ones.

        **Returns:** the batch, which contains every step once, and the moments after the new
        targets.
        """
        value, next_value = rollout.value, rollout.next_value
        if self.normalize_values:
            value, next_value = (_in_rewards(x, value_moments) for x in (value, next_value))
        advantage = self.advantage(
            rollout.reward,
            value,
            next_value,
            rollout.terminated,
            rollout.done,
            gamma=self.gamma,
            gae_lambda=self.gae_lambda,
        )
        target = advantage + value
        if self.normalize_values:
            value_moments = value_moments.update(target.reshape(-1), rollout.active.reshape(-1))
            target = _standardized(target, value_moments)
        chunk = self._chunk(len(rollout.value), policy.recurrent)
        return cut_rollout(rollout, advantage, target, chunk), value_moments

    def optimiser(self, num_updates: int | Int[Array, ""]) -> optax.GradientTransformation:
        """Adam (Kingma & Ba 2015) with the run's learning-rate schedule, after clipping the global
        norm of the gradient.
        """
        num_steps = num_updates * self.num_epochs * self.num_minibatches
        schedule = functools.partial(self.learning_rate_at, num_steps)
        return optax.chain(
            optax.clip_by_global_norm(self.max_grad_norm), optax.adam(schedule, eps=_ADAM_EPS)
        )

    def learning_rate_at(
        self, num_steps: int | Int[Array, ""], step: ArrayLike
    ) -> Float[Array, ""]:
        """The learning rate of one gradient step of the run.

        **Arguments:**

        - `num_steps`: the number of gradient steps of the whole run.
        - `step`: the number of gradient steps made before this one.
        """
        learning_rate = jnp.asarray(self.learning_rate, dtype=jnp.float32)
        if not self.anneal_learning_rate:
            return learning_rate
        return learning_rate * (1 - _share_done(step, num_steps))

    def with_critic_rate(self, change: PyTree) -> PyTree:
        """Scales the critic's part of an update of all parameters to the learning rate of the
        critic, to which steps of Adam are proportional.
        """
        ratio = jnp.asarray(self.critic_learning_rate / self.learning_rate, dtype=jnp.float32)
        ratio = jnp.where(ratio > 0, ratio, 1.0)
        critic = jax.tree.map(lambda x: x * ratio, change.critic)
        return eqx.tree_at(lambda c: c.critic, change, critic)

    def entropy_coefficient_at(
        self, update: Int[Array, ""], num_updates: int | Int[Array, ""]
    ) -> Float[Array, ""]:
        """The weight of the entropy bonus in one update of the run; updates are counted from 0."""
        start = jnp.asarray(self.entropy_coefficient, dtype=jnp.float32)
        return start + _share_done(update, num_updates) * (self.entropy_coefficient_end - start)

    def _explained_variance(
        self, batch: Batch, before: RunningMoments, after: RunningMoments
    ) -> Float[Array, ""]:
        """The explained variance of the targets by the values, both converted to units of the
        reward, since normalised ones were standardised with different moments.
        """
        value, target = batch.value, batch.target
        if self.normalize_values:
            value, target = _in_rewards(value, before), _in_rewards(target, after)
        variance = _variance(target, batch.active)
        unexplained = _variance(target - value, batch.active)
        return jnp.where(variance > 0, 1 - unexplained / variance, 0.0)

    def check(self, env: AbstractVectorEnv, recurrent: bool):
        """Checks that `chunk_length` and `num_minibatches` divide a rollout.

        **Arguments:**

        - `env`: the environments.
        - `recurrent`: whether the policy is recurrent; `chunk_length` is ignored if it is not.

        **Raises:** `ValueError` that names the nearest settings that do.
        """
        num_envs = env.num_envs
        chunk = self._chunk(self.rollout_length, recurrent)
        if self.rollout_length % chunk:
            raise ValueError(
                f"chunk_length={chunk} does not divide rollout_length={self.rollout_length}; the "
                f"nearest that do are {nearest_divisors(chunk, self.rollout_length)}."
            )
        sequences = self.rollout_length // chunk * num_envs
        if sequences % self.num_minibatches:
            what = "steps" if chunk == 1 else f"chunks of {chunk} steps"
            raise ValueError(
                f"num_minibatches={self.num_minibatches} does not divide the {sequences} {what} of "
                f"a rollout ({self.rollout_length} steps in each of {num_envs} environments); the "
                f"nearest that do are {nearest_divisors(self.num_minibatches, sequences)}."
            )

    def _chunk(self, length: int, recurrent: bool) -> int:
        if not recurrent:
            return 1
        return self.chunk_length or length


def replay(
    policy: ActorCritic, batch: Batch
) -> tuple[ActionDistribution, Float[Array, "chunk sequences agents"]]:
    """Computes the action distributions and the values of a minibatch with the policy.

    **Returns:** the distributions of the choices, and the values.
    """
    unroll = jax.vmap(policy.unroll, in_axes=(1, 0, 1), out_axes=1)
    return unroll(batch.observation, batch.carry, batch.start)


def ppo_loss(
    policy: ActorCritic, batch: Batch, ppo: PPO, entropy_coefficient: float | Float[Array, ""]
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """The loss of a minibatch (Schulman et al. 2017, equations 7 and 9), over its active steps.

    The critic's loss is half the squared error. If `value_clip` is set, it is the larger one of the
    errors of the value and of the clipped value. Errors beyond `huber_delta` count linearly (Huber
    1964, "Robust Estimation of a Location Parameter").

    **Arguments:**

    - `policy`: the policy with the current parameters.
    - `batch`: the minibatch.
    - `ppo`: the settings.
    - `entropy_coefficient`: the weight of the entropy bonus in this update.

    **Returns:** the loss, and further metrics by the names of their fields in `Metrics`.
    """
    distribution, value = replay(policy, batch)
    log_ratio = distribution.log_prob(batch.raw_action) - batch.log_prob
    ratio = jnp.exp(log_ratio)
    advantage, mean = batch.advantage, functools.partial(_mean, active=batch.active)
    if ppo.normalize_advantages:
        centred = advantage - mean(advantage)
        deviation = jnp.sqrt(mean(jnp.square(centred)))
        advantage = centred / (deviation + ppo.advantage_std_offset)
    clipped_ratio = jnp.clip(ratio, 1 - ppo.clip_epsilon, 1 + ppo.clip_epsilon)
    policy_loss = -mean(jnp.minimum(ratio * advantage, clipped_ratio * advantage))
    error = jnp.abs(value - batch.target)
    clipped_value = batch.value + jnp.clip(value - batch.value, -ppo.value_clip, ppo.value_clip)
    larger_error = jnp.maximum(error, jnp.abs(clipped_value - batch.target))
    error = jnp.where(ppo.value_clip > 0, larger_error, error)
    huber = optax.huber_loss(error, delta=ppo.huber_delta)
    value_loss = mean(jnp.where(ppo.huber_delta > 0, huber, 0.5 * jnp.square(error)))
    mean_entropy = mean(policy.head.entropy(distribution))
    loss = policy_loss + ppo.value_coefficient * value_loss - entropy_coefficient * mean_entropy
    parts = {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": mean_entropy,
        "approx_kl": mean(ratio - 1 - log_ratio),
        "clip_fraction": mean((jnp.abs(ratio - 1) > ppo.clip_epsilon).astype(jnp.float32)),
    }
    return loss, parts


def _gradient_step(
    ppo: PPO,
    optimiser: optax.GradientTransformation,
    rest: ActorCritic,
    batch: Batch,
    entropy_coefficient: Float[Array, ""],
    state: _Learner,
    rows: Int[Array, " sequences"],
) -> tuple[_Learner, dict[str, Float[Array, ""]]]:
    """One step of the optimiser. The parameters are the floating-point arrays of a policy, and
    `rest` is the same policy without them. Once `target_kl` is exceeded, neither the parameters nor
    the moments of the optimiser change; its counts do, so that the learning-rate schedule
    continues.
    """
    parameters, opt_state, past_target_kl = state
    gradient, parts = eqx.filter_grad(ppo_loss, has_aux=True)(
        eqx.combine(parameters, rest), minibatch(batch, rows), ppo, entropy_coefficient
    )
    grad_norm = optax.tree.norm(gradient)
    # Optax raises a Python float to an int32 power, which strict dtype promotion rejects.
    with jax.numpy_dtype_promotion("standard"):
        change, next_opt_state = optimiser.update(gradient, opt_state, parameters)
    past_target_kl |= (ppo.target_kl > 0) & (parts["approx_kl"] > ppo.target_kl)
    bad_leaf = jax.lax.cond(jnp.isfinite(grad_norm), _no_leaf, _first_bad_leaf, gradient)
    parts |= {"grad_norm": grad_norm, "bad_leaf": bad_leaf}
    moved = (optax.apply_updates(parameters, ppo.with_critic_rate(change)), next_opt_state)
    kept = jax.tree.map(
        lambda new, old: jnp.where(past_target_kl & eqx.is_inexact_array(new), old, new),
        moved,
        (parameters, opt_state),
    )
    return (*kept, past_target_kl), parts


def _no_leaf(_: PyTree) -> Int[Array, ""]:
    return jnp.asarray(-1, dtype=jnp.int32)


def _first_bad_leaf(gradient: PyTree[Float[Array, "..."]]) -> Int[Array, ""]:
    bad = jnp.stack([~jnp.isfinite(x).all() for x in jax.tree.leaves(gradient)])
    return jnp.where(bad.any(), jnp.argmax(bad), -1).astype(jnp.int32)


def _in_rewards(value: Float[Array, "..."], moments: RunningMoments) -> Float[Array, "..."]:
    return moments.mean + _deviation(moments) * value


def _standardized(value: Float[Array, "..."], moments: RunningMoments) -> Float[Array, "..."]:
    return (value - moments.mean) / _deviation(moments)


def _deviation(moments: RunningMoments) -> Float[Array, ""]:
    return jnp.sqrt(moments.variance + _VALUE_EPS)


def _mean(x: Float[Array, "..."], active: Bool[Array, "..."]) -> Float[Array, ""]:
    """The mean over the active entries; 0 if there are none."""
    number = jnp.maximum(active.sum(dtype=jnp.int32), 1).astype(x.dtype)
    return jnp.where(active, x, 0.0).sum() / number


def _variance(x: Float[Array, "..."], active: Bool[Array, "..."]) -> Float[Array, ""]:
    return _mean(jnp.square(x - _mean(x, active)), active)


def _episode_metrics(info: dict[str, Shaped[Array, "time envs ..."]]) -> dict[str, Array]:
    if "episode_done" not in info:
        nothing = jnp.zeros((), dtype=jnp.float32)
        count = jnp.zeros((), dtype=jnp.int32)
        return {"episode_return": nothing, "episode_length": nothing, "episodes": count}
    done = info["episode_done"]
    return {
        "episode_return": _mean(info["episode_return"].mean(axis=-1), done),
        "episode_length": _mean(info["episode_length"].astype(jnp.float32), done),
        "episodes": done.sum(dtype=jnp.int32),
    }


def _share_done(made: ArrayLike, total: int | Int[Array, ""]) -> Float[Array, ""]:
    """The progress of a run: 0 in its first update or gradient step, 1 in the last; 0 if there is
    only one.
    """
    last = jnp.asarray(total, dtype=jnp.int32) - 1
    share = jnp.asarray(made).astype(jnp.float32) / jnp.maximum(last, 1).astype(jnp.float32)
    return jnp.where(last > 0, jnp.minimum(share, 1.0), 0.0)


def _check_traced(ppo: PPO, parameters: PyTree) -> PyTree:
    """The parameters, with a check at run time that all traced settings are in their ranges."""
    traced = {x: y for x, y in _ranges().items() if isinstance(getattr(ppo, x), Tracer)}
    if not traced:
        return parameters
    wrong = jnp.stack([~jnp.all(y.contains(getattr(ppo, x))) for x, y in traced.items()])
    sentences = [f"{name} must be {limits.words}." for name, limits in traced.items()]
    return eqx.branched_error_if(parameters, jnp.any(wrong), jnp.argmax(wrong), sentences)


def _ranges() -> dict[str, _Range]:
    """The ranges of the settings, by the names of their fields."""
    fields = dataclasses.fields(PPO)
    return {x.name: x.metadata["range"] for x in fields if "range" in x.metadata}
