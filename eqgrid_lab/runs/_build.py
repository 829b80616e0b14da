"""What is compiled or stacked before training: initial states, and environments of several runs."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from agents import AbstractAlgorithm, AbstractTrainState, check_memory
from eqgrid import AbstractVectorEnv
from eqgrid.typing import PyTree

from ..settings import Experiment


def run_once(function: Callable[..., Any], *args: Any) -> Any:
    """Compiles and calls a function that is called only once, with few compiler optimisations.

    **Raises:** `OutOfMemory` when the program needs more memory than there is.
    """
    program: Any = eqx.filter_jit(  # pyright: ignore[reportCallIssue]
        function, compiler_options={"xla_backend_optimization_level": "0"}
    )
    compiled = program.lower(*args).compile()
    check_memory(compiled)
    return compiled(*args)


def draw(
    config: Experiment,
) -> Callable[[AbstractVectorEnv, PRNGKeyArray], AbstractTrainState[Any]]:
    """The function from environments and a key to an initial training state.

    **Arguments:**

    - `config`: the settings of the run, which build the policy and the learner.
    """
    learner: AbstractAlgorithm[Any] = config.learner().with_arrays()

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
