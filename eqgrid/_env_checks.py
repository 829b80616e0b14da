"""Checks of the environments, states, actions and time steps that users pass.

They run while a program is traced, and cost nothing in a compiled program.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, Shaped

from ._checks import check_leading
from ._env import (
    AbstractWrapperState,
    Environment,
    TimeStep,
    VectorEnvironment,
    is_batch,
    unwrap,
)
from ._spaces import Box, Discrete, MultiDiscrete
from .typing import PyTree

_METHODS = ("reset", "step", "observe")
_FIELDS = ("num_agents", "action_space")
_TIMESTEP = ("observation", "reward", "terminated", "truncated", "info")


def what_is_missing(env: object) -> str | None:
    """What an object lacks to be an environment, with each missing method and field by its name,
    or `None` if it is one.
    """
    if isinstance(env, type):
        return f"{env.__name__} is a class: make an object of it, as in {env.__name__}()"
    if not isinstance(env, eqx.Module):
        return f"{env!r:.60} is of the type {type(env).__name__}, and not an eqx.Module"
    missing = [f"no method `{x}`" for x in _METHODS if not callable(getattr(env, x, None))]
    missing += [f"no field `{x}`" for x in _FIELDS if not hasattr(env, x)]
    return f"{type(env).__name__} has {', '.join(missing)}" if missing else None


def check_single_env(env: object, usage: str) -> Environment:
    """Checks that a wrapper or a function is given a single environment.

    **Arguments:**

    - `env`: the argument.
    - `usage`: how the wrapper is called, such as `"TimeLimit(env, limit)"`, for the message.

    **Returns:** `env`.

    **Raises:** `ValueError` for a vector environment, `TypeError` for anything else.
    """
    complete = _check_complete(env, usage)
    if is_batch(env):
        raise ValueError(
            f"{_name(usage)} needs one environment, but {type(env).__name__} is a batch of "
            f"{env.num_envs}: use {usage} with the environment inside Vectorize."
        )
    return complete


def check_vector_env(env: object, usage: str) -> VectorEnvironment:
    """Checks that a wrapper or a function is given a vector environment.

    **Arguments:**

    - `env`: the argument.
    - `usage`: how the wrapper is called, such as `"NormalizeReward(env)"`, for the message.

    **Returns:** `env`.

    **Raises:** `ValueError` for a single environment, `TypeError` for anything else.
    """
    complete = _check_complete(env, usage)
    if not is_batch(env):
        raise ValueError(
            f"{_name(usage)} needs a batch of environments, but {type(env).__name__} is one "
            f"environment: use Vectorize, as in "
            f"{usage.replace('env', 'Vectorize(env, num_envs)', 1)}."
        )
    return complete


def _name(usage: str) -> str:
    return usage.partition("(")[0]


def _check_complete(env: object, usage: str) -> Any:
    if missing := what_is_missing(env):
        raise TypeError(f"{_name(usage)} needs an environment, but {missing}.")
    return env


def check_own_state(
    wrapper: Environment | VectorEnvironment,
    kind: type[AbstractWrapperState],
    state: PyTree,
    **shapes: tuple[int, ...],
) -> None:
    """Checks that a state is the state of a wrapper, and of the same number of environments.

    **Arguments:**

    - `wrapper`: the wrapper, whose `step` or `observe` is given the state.
    - `kind`: the class of its states.
    - `state`: the given state.
    - `shapes`: the shapes of some fields of the state, by name.

    **Raises:** `TypeError` for a state of another class, `ValueError` for other shapes.
    """
    name = type(wrapper).__name__
    if not isinstance(state, kind):
        raise TypeError(
            f"{name} needs the {kind.__name__} that its own reset or step returned, but got "
            f"{_kind(state)}."
        )
    found = {f".{field}": _shape(getattr(state, field)) for field in shapes}
    _compare_shapes(name, found, {f".{field}": shape for field, shape in shapes.items()})


def check_state_like(name: str, state: PyTree, start: PyTree) -> None:
    """Checks that a state has the arrays of `start`, another state of the same environment.

    **Raises:** `TypeError` for a state of another class, `ValueError` for other shapes.
    """
    if type(state) is not type(start):
        raise TypeError(
            f"{name} needs a {type(start).__name__} as its state, but got {_kind(state)}."
        )
    found, wanted = _shapes(state), _shapes(start)
    # A phase may add arrays to the state, such as the words that agents say.
    found = {place: shape for place, shape in found.items() if place in wanted}
    _compare_shapes(name, found, wanted)


def check_batch(env: VectorEnvironment, state: PyTree) -> None:
    """Checks that all arrays of a state lead with the number of environments.

    **Raises:** `ValueError` with the first array that does not.
    """
    for place, shape in _shapes(state).items():
        if shape[:1] != (env.num_envs,):
            raise ValueError(
                f"{type(env).__name__} has {env.num_envs} environments, but got the state "
                f"{_kind(state)}, whose array {place} has the shape {shape}."
            )


def _compare_shapes(
    name: str, found: dict[str, tuple[int, ...]], wanted: dict[str, tuple[int, ...]]
) -> None:
    if found == wanted:
        return
    sizes = {shape[:1] for shape in found.values()}
    if len(sizes) == 1 and wanted == {place: shape[1:] for place, shape in found.items()}:
        raise ValueError(
            f"{name} is one environment, but got the states of {sizes.pop()[0]}: use "
            "Vectorize(env, num_envs), or eqx.filter_vmap."
        )
    place = next(x for x in {**wanted, **found} if found.get(x) != wanted.get(x))
    raise ValueError(
        f"{name} got a state of another environment: its array {place} must have the shape "
        f"{wanted.get(place)}, but has {found.get(place)}."
    )


def _kind(state: PyTree) -> str:
    return "an array" if eqx.is_array(state) else type(state).__name__


def _shape(x: object) -> tuple[int, ...]:
    return tuple(getattr(x, "shape", ()))


def _shapes(tree: PyTree) -> dict[str, tuple[int, ...]]:
    """The shape of each array, by its path."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(tree, eqx.is_array_like))
    return {jax.tree_util.keystr(path): _shape(leaf) for path, leaf in leaves}


def check_action(env: Environment | VectorEnvironment, action: Shaped[Array, "..."]) -> None:
    """Checks that there is one action for each agent, in the shape of the action space.

    **Raises:** `TypeError` for something that is not an array, or for real numbers where the space
    is discrete; `ValueError` for another shape.
    """
    name, space = type(unwrap(env)).__name__, env.action_space
    if not hasattr(action, "shape"):
        raise TypeError(
            f"`action` must be an array with an action for each agent, but is of the type "
            f"{type(action).__name__}: {action!r:.60}."
        )
    leading = _leading(env)
    check_leading(leading, action=action)
    shape, needs = (), "one number"
    if isinstance(space, MultiDiscrete):
        shape, needs = (len(space.ns),), f"{len(space.ns)} choices"
    elif isinstance(space, Box):
        shape, needs = space.shape, f"an array of shape {space.shape}"
    elif not isinstance(space, Discrete):
        return
    if action.shape[len(leading) :] != shape:
        raise ValueError(
            f"The action of an agent of {name} must be {needs}, but the actions have the shape "
            f"{action.shape}."
        )
    if not isinstance(space, Box) and not jnp.issubdtype(action.dtype, jnp.integer):
        raise TypeError(f"The actions of {name} must be integers, but are {action.dtype}.")


def _leading(env: Environment | VectorEnvironment) -> tuple[int, ...]:
    """The numbers of environments, if there are many, and of agents."""
    return (env.num_envs, env.num_agents) if is_batch(env) else (env.num_agents,)


def step_env(
    env: Environment | VectorEnvironment,
    key: PRNGKeyArray,
    state: PyTree,
    action: Shaped[Array, "..."],
) -> tuple[TimeStep, PyTree]:
    """`env.step` for callers that accept any environment, such as a wrapper: it checks the action
    and the result, and converts a result with the fields of a `TimeStep` to a `TimeStep`.

    **Arguments:**

    - `env`: a single or vector environment.
    - `key`, `state`, `action`: the arguments of its `step`.

    **Returns:** the result of the step, and the next state.

    **Raises:** `TypeError` or `ValueError` that names the part that does not fit.
    """
    check_action(env, action)
    result = env.step(key, state, action)
    if fault := result_fault(env, result):
        raise TypeError(fault)
    timestep, state = as_timestep(result)
    _check_timestep(_leading(env), timestep)
    return timestep, state


def result_fault(env: Environment | VectorEnvironment, result: object) -> str | None:
    """What is wrong with the result of `env.step`, or `None` for a time step and a state."""
    name = type(env).__name__
    if not isinstance(result, tuple) or len(result) != 2:
        size = f" of length {len(result)}" if isinstance(result, tuple) else ""
        kind = type(result).__name__
        return f"{name}.step must return a TimeStep and a state, but returns {kind}{size}."
    if missing := [field for field in _TIMESTEP if not hasattr(result[0], field)]:
        return (
            f"{name}.step must return a TimeStep, or an object with its fields, and a state, but "
            f"{type(result[0]).__name__} has no field {', '.join(missing)}."
        )
    return None


def as_timestep(result: tuple[Any, PyTree]) -> tuple[TimeStep, PyTree]:
    """Converts an object with the fields of a `TimeStep` in the result of a step."""
    timestep, state = result
    if not isinstance(timestep, TimeStep):
        final = getattr(timestep, "final_observation", None)
        fields = {field: getattr(timestep, field) for field in _TIMESTEP}
        timestep = TimeStep(**fields, final_observation=final)
    return timestep, state


def _check_timestep(leading: tuple[int, ...], timestep: TimeStep) -> None:
    """Checks that the arrays of agents in a timestep lead with an axis of agents, and that
    `truncated` has no such axis.
    """
    check_leading(
        leading,
        observation=timestep.observation,
        final_observation=timestep.final_observation,
        reward=timestep.reward,
        terminated=timestep.terminated,
    )
    if not hasattr(timestep.truncated, "shape"):
        raise ValueError("`truncated` must be an array: put jnp.asarray around it.")
    shape = _shape(timestep.truncated)
    if shape != leading[:-1]:
        raise ValueError(f"`truncated` must have the shape {leading[:-1]}, but has {shape}.")


def info_entry(env: Environment, name: str, wrapper: str) -> jax.ShapeDtypeStruct:
    """The shape and dtype of one entry of `info`.

    **Arguments:**

    - `env`: the environment; it is traced, not run.
    - `name`: the key of the entry.
    - `wrapper`: the name of the calling wrapper, for the error message.

    **Returns:** the shape and dtype of `info[name]`.

    **Raises:** `ValueError` when there is no such entry.
    """
    entries = eqx.filter_eval_shape(first_timestep, env, jax.random.key(0)).info
    if name not in entries:
        known = ", ".join(repr(entry) for entry in sorted(entries)) or "none"
        raise ValueError(f"{wrapper} needs info[{name!r}], but this environment has only: {known}.")
    return entries[name]


def first_timestep(env: Environment, key: PRNGKeyArray) -> TimeStep:
    """The result of the first step of an episode, with random actions.

    Under `eqx.filter_eval_shape`, it gives the shapes of the arrays in a timestep.

    **Arguments:**

    - `env`: the environment.
    - `key`: the source of randomness.
    """
    reset_key, action_key, step_key = jax.random.split(key, 3)
    _, state = env.reset(reset_key)
    action = jax.vmap(env.action_space.sample)(jax.random.split(action_key, env.num_agents))
    timestep, _ = step_env(env, step_key, state, action)
    return timestep
