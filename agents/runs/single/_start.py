"""Where runs begin: fresh policies in fresh environments."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
from jaxtyping import PRNGKeyArray, Shaped

from agents import TrainState, check_memory
from agents.runs.settings._experiment import Experiment
from eqgrid import AbstractVectorEnv

from ._run import Run

_T = TypeVar("_T")


def start(run: Run, key: PRNGKeyArray) -> TrainState:
    """Draws a policy and enters the environments of the run's stage.

    **Raises:** `OutOfMemory`.
    """
    return run_once(draw(run.config), run.plan.train_env, key)


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
    return eqx.filter_eval_shape(draw(run.config), run.plan.train_env, jax.random.key(0))


def start_together(runs: Sequence[Run], keys: Shaped[PRNGKeyArray, " runs"]) -> TrainState:
    """The same for runs that share a plan: the states of all of them in one.

    **Arguments:**

    - `runs`: at least one.
    - `keys`: one for each state that is made, of which there may be more.

    **Raises:** `OutOfMemory`.
    """
    return run_once(_init_all(runs), runs[0].plan.train_env, keys)


def shapes_together(runs: Sequence[Run], number: int) -> TrainState:
    """The shapes of so many states in one, for `restore`."""
    keys = jax.random.split(jax.random.key(0), number)
    return eqx.filter_eval_shape(_init_all(runs), runs[0].plan.train_env, keys)


def _init_all(runs: Sequence[Run]) -> Callable[..., TrainState]:
    return eqx.filter_vmap(draw(runs[0].config), in_axes=(None, 0))


def draw(config: Experiment) -> Callable[[AbstractVectorEnv, PRNGKeyArray], TrainState]:
    """What draws the policy of a page, and enters environments with it."""
    ppo = config.learner().with_arrays()

    def init(env: AbstractVectorEnv, key: PRNGKeyArray) -> TrainState:
        policy_key, run_key = jax.random.split(key)
        return ppo.init(config.policy(env, policy_key), env, run_key)

    return init
