"""`train`: a training loop for users without a folder; and new states of training."""

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, final

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Int, PRNGKeyArray

from eqgrid import VectorEnvironment, check_vector_env
from eqgrid.typing import PyTree

from ..policies import (
    MLP,
    AbstractActionHead,
    AbstractCriticInput,
    AbstractNetwork,
    actor_critic,
    head_for,
)
from ..ppo import AbstractAlgorithm, Metrics, S, check_algorithm
from ._block import Block


@final
@dataclasses.dataclass(frozen=True)
class Trained(Generic[S]):
    """The result of `train`.

    **Arguments:**

    - `state`: the last state.
    - `metrics`: the metrics of every update that was made (NumPy arrays with a leading axis of the
        updates); for several runs, the second axis is the axis of runs.
    """

    state: S
    metrics: Metrics


def train(
    algorithm: AbstractAlgorithm[S],
    env: VectorEnvironment,
    state: S,
    *,
    num_updates: int,
    updates_per_block: int = 10,
    mesh: Mesh | None = None,
) -> Trained[S]:
    """Trains a run until it has made `num_updates` updates.

    To evaluate, log or save between blocks of updates, write the loop yourself with `Block`.

    ```python
    import jax

    from agents import PPO, init_train_state, train
    from eqgrid import AutoReset, LogEpisodes, Vectorize, make

    envs = Vectorize(AutoReset(LogEpisodes(make("goals"))), 16)
    ppo = PPO(rollout_length=32)
    state = init_train_state(ppo, envs, jax.random.key(0))
    policy = train(ppo, envs, state, num_updates=5).state.policy
    ```

    **Arguments:**

    - `algorithm`, `env`, `mesh`: as in `Block`.
    - `state`: the state to continue from, from `init_train_state`, `algorithm.init` or `restore`;
        with a leading `runs` axis for several runs. Its arrays stay valid.
    - `num_updates`: the number of updates of the whole run, including those already in `state`.
    - `updates_per_block`: the number of updates in a call of the compiled program. After each, the
        loss is checked, and a Ctrl-C is noticed.

    **Returns:** the last state, and the metrics of all updates.

    **Raises:** `NonFiniteLoss`; `OutOfMemory`; and `ValueError` when the numbers of updates,
    environments, devices and runs do not fit together.
    """
    length = updates_per_block
    block = Block(algorithm, env, num_updates=num_updates, length=length, mesh=mesh)
    state = jax.tree.map(lambda x: _copy(x) if eqx.is_array(x) else x, block.place(state))
    updates = int(np.asarray(state.updates).flat[0])
    if updates > num_updates:
        raise ValueError(
            f"`num_updates` is {num_updates}, but the state has {updates} updates already."
        )
    metrics = []
    # A run that is complete still has metrics, of 0 updates.
    for begin in range(updates, max(num_updates, updates + 1), length):
        state, of_block = block(state, min(length, num_updates - begin))
        metrics.append(of_block)
    return Trained(state, jax.tree.map(lambda *x: np.concatenate(x), *metrics))


def _copy(x: Array) -> Array:
    """A copy that a block can overwrite, made without a compiled program."""
    return jax.device_put(x, may_alias=False)


def init_train_state(
    algorithm: AbstractAlgorithm[S],
    env: VectorEnvironment,
    key: PRNGKeyArray,
    *,
    network: Callable[..., AbstractNetwork] = MLP,
    critic_input: AbstractCriticInput | None = None,
    head: Callable[[Any], AbstractActionHead] = head_for,
    shared: bool = True,
) -> S:
    """Initialises the policy and the environments of a run, in one compiled program. New values of
    the learning rate, or of other settings of type float, do not recompile it.

    ```python
    import jax

    from agents import MLP, PPO, init_train_state
    from eqgrid import AutoReset, LogEpisodes, Vectorize, make

    env = Vectorize(AutoReset(LogEpisodes(make("goals"))), num_envs=4)
    state = init_train_state(PPO(), env, jax.random.key(0), network=MLP)
    print(int(state.updates))  # 0
    ```

    **Arguments:**

    - `algorithm`: the algorithm. Its policy must be an `ActorCritic`; for another policy, call
        `algorithm.init`.
    - `env`: the environments.
    - `key`: the source of all randomness of the run.
    - `network`, `critic_input`, `head`, `shared`: as in `actor_critic`.

    **Returns:** the state before the first update.

    **Raises:** `ValueError` when the environment or the settings do not fit.
    """
    check_algorithm(algorithm)
    env = check_vector_env(env, "init_train_state(algorithm, env, key)")
    settings = algorithm.with_arrays()
    return _init_train_state(settings, env, key, network, critic_input, head, shared)


@eqx.filter_jit
def _init_train_state(
    algorithm: AbstractAlgorithm[S],
    env: VectorEnvironment,
    key: PRNGKeyArray,
    network: Callable[..., AbstractNetwork],
    critic_input: AbstractCriticInput | None,
    head: Callable[[Any], AbstractActionHead],
    shared: bool,
) -> S:
    policy_key, run_key = jax.random.split(key)
    policy = actor_critic(
        env, policy_key, network=network, critic_input=critic_input, head=head, shared=shared
    )
    return algorithm.init(policy, env, run_key)


def scan_updates(
    algorithm: AbstractAlgorithm[S],
    env: VectorEnvironment,
    state: S,
    *,
    num_updates: int | Int[Array, ""],
    length: int,
) -> tuple[S, Metrics]:
    """Makes a number of updates of a run in one `jax.lax.scan`.

    Under `eqx.filter_vmap`, it trains many seeds at once. Their states are from `init_train_state`
    under `eqx.filter_vmap`.

    **Arguments:**

    - `algorithm`, `env`: the algorithm and the environments.
    - `state`: the state to continue from.
    - `num_updates`: the number of updates of the whole run, over which settings are annealed.
    - `length`: the number of updates to make now.

    **Returns:** the next state, and the metrics of every update.
    """
    # The carry of a scan consists of arrays; the rest of the state is the same in every update.
    arrays, rest = eqx.partition(state, eqx.is_array)

    def step(arrays: PyTree, _: None) -> tuple[PyTree, Metrics]:
        state, metrics = algorithm.update(env, eqx.combine(arrays, rest), num_updates=num_updates)
        return eqx.filter(state, eqx.is_array), metrics

    arrays, metrics = jax.lax.scan(step, arrays, length=length)
    return eqx.combine(arrays, rest), metrics
