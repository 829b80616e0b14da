"""Where runs begin: fresh policies in fresh environments."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
from jaxtyping import PRNGKeyArray, Shaped

from agents import PPO, TrainState, check_memory, init_train_state
from eqgrid import AbstractVectorEnv

from ._build import networks
from ._run import Run

_T = TypeVar("_T")


def start(run: Run, key: PRNGKeyArray) -> TrainState:
    """Draws a policy and enters the environments of the run's stage.

    **Raises:** `OutOfMemory`.
    """
    return run_once(
        init_train_state,
        run.config.ppo,
        run.plan.train_env,
        key,
        **networks(run.algorithm, run.config),
    )


def run_once(function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
    """Calls a function in a program that runs once, so what counts is that it compiles fast.

    **Raises:** `OutOfMemory` when it needs more memory than there is.
    """
    program: Any = eqx.filter_jit(  # pyright: ignore[reportCallIssue]
        function, compiler_options={"xla_backend_optimization_level": "0"}
    )
    compiled = program.lower(*args, **kwargs).compile()
    check_memory(compiled)
    return compiled(*args, **kwargs)


def shapes(run: Run) -> TrainState:
    """The shapes and dtypes of that state, for `restore`."""
    key = jax.random.key(0)
    return eqx.filter_eval_shape(
        init_train_state,
        run.config.ppo,
        run.plan.train_env,
        key,
        **networks(run.algorithm, run.config),
    )


def start_together(runs: Sequence[Run], keys: Shaped[PRNGKeyArray, " runs"]) -> TrainState:
    """The same for runs that share a plan: the states of all of them in one.

    **Arguments:**

    - `runs`: at least one.
    - `keys`: one for each state that is made, of which there may be more.

    **Raises:** `OutOfMemory`.
    """
    return run_once(_init_all, *_arguments(runs), keys)


def shapes_together(runs: Sequence[Run], number: int) -> TrainState:
    """The shapes of so many states in one, for `restore`."""
    return eqx.filter_eval_shape(
        _init_all, *_arguments(runs), jax.random.split(jax.random.key(0), number)
    )


def _arguments(runs: Sequence[Run]) -> tuple[Any, ...]:
    first = runs[0]
    return first.config.ppo, first.plan.train_env, networks(first.algorithm, first.config)


def _init_all(
    ppo: PPO,
    env: AbstractVectorEnv,
    networks: Mapping[str, Any],
    keys: Shaped[PRNGKeyArray, " runs"],
) -> TrainState:
    def init(key: PRNGKeyArray) -> TrainState:
        return init_train_state(ppo, env, key, **networks)

    return eqx.filter_vmap(init)(keys)
