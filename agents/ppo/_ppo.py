"""Proximal policy optimisation, for feed-forward and recurrent policies."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Protocol, TypeAlias, final, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer
from jax.tree_util import Partial
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from msgspec import Meta

from eqgrid import RunningMoments, VectorEnvironment
from eqgrid.typing import PyTree

from ..policies import ActionDistribution, ActorCritic
from ._algorithm import AbstractCheckedAlgorithm, AbstractTrainState, Metrics, mean_over
from ._batch import Minibatch, cut_rollout, minibatch, nearest_divisors, shuffle
from ._gae import AdvantageEstimator, gae
from ._rollout import Rollout, collect_rollout
from ._runner import RunnerState, init_runner

# Larger than the usual 1e-8. Before the first reward, gradients are tiny and noisy. Adam would
# divide them by their own size, and take full steps along the noise.
_ADAM_EPS = 1e-5
# Keeps standardised values finite while all targets of the critic are equal.
_VALUE_EPS = 1e-5

Hyperparameter: TypeAlias = float | Float[Array, "..."]
"""A number, or an array: a vector holds the values of a sweep under `eqx.filter_vmap`."""

_Range: TypeAlias = tuple[str, Callable[[Any], Any]]
"""The range of a setting: its name in error messages, and a test whether a number is in it."""

_POSITIVE: _Range = ("above 0", lambda x: x > 0)
_NOT_NEGATIVE: _Range = ("at least 0", lambda x: x >= 0)
_AT_LEAST_ONE: _Range = ("at least 1", lambda x: x >= 1)
_ZERO_TO_ONE: _Range = ("between 0 and 1", lambda x: (x >= 0) & (x <= 1))


def _count(default: int, limits: _Range) -> Any:
    """A static field for an integer, since it determines shapes."""
    return eqx.field(default=default, static=True, metadata={"range": limits})


def _number(default: float, limits: _Range) -> Any:
    """A field for a `Hyperparameter`; integers and NumPy scalars are converted to `float`."""

    def to_float(x: Any) -> Any:
        return float(x) if isinstance(x, int | np.number) else x

    return eqx.field(default=default, converter=to_float, metadata={"range": limits})


def _as_pytree(function: Any) -> Any:
    """Converts a function to a PyTree without leaves, and the arguments that `functools.partial`
    binds to leaves. So new coefficients do not recompile, and equal functions have equal
    structures. A Module is a PyTree already.
    """
    if isinstance(function, eqx.Module | Partial):
        return function
    if isinstance(function, functools.partial):
        return Partial(function.func, *function.args, **function.keywords)
    return Partial(function)


@final
class TrainState(AbstractTrainState[ActorCritic]):
    """The state of a run of `PPO` between two updates.

    ```python
    import jax

    from agents import PPO, init_train_state, save_policy, trained_policy
    from eqgrid import AutoReset, LogEpisodes, Vectorize, make

    env = Vectorize(AutoReset(LogEpisodes(make("goals"))), num_envs=4)
    state = init_train_state(PPO(), env, jax.random.key(0))
    save_policy("policy.safetensors", trained_policy(state.policy, env))
    print(int(state.updates))  # 0
    ```

    **Arguments:**

    - `policy`: the parameters.
    - `opt_state`: the state of the optimiser.
    - `value_moments`: the moments of the critic's targets so far, which standardise the targets if
        `PPO.normalize_values` is set; empty otherwise.
    - `runner`: the state of the environments and of the agents. It includes the moments and the
        episode statistics of wrappers.
    - `key`: the source of all further randomness.
    - `updates`: the number of updates made so far.
    - `extra`: the state of an algorithm around `PPO`; `PPO` itself does not change it.
    """

    policy: ActorCritic
    opt_state: PyTree
    value_moments: RunningMoments
    runner: RunnerState
    key: PRNGKeyArray
    updates: Int[Array, "*runs"]
    extra: PyTree = None
    kept: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "parameters": ("policy", "value_moments", "extra"),
        "optimizer": ("opt_state",),
    }


@runtime_checkable
class Loss(Protocol):
    """The type of `PPO.loss`: `ppo_loss`, or another function or Module with the same arguments."""

    def __call__(
        self,
        policy: ActorCritic,
        batch: Minibatch,
        ppo: "PPO",
        entropy_coefficient: float | Float[Array, ""],
        /,
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """Computes the loss of a minibatch, which PPO differentiates with respect to the policy.

        `replay` computes the distributions and values of the current policy. Steps that are not
        `active` must not contribute.

        **Arguments:**

        - `policy`: the policy with the current parameters.
        - `batch`: the minibatch.
        - `ppo`: the settings.
        - `entropy_coefficient`: the weight of the entropy bonus in this update.

        **Returns:** the loss, and further numbers by name, which become `Metrics.scalars`.
        """
        ...


def replay(
    policy: ActorCritic, batch: Minibatch
) -> tuple[ActionDistribution, Float[Array, "chunk sequences agents"]]:
    """Computes the action distributions and the values of a minibatch with the policy.

    **Returns:** the distributions of the choices, and the values.
    """
    # Sequences are the second axis of observations and starts, and the first axis of the carry.
    unroll = jax.vmap(policy.unroll, in_axes=(1, 0, 1), out_axes=1)
    return unroll(batch.rollout.observation, batch.carry, batch.rollout.start)


def ppo_loss(
    policy: ActorCritic, batch: Minibatch, ppo: "PPO", entropy_coefficient: float | Float[Array, ""]
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """The loss of a minibatch (Schulman et al. 2017, equations 7 and 9), over its active steps.

    The critic's loss is half the squared error.

    **Arguments:**

    - `policy`: the policy with the current parameters.
    - `batch`: the minibatch.
    - `ppo`: the settings.
    - `entropy_coefficient`: the weight of the entropy bonus in this update.

    **Returns:** the loss, and further numbers by name; `PPO.learn` describes them.
    """
    return loss_of_choices(policy, *replay(policy, batch), batch, ppo, entropy_coefficient)


def loss_of_choices(
    policy: ActorCritic,
    distribution: Any,
    value: Float[Array, "chunk sequences agents"],
    batch: Minibatch,
    ppo: "PPO",
    entropy_coefficient: float | Float[Array, ""],
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """As `ppo_loss`, for a loss that has already computed the distributions and values.

    **Arguments:**

    - `distribution`, `value`: the results of `replay` for the minibatch.
    - All other arguments are as in `ppo_loss`.

    **Returns:** as `ppo_loss`.
    """
    # The ratio is the probability of each choice now, divided by its probability in the rollout. It
    # is computed from the raw actions, since a clipped or scaled action has no log-density.
    old, advantage = batch.rollout, batch.advantage
    log_ratio = distribution.log_prob(old.raw_action) - old.log_prob
    ratio = jnp.exp(log_ratio)
    # All means are over active steps; the advantages of other steps have no meaning.
    mean = functools.partial(mean_over, counted=old.active)
    if ppo.normalize_advantages:
        centred = advantage - mean(advantage)
        deviation = jnp.sqrt(mean(jnp.square(centred)))
        # Before the first reward, all advantages are noise of the critic. An offset of the size of
        # a reward keeps this noise small, where standardising would scale it to 1.
        advantage = centred / (deviation + ppo.advantage_std_offset)
    clipped_ratio = jnp.clip(ratio, 1 - ppo.clip_epsilon, 1 + ppo.clip_epsilon)
    # The minimum removes the gradient only where the ratio has left the range in the direction of
    # the advantage. So a step in the wrong direction can always be undone.
    policy_loss = -mean(jnp.minimum(ratio * advantage, clipped_ratio * advantage))
    # Clipped values and the Huber loss are not better, neither in our experiments
    # (docs/log/2026-11-ppo-options.md) nor in Andrychowicz et al. 2021, "What Matters for On-Policy
    # Deep Actor-Critic Methods?".
    value_loss = mean(0.5 * jnp.square(value - batch.target))
    mean_entropy = mean(policy.head.entropy(distribution))
    loss = policy_loss + ppo.value_coefficient * value_loss - entropy_coefficient * mean_entropy
    parts = {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": mean_entropy,
        # It has the same expectation as -log_ratio, but its samples are never negative.
        "approx_kl": mean(ratio - 1 - log_ratio),
        "clip_fraction": mean((jnp.abs(ratio - 1) > ppo.clip_epsilon).astype(jnp.float32)),
    }
    return loss, parts


@final
class PPO(AbstractCheckedAlgorithm[TrainState]):
    """Proximal policy optimisation with a clipped ratio (Schulman et al. 2017).

    Settings of type float may be arrays. `init_train_state` and `train` convert them to arrays, so
    new values do not recompile; vectors of values are a sweep under `eqx.filter_vmap`. Integers and
    booleans determine shapes and branches, so they are static. If `loss` or `advantage` is a Module
    or a `functools.partial`, its floats are settings, too.

    ```python
    import jax

    from agents import PPO, init_train_state, train
    from eqgrid import AutoReset, LogEpisodes, Vectorize, make

    ppo = PPO(learning_rate=1e-3, rollout_length=16, num_minibatches=2, num_epochs=2)
    env = Vectorize(AutoReset(LogEpisodes(make("goals", horizon=20))), num_envs=4)
    state = init_train_state(ppo, env, jax.random.key(0))
    run = train(ppo, env, state, num_updates=2)
    print(ppo.steps_per_update(env))  # 64: 16 steps in each of 4 environments
    ```
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
    gamma: Hyperparameter = _number(0.99, _ZERO_TO_ONE)
    """Discount factor."""
    gae_lambda: Hyperparameter = _number(0.95, _ZERO_TO_ONE)
    """GAE lambda: decay of the trace per step."""
    clip_epsilon: Hyperparameter = _number(0.2, _POSITIVE)
    """Clip range of the policy ratio, around 1."""
    normalize_values: bool = eqx.field(default=False, static=True)
    """Critics predict standardised returns."""
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
    """Steps per training sequence (0: whole rollouts with a memory, single steps without)."""
    advantage: AdvantageEstimator = eqx.field(default=gae, converter=_as_pytree)
    """A function or Module that estimates advantages; set in code, since it has no flag."""
    loss: Loss = eqx.field(default=ppo_loss, converter=_as_pytree)
    """A function or Module that computes the loss of a minibatch; it has no flag either."""

    def __check_init__(self):
        """Checks the ranges of all settings that are not traced; `init` checks the others.

        **Raises:** `ValueError` when a setting is out of its range.
        """
        for name, (limits, contains) in _ranges().items():
            number = getattr(self, name)
            if not isinstance(number, Tracer) and not np.all(contains(np.asarray(number))):
                raise ValueError(f"{name} must be {limits}, but it is {number}.")

    def init(self, policy: ActorCritic, env: VectorEnvironment, key: PRNGKeyArray) -> TrainState:
        """Initialises a run.

        **Arguments:**

        - `policy`: the parameters to start from.
        - `env`: the environments.
        - `key`: the source of all randomness of the run.

        **Returns:** the state before the first update.

        **Raises:** `ValueError` when `chunk_length` or `num_minibatches` does not divide the
        rollout, and `eqx.EquinoxRuntimeError` when a traced setting is out of its range.
        """
        self.check(env, policy)
        key, init_key = jax.random.split(key)
        parameters, rest = eqx.partition(policy, eqx.is_inexact_array)
        settings = {name: (getattr(self, name), *limits) for name, limits in _ranges().items()}
        traced = {name: x for name, x in settings.items() if isinstance(x[0], Tracer)}
        if traced:
            wrong = jnp.stack([~jnp.all(contains(x)) for x, _, contains in traced.values()])
            messages = [f"{name} must be {limits}." for name, (_, limits, _) in traced.items()]
            # XLA removes a check if nothing depends on it, so it passes the parameters through.
            first = jnp.argmax(wrong)
            parameters = eqx.branched_error_if(parameters, wrong.any(), first, messages)
        policy = eqx.combine(parameters, rest)
        return TrainState(
            policy=policy,
            # The state of Adam does not depend on the schedule, so any number of updates will do.
            opt_state=self.optimiser(1).init(parameters),
            runner=init_runner(policy, env, init_key),
            key=key,
            updates=jnp.zeros((), dtype=jnp.int32),
            value_moments=RunningMoments.empty(()),
        )

    def update(
        self, env: VectorEnvironment, state: TrainState, *, num_updates: int | Int[Array, ""]
    ) -> tuple[TrainState, Metrics]:
        """Makes one update: `collect`, then `learn`.

        **Arguments:**

        - `env`: the environments.
        - `state`: the state of the run.
        - `num_updates`: the number of updates of the whole run, over which settings are annealed.

        **Returns:** the next state, and the metrics of the update.

        **Raises:** `ValueError` when `chunk_length` or `num_minibatches` does not divide the
        rollout.
        """
        state, rollout, key = self.collect(env, state)
        return self.learn(state, rollout, key, num_updates=num_updates)

    def collect(
        self, env: VectorEnvironment, state: TrainState
    ) -> tuple[TrainState, Rollout, PRNGKeyArray]:
        """Collects the rollout of one update. An algorithm around `PPO` may change the rollout,
        such as its rewards, before `learn`.

        **Arguments:**

        - `env`: the environments.
        - `state`: the state of the run.

        **Returns:** the state after the rollout, the rollout, and the key for `learn`.

        **Raises:** `ValueError` when `chunk_length` or `num_minibatches` does not divide the
        rollout.
        """
        self.check(env, state.policy)
        key, collect_key, learn_key = jax.random.split(state.key, 3)
        rollout, runner = collect_rollout(
            state.policy, env, state.runner, collect_key, self.rollout_length
        )
        return dataclasses.replace(state, runner=runner, key=key), rollout, learn_key

    def learn(
        self,
        state: TrainState,
        rollout: Rollout,
        key: PRNGKeyArray,
        *,
        num_updates: int | Int[Array, ""],
    ) -> tuple[TrainState, Metrics]:
        """Updates the policy on one rollout, from `collect`.

        The returned metrics have these scalars, of which the first six are means over the gradient
        steps. A loss other than `ppo_loss` reports its own numbers in place of the first five.

        - `policy_loss`, `value_loss`, `entropy`: the parts of the loss; the entropy is in nats.
        - `approx_kl`: the approximate KL divergence from the policy that collected the rollout, in
            nats (the third estimator of Schulman 2020, "Approximating KL divergence").
        - `clip_fraction`: the fraction of steps with a policy ratio outside of the clip range.
        - `grad_norm`: the global norm of the gradient before clipping.
        - `explained_variance`: the fraction of the variance of the critic's targets that its values
            explain before the update; at most 1.
        - `learning_rate`: the learning rate of the last gradient step.

        **Arguments:**

        - `state`: the state of the run, whose policy collected the rollout.
        - `rollout`: the rollout.
        - `key`: the source of randomness of the minibatches.
        - `num_updates`: the number of updates of the whole run, over which settings are annealed.

        **Returns:** the state after the update, and the metrics.
        """
        policy, updates = state.policy, state.updates
        batch, value_moments = self.batch(policy, rollout, state.value_moments)
        # The minibatches of all epochs are one axis, for one scan over all gradient steps.
        rows = shuffle(key, batch.target.shape[1], self.num_epochs, self.num_minibatches)
        # Gradients are computed for floating-point arrays, which are the carry of the scan.
        parameters, rest = eqx.partition(policy, eqx.is_inexact_array)
        optimiser = self.optimiser(num_updates)
        entropy_coefficient = self.entropy_coefficient_at(updates, num_updates)
        step = functools.partial(_gradient_step, self, optimiser, rest, batch, entropy_coefficient)
        (parameters, opt_state), losses = jax.lax.scan(step, (parameters, state.opt_state), rows)
        steps_per_update = self.num_epochs * self.num_minibatches
        last_step = (updates + 1) * steps_per_update - 1  # counted from 0
        bad_leaf = losses.pop("bad_leaf")  # an index for each gradient step; -1 if all is finite
        scalars = {name: jnp.mean(x) for name, x in losses.items()}
        explained = self._explained_variance(batch, state.value_moments, value_moments)
        learning_rate = self.learning_rate_at(num_updates * steps_per_update, last_step)
        scalars |= {"explained_variance": explained, "learning_rate": learning_rate}
        state = dataclasses.replace(
            state,
            policy=eqx.combine(parameters, rest),
            opt_state=opt_state,
            value_moments=value_moments,
            updates=updates + 1,
        )
        first_bad_leaf = bad_leaf[jnp.argmax(bad_leaf >= 0)]
        return state, Metrics.of(scalars, rollout.info, first_bad_leaf)

    def batch(
        self, policy: ActorCritic, rollout: Rollout, value_moments: RunningMoments
    ) -> tuple[Minibatch, RunningMoments]:
        """Estimates advantages and targets, and cuts the rollout into training sequences. They have
        `chunk_length` steps; if it is 0, they are single steps, or whole rollouts if the policy is
        recurrent.

        **Arguments:**

        - `policy`: the policy that collected the rollout.
        - `rollout`: the rollout.
        - `value_moments`: the moments of all targets of the critic so far. If values are
            normalised, the rollout's values were standardised with these moments, and the targets
            of the batch are standardised with the returned moments.

        **Returns:** all sequences, which together contain every step once; and the moments, which
        include the new targets.
        """
        value, next_value = rollout.value, rollout.next_value
        # The critic may predict standardised returns, but advantages are in units of the reward.
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
        target = advantage + value  # the target of TD(lambda), in rewards
        if self.normalize_values:
            # The moments are updated first: they include the new targets, so none is an outlier.
            value_moments = value_moments.update(target.reshape(-1), rollout.active.reshape(-1))
            target = (target - value_moments.mean) / _deviation(value_moments)
        chunk = self._chunk(len(rollout.value), policy.recurrent)
        return cut_rollout(rollout, advantage, target, chunk), value_moments

    def optimiser(self, num_updates: int | Int[Array, ""]) -> optax.GradientTransformation:
        """Adam (Kingma & Ba 2015) with the run's learning-rate schedule, after clipping the global
        norm of the gradient.
        """
        # Adam counts gradient steps, so its schedule has a length in gradient steps.
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
        return learning_rate * (1 - _fraction_done(step, num_steps))

    def entropy_coefficient_at(
        self, update: Int[Array, ""], num_updates: int | Int[Array, ""]
    ) -> Float[Array, ""]:
        """The weight of the entropy bonus in one update of the run; updates are counted from 0."""
        start = jnp.asarray(self.entropy_coefficient, dtype=jnp.float32)
        return start + _fraction_done(update, num_updates) * (self.entropy_coefficient_end - start)

    def _explained_variance(
        self, batch: Minibatch, before: RunningMoments, after: RunningMoments
    ) -> Float[Array, ""]:
        """The fraction of the variance of the targets that the values explain. Both are converted
        to units of the reward, since they were standardised with different moments.
        """
        value, target, active = batch.rollout.value, batch.target, batch.rollout.active
        if self.normalize_values:
            value, target = _in_rewards(value, before), _in_rewards(target, after)
        variance = _variance(target, active)
        unexplained = _variance(target - value, active)
        return jnp.where(variance > 0, 1 - unexplained / variance, 0.0)

    def steps_per_update(self, env: VectorEnvironment) -> int:
        return self.rollout_length * env.num_envs

    def check(self, env: VectorEnvironment, policy: ActorCritic) -> None:
        """Checks that `chunk_length` and `num_minibatches` divide a rollout.

        **Arguments:**

        - `env`: the environments.
        - `policy`: the parameters, or their shapes.

        **Raises:** `ValueError` that names the nearest settings that do.
        """
        num_envs = env.num_envs
        chunk = self._chunk(self.rollout_length, policy.recurrent)
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
        return self.chunk_length or (length if recurrent else 1)


def _gradient_step(
    ppo: PPO,
    optimiser: optax.GradientTransformation,
    rest: ActorCritic,
    batch: Minibatch,
    entropy_coefficient: Float[Array, ""],
    learner: tuple[PyTree[Float[Array, "..."]], PyTree],
    rows: Int[Array, " picked"],
) -> tuple[tuple[PyTree[Float[Array, "..."]], PyTree], dict[str, Float[Array, ""]]]:
    """One step of the optimiser on the minibatch `rows`. The parameters in `learner` are the
    floating-point arrays of the policy, and `rest` is the policy without them.
    """
    parameters, opt_state = learner
    gradient, parts = eqx.filter_grad(ppo.loss, has_aux=True)(
        eqx.combine(parameters, rest), minibatch(batch, rows), ppo, entropy_coefficient
    )
    taken = {"grad_norm", "bad_leaf", "explained_variance", "learning_rate"} & parts.keys()
    if taken:
        raise ValueError(
            f"PPO has a metric {min(taken)!r} already: give the metric of the loss another name."
        )
    grad_norm = optax.tree.norm(gradient)
    # Optax raises a Python float to an int32 power, which strict dtype promotion rejects.
    with jax.numpy_dtype_promotion("standard"):
        change, opt_state = optimiser.update(gradient, opt_state, parameters)
    # A single run searches the leaves, which reads all of them, only if the gradient is not finite.
    no_leaf = jnp.asarray(-1, dtype=jnp.int32)
    finite = jnp.isfinite(grad_norm)
    bad_leaf = jax.lax.cond(finite, lambda _: no_leaf, _first_bad_leaf, gradient)
    parts |= {"grad_norm": grad_norm, "bad_leaf": bad_leaf}
    return (optax.apply_updates(parameters, change), opt_state), parts


def _first_bad_leaf(gradient: PyTree[Float[Array, "..."]]) -> Int[Array, ""]:
    bad = jnp.stack([~jnp.isfinite(x).all() for x in jax.tree.leaves(gradient)])
    return jnp.where(bad.any(), jnp.argmax(bad), -1).astype(jnp.int32)


def _in_rewards(value: Float[Array, "..."], moments: RunningMoments) -> Float[Array, "..."]:
    return moments.mean + _deviation(moments) * value


def _deviation(moments: RunningMoments) -> Float[Array, ""]:
    return jnp.sqrt(moments.variance + _VALUE_EPS)


def _variance(x: Float[Array, "..."], active: Bool[Array, "..."]) -> Float[Array, ""]:
    return mean_over(jnp.square(x - mean_over(x, active)), active)


def _fraction_done(made: ArrayLike, total: int | Int[Array, ""]) -> Float[Array, ""]:
    """The progress of a run, from 0 in its first update or gradient step to 1 in the last one; 0 if
    there is only one.
    """
    last = jnp.asarray(total, dtype=jnp.int32) - 1
    fraction = jnp.asarray(made).astype(jnp.float32) / jnp.maximum(last, 1).astype(jnp.float32)
    return jnp.where(last > 0, jnp.minimum(fraction, 1.0), 0.0)


def _ranges() -> dict[str, _Range]:
    """The ranges of the settings, by the names of their fields."""
    fields = dataclasses.fields(PPO)
    return {x.name: x.metadata["range"] for x in fields if "range" in x.metadata}
