"""The training loop: compiled blocks of updates inside a plain Python loop."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast, final

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from eqgrid import AbstractVectorEnv

from ._interrupts import interrupts_held
from ._networks import MLP, AbstractNetwork
from ._policy import actor_critic
from ._ppo import PPO, Metrics, RunState
from ._views import AbstractView


@final
@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a run is, as its hooks see it between two blocks.

    **Arguments:**

    - `state`: the newest state. The next block consumes its arrays, so save or copy what you keep.
    - `metrics`: how every update of the last block went (NumPy arrays, one entry per update), or
        `None` before the first block.
    - `updates`, `num_updates`: how many updates were made, and how many the run has.
    - `env_steps`, `num_env_steps`: the same in steps, summed over the environments.
    - `wall_seconds`: since `train` was called; `compile_seconds` and `train_seconds` are what
        compiling and running blocks took of it.
    - `stopped`: why the run ended early, or `None`.
    """

    state: RunState
    metrics: Metrics | None
    updates: int
    num_updates: int
    env_steps: int
    num_env_steps: int
    wall_seconds: float
    compile_seconds: float
    train_seconds: float
    stopped: str | None = None


Hook: TypeAlias = Callable[[Progress], None]
"""What `train` calls between blocks. It may raise `StopTraining`."""


@final
class StopTraining(Exception):
    """Raised by a hook to end a run early; the message says why."""


@final
class NonFiniteLoss(ArithmeticError):
    """Raised when a loss or a gradient is no longer a number. No hook has seen the bad state.

    **Arguments:**

    - `update`: the first update, counted from 1, where it was seen.
    """

    update: int

    def __init__(self, update: int):
        self.update = update
        super().__init__(
            f"The loss of update {update} is not a finite number, so the run stops; the last "
            f"checkpoint is from before. Try a smaller learning rate."
        )


def train(
    ppo: PPO,
    env: AbstractVectorEnv,
    state: RunState,
    *,
    num_updates: int,
    updates_per_block: int = 10,
    hooks: Sequence[Hook] = (),
) -> Progress:
    """Makes updates until the run has `num_updates` of them, or a hook or Ctrl-C stops it.

    Blocks of updates are compiled once and consume the state they are given. A Ctrl-C inside a
    block takes effect at its end, so that the newest complete state is never lost.

    **Arguments:**

    - `ppo`: the algorithm.
    - `env`: the environments.
    - `state`: where to go on from, as `start_run` or `restore` gave it; consumed.
    - `num_updates`: how many updates the whole run has, those already in `state` included.
    - `updates_per_block`: how many updates are made between two calls of the hooks; it must divide
        the number of updates that are left.
    - `hooks`: called in order after every block.

    **Returns:** how far the run came, with its last state.

    **Raises:** `NonFiniteLoss`, and `ValueError` when the blocks do not fit.
    """
    begin = time.perf_counter()
    progress = _nothing_yet(ppo, env, state, num_updates)
    left = num_updates - progress.updates
    if left < 0:
        raise ValueError(
            f"{progress.updates} updates are made already, but only {num_updates} asked."
        )
    if updates_per_block < 1 or left % updates_per_block:
        raise ValueError(
            f"Blocks of {updates_per_block} updates do not divide the {left} updates that are "
            f"left of {num_updates}."
        )
    if left == 0:
        return progress
    try:
        settings = (ppo, env, num_updates, updates_per_block)
        block = cast(Any, _run_block).lower(settings, state).compile()
        progress = dataclasses.replace(progress, compile_seconds=time.perf_counter() - begin)
        while progress.updates < num_updates:
            with interrupts_held():
                progress = _advance(block, settings, progress, begin)
            for hook in hooks:
                hook(progress)
    except StopTraining as stop:
        progress = dataclasses.replace(progress, stopped=str(stop))
    except KeyboardInterrupt:
        progress = dataclasses.replace(progress, stopped="interrupted")
    return dataclasses.replace(progress, wall_seconds=time.perf_counter() - begin)


@eqx.filter_jit
def start_run(
    ppo: PPO,
    env: AbstractVectorEnv,
    key: PRNGKeyArray,
    *,
    num_updates: int,
    network: Callable[..., AbstractNetwork] = MLP,
    view: AbstractView | None = None,
    shared: bool = True,
) -> RunState:
    """Draws a policy and enters the environments, in one compilation.

    **Arguments:**

    - `ppo`: the algorithm.
    - `env`: the environments.
    - `key`: the source of all randomness of the run.
    - `num_updates`: how many updates the run will have.
    - `network`, `view`, `shared`: as in `actor_critic`.

    **Returns:** the state before the first update.

    **Raises:** `ValueError` when the environment or the settings do not fit.
    """
    policy_key, run_key = jax.random.split(key)
    policy = actor_critic(env, policy_key, network=network, view=view, shared=shared)
    return ppo.init(policy, env, run_key, num_updates=num_updates)


def run_updates(
    ppo: PPO, env: AbstractVectorEnv, state: RunState, *, num_updates: int, length: int
) -> tuple[RunState, Metrics]:
    """Makes some of the updates of a run in one scan.

    Under `eqx.filter_vmap` it trains many seeds at once, from states that `start_run` made under
    `eqx.filter_vmap`.

    **Arguments:**

    - `ppo`, `env`: the algorithm and the environments.
    - `state`: where to go on from.
    - `num_updates`: how many updates the whole run has; what is annealed ends with the last one.
    - `length`: how many of them to make now.

    **Returns:** the next state, and how every update went.
    """
    arrays, rest = eqx.partition(state, eqx.is_array)

    def step(arrays: PyTree, _: None) -> tuple[PyTree, Metrics]:
        state, metrics = ppo.update(env, eqx.combine(arrays, rest), num_updates=num_updates)
        return eqx.filter(state, eqx.is_array), metrics

    arrays, metrics = jax.lax.scan(step, arrays, length=length)
    return eqx.combine(arrays, rest), metrics


@eqx.filter_jit(donate="all-except-first")
def _run_block(
    settings: tuple[PPO, AbstractVectorEnv, int, int], state: RunState
) -> tuple[RunState, Metrics]:
    ppo, env, num_updates, length = settings
    return run_updates(ppo, env, state, num_updates=num_updates, length=length)


def _nothing_yet(ppo: PPO, env: AbstractVectorEnv, state: RunState, num_updates: int) -> Progress:
    updates = int(state.updates)
    steps_per_update = ppo.rollout_length * env.num_envs
    return Progress(
        state=state,
        metrics=None,
        updates=updates,
        num_updates=num_updates,
        env_steps=updates * steps_per_update,
        num_env_steps=num_updates * steps_per_update,
        wall_seconds=0.0,
        compile_seconds=0.0,
        train_seconds=0.0,
    )


def _advance(
    block: Callable, settings: tuple[PPO, AbstractVectorEnv, int, int], old: Progress, begin: float
) -> Progress:
    block_begin = time.perf_counter()
    state, metrics = block(settings, old.state)
    metrics = jax.tree.map(np.asarray, metrics)
    end = time.perf_counter()
    _check_finite(metrics, old.updates)
    updates = old.updates + settings[3]
    return dataclasses.replace(
        old,
        state=state,
        metrics=metrics,
        updates=updates,
        env_steps=updates * (old.num_env_steps // old.num_updates),
        wall_seconds=end - begin,
        train_seconds=old.train_seconds + end - block_begin,
    )


def _check_finite(metrics: Metrics, updates: int):
    parts = (metrics.policy_loss, metrics.value_loss, metrics.entropy, metrics.grad_norm)
    finite = np.isfinite(np.stack(parts)).all(axis=0)
    if not finite.all():
        raise NonFiniteLoss(updates + int(np.argmin(finite)) + 1)
