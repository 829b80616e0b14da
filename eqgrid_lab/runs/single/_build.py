"""Initial training states, of one run or of several runs that are trained together."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, Shaped

from agents import AbstractAlgorithm, AbstractTrainState, check_memory
from agents.training import stack_runs
from eqgrid import AbstractVectorEnv
from eqgrid.typing import PyTree

from ...settings import Experiment
from ._run import Run

_T = TypeVar("_T")


def start(run: Run, key: PRNGKeyArray) -> AbstractTrainState[Any]:
    """The initial training state of a run: a new policy, in the environments of the run's stage.

    **Arguments:**

    - `run`: the run.
    - `key`: the source of randomness.

    **Raises:** `OutOfMemory`.
    """
    return run_once(draw(run.config), run.plan.train_env, key)


def run_once(function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
    """Compiles and calls a function that is called only once, with few compiler optimisations.

    **Arguments:**

    - `function`: the function.
    - `args`, `kwargs`: its arguments.

    **Raises:** `OutOfMemory` when the program needs more memory than there is.
    """
    program: Any = eqx.filter_jit(  # pyright: ignore[reportCallIssue]
        function, compiler_options={"xla_backend_optimization_level": "0"}
    )
    compiled = program.lower(*args, **kwargs).compile()
    check_memory(compiled)
    return compiled(*args, **kwargs)


def shapes(run: Run) -> AbstractTrainState[Any]:
    """The shapes and dtypes of a run's training state, for `restore`."""
    return eqx.filter_eval_shape(draw(run.config), run.plan.train_env, jax.random.key(0))


def start_together(
    runs: Sequence[Run], keys: Shaped[PRNGKeyArray, " runs"]
) -> AbstractTrainState[Any]:
    """Initial training states for runs that share a plan, stacked with a leading axis.

    **Arguments:**

    - `runs`: at least one run; the settings of the first are used.
    - `keys`: one key for each state; there may be more states than runs.

    **Raises:** `OutOfMemory`.
    """
    return run_once(_init_all(runs), runs[0].plan.train_env, keys)


def shapes_together(runs: Sequence[Run], number: int) -> AbstractTrainState[Any]:
    """The shapes and dtypes of stacked training states, for `restore`.

    **Arguments:**

    - `runs`: as in `start_together`.
    - `number`: the number of states.
    """
    keys = jax.random.split(jax.random.key(0), number)
    return eqx.filter_eval_shape(_init_all(runs), runs[0].plan.train_env, keys)


def _init_all(runs: Sequence[Run]) -> Callable[..., AbstractTrainState[Any]]:
    return eqx.filter_vmap(draw(runs[0].config), in_axes=(None, 0))


def draw(
    config: Experiment,
) -> Callable[[AbstractVectorEnv, PRNGKeyArray], AbstractTrainState[Any]]:
    """The function from environments and a key to an initial training state.

    **Arguments:**

    - `config`: the settings of the run, which build the policy and the learner.
    """
    learner = config.learner().with_arrays()

    def init(env: AbstractVectorEnv, key: PRNGKeyArray) -> AbstractTrainState[Any]:
        policy_key, run_key = jax.random.split(key)
        return learner.init(config.policy(env, policy_key), env, run_key)

    return init


def stack_envs(
    env: AbstractVectorEnv, configs: Sequence[Experiment]
) -> tuple[AbstractVectorEnv, PyTree[int | None]]:
    """Stacks the training environments of runs that differ only in array leaves.

    **Arguments:**

    - `env`: the environments of the first run.
    - `configs`: the settings of each run.

    **Returns:** environments in which the leaves that differ have a leading axis of runs, and the
    `env_axes` for `train`: 0 for these leaves and `None` for all others.
    """
    if all(_numbers(config) == _numbers(configs[0]) for config in configs):
        return env, None
    arrays = [eqx.filter(config.train_env(), eqx.is_array) for config in configs]
    leaves, tree = jax.tree.flatten(env)
    each = zip(*(jax.tree.leaves(x) for x in arrays), strict=True)
    stacked, axes = [], []
    for leaf in leaves:
        own = next(each) if eqx.is_array(leaf) else [leaf]
        differ = not all(np.array_equal(x, own[0]) for x in own[1:])
        stacked.append(jnp.stack(own) if differ else leaf)
        axes.append(0 if differ else None)
    return jax.tree.unflatten(tree, stacked), jax.tree.unflatten(tree, axes)


def _numbers(config: Experiment) -> tuple[Any, ...]:
    """The settings in which the training environments of one compiled program may differ."""
    return (config.ppo.gamma, *(getattr(config, name) for name in config.in_one_program))


def stack_learners(configs: Sequence[Experiment]) -> AbstractAlgorithm[Any]:
    """Stacks the learners of several runs: real-valued settings have a leading axis of runs."""
    return stack_runs([config.learner().with_arrays() for config in configs])
