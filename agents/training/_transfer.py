"""Continuing a run in other environments, as in the stages of a curriculum."""

import dataclasses
from collections.abc import Collection
from typing import Literal, TypeAlias, get_args

import equinox as eqx
from jaxtyping import Array, Shaped

from eqgrid import (
    AbstractWrapperState,
    NormalizeObservationState,
    NormalizeRewardState,
    ShapedRewardState,
    VectorEnvironment,
)
from eqgrid.typing import PyTree

from ..ppo import S

Part: TypeAlias = Literal["parameters", "optimizer", "moments", "shaping"]
"""A part of the state of a run that `transfer` can keep."""

PARTS: tuple[Part, ...] = get_args(Part)
"""All parts of the state of a run that `transfer` can keep."""

_WRAPPERS: dict[type[AbstractWrapperState], tuple[Part, str]] = {
    NormalizeObservationState: ("moments", "moments"),
    NormalizeRewardState: ("moments", "moments"),
    ShapedRewardState: ("shaping", "count"),
}
"""For each state of a wrapper with a part that can be kept: the part, and its field."""


def transfer(state: S, fresh: S, env: VectorEnvironment, *, keep: Collection[Part] = PARTS) -> S:
    """Transfers the learned state of a run to other environments.

    ```python
    fresh = init_train_state(ppo, harder_env, key)
    state = transfer(progress.state, fresh, harder_env)
    ```

    **Arguments:**

    - `state`: the state of the run so far.
    - `fresh`: a new state in the other environments, with equal shapes of parameters.
    - `env`: the other environments; they must have the same number and the same wrappers.
    - `keep`: the parts to keep; all other parts are from `fresh`.
        - `"parameters"`: the policy, the moments of the critic's targets, and the fields that the
            class of the state lists in `kept`.
        - `"optimizer"`: the state of the optimiser.
        - `"moments"`: the moments of `NormalizeObservation` and `NormalizeReward`.
        - `"shaping"`: the count of `ShapedReward`, so that its schedule continues.

    **Returns:** `fresh` with the kept parts, and with the number of updates of `state`.

    **Raises:** `ValueError` when the shapes of parameters differ.
    """
    if not eqx.tree_equal(_shapes(state.policy), _shapes(fresh.policy)):
        raise ValueError(
            "A policy cannot be transferred to environments with other observations or actions."
        )
    env_state = _with_parts(state.runner.env_state, fresh.runner.env_state, keep)
    # The first observations are normalised with the moments that are kept.
    observation = _observe(env, env_state)
    # The runner comes from `fresh`: its episodes belong to the other environments.
    runner = dataclasses.replace(fresh.runner, env_state=env_state, observation=observation)
    fresh = eqx.tree_at(lambda s: s.runner, fresh, runner)
    names = ["updates", *(name for part in keep for name in state.kept.get(part, ()))]
    return eqx.tree_at(
        lambda s: [getattr(s, name) for name in names],
        fresh,
        [getattr(state, name) for name in names],
        is_leaf=lambda x: x is None,  # a field that is kept may be `None`
    )


def _shapes(tree: PyTree) -> PyTree:
    return eqx.filter_eval_shape(lambda: eqx.filter(tree, eqx.is_array))


@eqx.filter_jit
def _observe(env: VectorEnvironment, env_state: PyTree) -> PyTree[Shaped[Array, "envs ..."]]:
    return env.observe(env_state)


def _with_parts(old: PyTree, new: PyTree, keep: Collection[Part]) -> PyTree:
    """Copies the kept parts of `old` into `new`, the state of a stack of wrappers."""
    if not (isinstance(old, AbstractWrapperState) and isinstance(new, AbstractWrapperState)):
        return new
    # `dataclasses.replace` would call `__init__`, which rejects batched shapes. `tree_at` does not.
    inner = _with_parts(old.env_state, new.env_state, keep)
    new = eqx.tree_at(lambda state: state.env_state, new, inner)
    part, name = _WRAPPERS.get(type(new), (None, ""))
    if part in keep and type(old) is type(new):
        new = eqx.tree_at(lambda state: getattr(state, name), new, getattr(old, name))
    return new
