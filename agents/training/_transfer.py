"""Goes on with a run in other environments, as the stages of a curriculum do."""

import dataclasses
from collections.abc import Collection
from typing import Literal, TypeAlias, get_args

import equinox as eqx
from jaxtyping import Array, PyTree, Shaped

from agents.ppo._ppo import TrainState
from eqgrid import (
    AbstractVectorEnv,
    AbstractWrapperState,
    NormalizeObservationState,
    NormalizeRewardState,
    ShapedRewardState,
)

Part: TypeAlias = Literal["parameters", "optimizer", "moments", "shaping"]
"""A part of a run that can be taken along or left behind."""

PARTS: tuple[Part, ...] = get_args(Part)

_WRAPPERS: dict[type[AbstractWrapperState], tuple[Part, str]] = {
    NormalizeObservationState: ("moments", "moments"),
    NormalizeRewardState: ("moments", "moments"),
    ShapedRewardState: ("shaping", "count"),
}
"""What the wrappers have learned or counted, and the field that it is in."""


def transfer(
    state: TrainState,
    fresh: TrainState,
    env: AbstractVectorEnv,
    *,
    keep: Collection[Part] = PARTS,
) -> TrainState:
    """Takes what a run has learned into other environments.

    ```python
    fresh = init_train_state(ppo, harder_env, key)
    state = transfer(progress.state, fresh, harder_env)
    ```

    **Arguments:**

    - `state`: the state of the run so far.
    - `fresh`: a state that has just entered the other environments, with equal shapes of
        parameters.
    - `env`: the other environments, as many and wrapped in the same way.
    - `keep`: what is taken along: the parameters of the policy, what the optimiser remembers, the
        moments of `NormalizeObservation` and `NormalizeReward`, and the count of `ShapedReward`,
        so that its schedule goes on. The rest begins anew.

    **Returns:** `fresh` with those parts, and with the number of updates of `state`.

    **Raises:** `ValueError` when the shapes of parameters differ.
    """
    if not eqx.tree_equal(_shapes(state.policy), _shapes(fresh.policy)):
        raise ValueError(
            "A policy cannot be taken into environments with other observations or actions."
        )
    env_state = _with_parts(state.runner.env_state, fresh.runner.env_state, keep)
    # What the agents see first is normalised with the moments that were taken along.
    runner = dataclasses.replace(
        fresh.runner, env_state=env_state, observation=_observe(env, env_state)
    )
    return TrainState(
        policy=state.policy if "parameters" in keep else fresh.policy,
        opt_state=state.opt_state if "optimizer" in keep else fresh.opt_state,
        value_moments=(state if "parameters" in keep else fresh).value_moments,
        runner=runner,
        key=fresh.key,
        updates=state.updates,
    )


@eqx.filter_jit
def _observe(env: AbstractVectorEnv, env_state: PyTree) -> PyTree[Shaped[Array, "envs ..."]]:
    return env.observe(env_state)


def _shapes(tree: PyTree) -> PyTree:
    return eqx.filter_eval_shape(lambda: eqx.filter(tree, eqx.is_array))


def _with_parts(old: PyTree, new: PyTree, keep: Collection[Part]) -> PyTree:
    """The state `new` of a stack of wrappers, with the parts that are kept of `old`."""
    if not (isinstance(old, AbstractWrapperState) and isinstance(new, AbstractWrapperState)):
        return new
    # `tree_at` calls no `__init__`, which would check the shapes of one environment.
    inner = _with_parts(old.env_state, new.env_state, keep)
    new = eqx.tree_at(lambda state: state.env_state, new, inner)
    part, name = _WRAPPERS.get(type(new), (None, ""))
    if part in keep and type(old) is type(new):
        new = eqx.tree_at(lambda state: getattr(state, name), new, getattr(old, name))
    return new
