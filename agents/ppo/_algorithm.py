"""The interfaces of learning algorithms and of their states, and the metrics of an update."""

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray, Shaped

from eqgrid import VectorEnvironment

from ..policies import AbstractActor, ActorCritic
from ._runner import RunnerState

P = TypeVar("P", bound=ActorCritic | AbstractActor)
A = TypeVar("A")


class AbstractTrainState(eqx.Module, Generic[P]):
    """The state of a training run between two updates: everything that an algorithm changes.

    `save` writes all of its arrays, and `eqx.filter_vmap` over several runs adds a leading axis to
    each of them. A subclass names the type of its policy, and adds fields of its own, such as the
    state of an optimiser, a replay buffer, and the key of all further randomness. An algorithm
    around PPO needs no subclass: it stores its state in `TrainState.extra`.

    - `policy`: the actor in evaluations.
    - `runner`: the state of the environments and of the agents in them, which is sharded over
        devices.
    - `updates`: the number of updates made so far.
    """

    # Type checkers treat an AbstractVar as an argument of `__init__`, so a subclass could not
    # define it as a property.
    if TYPE_CHECKING:
        policy: Any = eqx.field(init=False)
        runner: Any = eqx.field(init=False)
        updates: Any = eqx.field(init=False)
    else:
        policy: eqx.AbstractVar[P]
        runner: eqx.AbstractVar[RunnerState]
        updates: eqx.AbstractVar[Int[Array, "*runs"]]
    kept: ClassVar[Mapping[str, tuple[str, ...]]] = {"parameters": ("policy",)}
    """The fields that `transfer` copies for each of the parts `"parameters"` and `"optimizer"`."""


S = TypeVar("S", bound=AbstractTrainState[Any])


@final
class Metrics(eqx.Module):
    """Metrics of one update of any algorithm. Each of them is a column of the log.

    ```python
    import jax

    from agents import PPO, init_train_state
    from eqgrid import AutoReset, LogEpisodes, Vectorize, make

    ppo = PPO(rollout_length=8, num_minibatches=2)
    env = Vectorize(AutoReset(LogEpisodes(make("goals"))), num_envs=4)
    state, metrics = ppo.update(env, init_train_state(ppo, env, jax.random.key(0)), num_updates=1)
    print(sorted(metrics.scalars))
    metrics = metrics.with_scalars(bonus=metrics.scalars["entropy"] * 0.01)
    ```

    **Arguments:**

    - `scalars`: the metrics of the algorithm by name, such as its loss. `train` ends a run with
        `NonFiniteLoss` when one of them is not a finite number. `PPO.learn` lists PPO's metrics.
    - `bad_leaf`: the first parameter whose gradient was not finite, as its index among the trained
        leaves of the policy; -1 if all were finite, or if the algorithm does not check it.
    - `episode_return`, `episode_length`: means over the agents and over the episodes that ended
        in the update (raw rewards; steps); 0 if none ended.
    - `episodes`: the number of episodes that ended in the update.
    - `totals`: the totals of `LogEpisodes(env, totals)` by name, and other entries of `info` whose
        names begin with `episode_`. Each is the mean of the entry, in its shape, over the last
        steps of the episodes that ended in the update; 0 if none ended.
    """

    scalars: dict[str, Float[Array, "*updates"]]
    bad_leaf: Int[Array, "*updates"]
    episode_return: Float[Array, "*updates"]
    episode_length: Float[Array, "*updates"]
    episodes: Int[Array, "*updates"]
    totals: dict[str, Float[Array, "..."]] = eqx.field(default_factory=dict)

    @classmethod
    def of(
        cls,
        scalars: Mapping[str, Float[Array, ""]],
        info: Mapping[str, Shaped[Array, "..."]],
        bad_leaf: int | Int[Array, ""] = -1,
    ) -> "Metrics":
        """The metrics of one update, from the `info` of its steps.

        **Arguments:**

        - `scalars`, `bad_leaf`: as in `Metrics`.
        - `info`: the `info` of all steps, with the leading axes `time envs`. The entries of
            `LogEpisodes` are used, if there are any.
        """
        bad_leaf = jnp.asarray(bad_leaf, dtype=jnp.int32)
        if "episode_done" not in info:
            nothing = jnp.zeros((), dtype=jnp.float32)
            return cls(dict(scalars), bad_leaf, nothing, nothing, jnp.zeros((), dtype=jnp.int32))
        done = info["episode_done"]
        return cls(
            scalars=dict(scalars),
            bad_leaf=bad_leaf,
            episode_return=mean_over(info["episode_return"].mean(axis=-1), done),
            episode_length=mean_over(info["episode_length"].astype(jnp.float32), done),
            episodes=done.sum(dtype=jnp.int32),
            totals={
                name.removeprefix("episode_"): mean_over(x.astype(jnp.float32), done)
                for name, x in info.items()
                if name.startswith("episode_") and name not in _FIELDS and eqx.is_array(x)
            },
        )

    def with_scalars(self, **scalars: Float[Array, "*updates"]) -> "Metrics":
        """The same metrics with further scalars, by name."""
        return eqx.tree_at(lambda m: m.scalars, self, {**self.scalars, **scalars})


class AbstractAlgorithm(eqx.Module, Generic[S]):
    """A learning algorithm: how a run begins, and how one update changes its state.

    `train` repeats `update` in compiled blocks. Settings that are floats or arrays are inputs of
    the compiled program, so a vector of values is a sweep. Settings that determine shapes or
    branches are static fields.

    ```python
    from typing import Any, final

    import jax
    from jaxtyping import Array, PRNGKeyArray

    from agents import PPO, AbstractAlgorithm, Metrics, TrainState, init_train_state, train
    from eqgrid import AutoReset, LogEpisodes, VectorEnvironment, Vectorize, make


    @final
    class LoggingPPO(AbstractAlgorithm[TrainState]):
        # PPO that also logs the highest reward of each update
        ppo: PPO = PPO(rollout_length=8, num_minibatches=2)

        def init(self, policy: Any, env: VectorEnvironment, key: PRNGKeyArray) -> TrainState:
            return self.ppo.init(policy, env, key)

        def update(
            self, env: VectorEnvironment, state: TrainState, *, num_updates: int | Array
        ) -> tuple[TrainState, Metrics]:
            state, rollout, key = self.ppo.collect(env, state)
            state, metrics = self.ppo.learn(state, rollout, key, num_updates=num_updates)
            return state, metrics.with_scalars(highest_reward=rollout.reward.max())

        def steps_per_update(self, env: VectorEnvironment) -> int:
            return self.ppo.steps_per_update(env)


    env = Vectorize(AutoReset(LogEpisodes(make("goals"))), num_envs=4)
    state = init_train_state(LoggingPPO(), env, jax.random.key(0))
    run = train(LoggingPPO(), env, state, num_updates=2)
    ```
    """

    @abc.abstractmethod
    def init(self, policy: Any, env: VectorEnvironment, key: PRNGKeyArray) -> S:
        """Initialises a run.

        **Arguments:**

        - `policy`: the parameters to start from: an `ActorCritic`, or another type of policy.
        - `env`: the environments.
        - `key`: the source of all randomness of the run.

        **Returns:** the state before the first update.
        """

    @abc.abstractmethod
    def update(
        self, env: VectorEnvironment, state: S, *, num_updates: int | Int[Array, ""]
    ) -> tuple[S, Metrics]:
        """Makes one update: takes steps in the environments, and learns.

        **Arguments:**

        - `env`: the environments.
        - `state`: the state of the run.
        - `num_updates`: the number of updates of the whole run, for schedules.

        **Returns:** the next state, with `updates` higher by 1, and the metrics of the update.
        """

    @abc.abstractmethod
    def steps_per_update(self, env: VectorEnvironment) -> int:
        """The number of steps of one update, summed over the environments."""

    def with_arrays(self: A) -> A:
        """Converts settings of type float to arrays, which are inputs of a compiled program.

        **Returns:** the settings, with 32-bit arrays in place of floats; arrays are kept.
        """
        # Converted by NumPy, since JAX compiles a program for a Python float, and returns a weak
        # type.
        return jax.tree.map(
            lambda x: jax.device_put(np.float32(x)) if isinstance(x, float) else x, self
        )


def check_algorithm(algorithm: object) -> None:
    """**Raises:** `TypeError` unless the argument is an algorithm, with its settings."""
    if isinstance(algorithm, type):
        name = algorithm.__name__
        raise TypeError(f"{name} is a class, and not an algorithm with settings: use {name}().")
    if not isinstance(algorithm, AbstractAlgorithm):
        raise TypeError(
            "The algorithm must be an AbstractAlgorithm, such as PPO(), but is of the type "
            f"{type(algorithm).__name__}."
        )


class AbstractCheckedAlgorithm(AbstractAlgorithm[S]):
    """An algorithm that can check its settings before anything is compiled."""

    @abc.abstractmethod
    def check(self, env: VectorEnvironment, policy: Any) -> None:
        """Checks that the settings fit the environments and the policy.

        **Arguments:**

        - `env`: the environments.
        - `policy`: the parameters, or their shapes.

        **Raises:** `ValueError` with one sentence when they do not fit.
        """


_FIELDS = ("episode_done", "episode_return", "episode_length")
"""The entries of `info` that have fields of their own in `Metrics`."""


def mean_over(x: Float[ArrayLike, "..."], counted: Bool[Array, "..."]) -> Float[Array, "..."]:
    """The mean over the entries where `counted` is true; 0 if there is none. Axes of `x` after the
    axes of `counted` are kept.
    """
    x = jnp.asarray(x)
    # A masked sum, since the number of entries is not known when the program is compiled. `where`
    # and not a product, since the other entries may be NaN.
    number = jnp.maximum(counted.sum(dtype=jnp.int32), 1).astype(x.dtype)
    mask = jnp.expand_dims(counted, tuple(range(counted.ndim, x.ndim)))
    return jnp.where(mask, x, 0.0).sum(axis=tuple(range(counted.ndim))) / number
