"""States of many runs that are trained together: every array has a leading axis of the runs."""

from collections.abc import Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Int

from ..ppo import AbstractTrainState, S

T = TypeVar("T")


def num_runs(state: AbstractTrainState[Any]) -> int | None:
    """The number of runs that are trained together.

    **Arguments:**

    - `state`: a state from `init_train_state`, or from `eqx.filter_vmap` of it.

    **Returns:** the length of the axis of the runs, or `None` where there is no such axis.
    """
    return state.updates.shape[0] if state.updates.ndim else None


def stack_runs(trees: Sequence[T]) -> T:
    """Stacks what belongs to single runs, such as networks, along a leading axis of the runs.

    **Arguments:**

    - `trees`: PyTrees that are equal except for their arrays; other leaves are those of the first.
    """
    return jax.tree.map(
        lambda *x: jax.numpy.stack(x) if eqx.is_array(x[0]) else x[0], trees[0], *trees[1:]
    )


def pick_run(state: S, run: int) -> S:
    """Extracts one run from the state of many runs.

    **Arguments:**

    - `state`: the state of many runs.
    - `run`: the index of the run, from 0.

    **Returns:** a copy of the state of that run, as if it had been trained alone.

    **Raises:** `ValueError` when there is no such run.
    """
    number = num_runs(state) or 0
    if not 0 <= run < number:
        raise ValueError(f"There is no run {run} in a state of {number} runs.")
    return _pick(state, jax.numpy.asarray(np.int32(run)))


@eqx.filter_jit
def _pick(state: S, run: Int[Array, ""]) -> S:
    return jax.tree.map(lambda x: x[run] if eqx.is_array(x) else x, state)
