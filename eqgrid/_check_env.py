"""`check_env`: checks a user-defined environment against the environment protocol.

Each check is a generator of faults: one sentence for each rule that the environment breaks.
"""

import functools
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, PRNGKeyArray

from ._checks import check_state
from ._env import Environment, TimeStep, is_batch, unwrap, unwrap_state
from ._env_checks import as_timestep, result_fault, what_is_missing
from ._spaces import Box, Discrete, MultiDiscrete, sample_allowed, split_mask
from .typing import PyTree


def check_env(env: Environment, *, steps: int = 200, seed: int = 0) -> None:
    """Takes random steps in an environment, and reports which rules of the protocol it breaks.

    ```python
    from eqgrid import check_env, make

    check_env(make("overcooked"))
    ```

    **Arguments:**

    - `env`: a single environment.
    - `steps`: the number of random steps; an episode that ends is followed by a reset. With 0,
        only shapes and dtypes are checked, which takes no time.
    - `seed`: the seed of the actions and of the environment.

    **Raises:** `ValueError` with one sentence for each broken rule, one per line.
    """
    shape_key, play_key = jax.random.split(jax.random.key(seed))
    # A generator runs only when it is iterated, so each check can rely on the checks before it.
    checks = [
        _class_faults(env),
        _space_faults(env),
        _key_faults(env, shape_key),
        _shape_faults(env, shape_key),
    ]
    if steps > 0:
        checks.append(_play_faults(env, play_key, steps))
    for check in checks:
        if faults := list(check):
            raise ValueError("\n".join(dict.fromkeys(faults)))


def _class_faults(env: Environment) -> Iterator[str]:
    name = type(env).__name__
    if missing := what_is_missing(env):
        yield f"{missing}."
    elif is_batch(env):
        yield f"{name} is a batch of environments, but check_env checks one: pass its inner one."
    elif not isinstance(env.num_agents, int) or env.num_agents < 1:
        yield f"{name}.num_agents must be a whole number of at least 1, not {env.num_agents!r}."


def _space_faults(env: Environment) -> Iterator[str]:
    """The action space must be discrete, or a bounded `Box` of floats."""
    space = env.action_space
    if not isinstance(space, Discrete | MultiDiscrete | Box):
        name = type(env).__name__
        yield f"{name}.action_space must be Discrete, MultiDiscrete or Box, not {space!r:.60}."
    if not isinstance(space, Box):
        return
    if 0 in space.shape:
        yield f"An action must have at least one number, but has the shape {space.shape}."
    bounds = (space.low, space.high)
    if not all(jnp.issubdtype(bound.dtype, jnp.floating) for bound in bounds):
        yield "The bounds of a Box must be floats: for whole numbers, use Discrete."
    elif not all(np.isfinite(bound).all() for bound in bounds):
        yield "The bounds of a Box must be finite numbers."


def _key_faults(env: Environment, key: PRNGKeyArray) -> Iterator[str]:
    """No random key may be used twice. JAX detects such keys while it traces.

    An environment may use a key in its state several times on purpose, so environments with such
    keys are not checked.
    """
    method = "reset"
    try:
        _, state = eqx.filter_eval_shape(env.reset, jax.random.clone(key))
        if any(jnp.issubdtype(x.dtype, jax.dtypes.prng_key) for x in jax.tree.leaves(state)):
            return
        with jax.debug_key_reuse(True):
            reset_key, step_key = jax.random.split(jax.random.clone(key))
            eqx.filter_eval_shape(env.reset, reset_key)
            method = "step"
            eqx.filter_eval_shape(_random_step, env, step_key, state)
    except jax.errors.KeyReuseError:
        yield (
            f"{method} uses a random key twice: sample from each key once, and make more keys with "
            "jax.random.split."
        )
    except Exception:
        return  # another fault, which the other checks report or raise again


def _shape_faults(env: Environment, key: PRNGKeyArray) -> Iterator[str]:
    """Faults of structure, shapes and dtypes, which are found by tracing."""
    observation, state = eqx.filter_eval_shape(env.reset, key)
    if faults := list(_reset_faults(env, observation, state)):
        yield from faults
        return
    result = eqx.filter_eval_shape(_random_result, env, key, state)
    if fault := result_fault(env, result):
        yield fault
        return
    timestep, after = eqx.filter_eval_shape(as_timestep, result)
    if faults := list(_non_array_faults(timestep, "The TimeStep of step")):
        yield from faults
        return
    yield from _agent_axis_faults(env, timestep.observation, "The observation of step")
    if not isinstance(timestep.info, dict):
        yield f"info must be a dict of arrays, not {type(timestep.info).__name__}."
        return
    yield from _info_faults(env, timestep)
    wanted = (("reward", (env.num_agents,)), ("terminated", (env.num_agents,)), ("truncated", ()))
    for field, shape in wanted:
        found = getattr(timestep, field)
        if found.shape != shape:
            yield f"{field} must have the shape {shape}, but has {found.shape}."
    if not jnp.issubdtype(timestep.reward.dtype, jnp.floating):
        yield f"reward must have a float dtype, not {timestep.reward.dtype}."
    for field in ("terminated", "truncated"):
        if getattr(timestep, field).dtype != bool:
            yield f"{field} must have the dtype bool, not {getattr(timestep, field).dtype}."
    if _shapes(observation) != _shapes(timestep.observation):
        yield "reset and step must return observations of the same structure, shapes and dtypes."
    if _shapes(eqx.filter_eval_shape(env.observe, state)) != _shapes(observation):
        yield "observe must return observations of the same structure, shapes and dtypes as reset."
    if _shapes(state) != _shapes(after):
        yield (
            "step must leave the structure, shapes and dtypes of the state unchanged; otherwise a "
            "loop over steps is recompiled."
        )


def _shapes(tree: PyTree) -> tuple[object, list[object]]:
    """The structure of a tree, and the shape and dtype of each leaf."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, [(x.shape, x.dtype) if hasattr(x, "shape") else type(x) for x in leaves]


def _reset_faults(env: Environment, observation: PyTree, state: PyTree) -> Iterator[str]:
    try:
        check_state(env, state)
    except TypeError as error:
        yield str(error)
    if faults := list(_non_array_faults(observation, "The observation of reset")):
        yield from faults
        return
    if any(leaf.dtype == np.float64 for leaf in jax.tree.leaves(observation)):
        yield "Observations must not be float64, which networks do not support: use jnp.float32."
    yield from _agent_axis_faults(env, observation, "The observation of reset")
    _, action_mask = split_mask(observation)
    if action_mask is None:
        return
    space = env.action_space
    if not isinstance(space, Discrete | MultiDiscrete):
        kind = type(space).__name__
        yield f"Only Discrete and MultiDiscrete actions can be masked, not actions of a {kind}."
    elif (action_mask.shape, action_mask.dtype) != ((env.num_agents, space.num_options), bool):
        yield (
            f"action_mask must be bool{[env.num_agents, space.num_options]}, a truth value for "
            f"each action of each agent, but is {action_mask.dtype}{list(action_mask.shape)}."
        )


def _non_array_faults(tree: PyTree, what: str) -> Iterator[str]:
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if not hasattr(leaf, "dtype"):
            place = jax.tree_util.keystr(path) or "its top"
            yield f"{what} holds {leaf!r:.60} at {place}: put jnp.asarray around it."


def _agent_axis_faults(env: Environment, observation: PyTree, what: str) -> Iterator[str]:
    for leaf in jax.tree.leaves(observation):
        if leaf.shape[:1] != (env.num_agents,):
            yield f"{what} must lead with {env.num_agents} agents, but has the shape {leaf.shape}."


def _info_faults(env: Environment, timestep: TimeStep) -> Iterator[str]:
    """Checks the two entries of `info` that learners and commands read."""
    agents, info = env.num_agents, timestep.info
    shaped = info.get("shaped_reward")
    if shaped is not None and shaped.shape != (agents,):
        yield f'info["shaped_reward"] must have the shape {(agents,)}, but has {shaped.shape}.'
    names, events = getattr(unwrap(env), "event_names", None), info.get("events")
    if names is None:
        return
    wanted = (agents, len(names))
    found = None if events is None else events.shape
    if found != wanted:
        yield (
            f'info["events"] must have the shape {wanted}, a column for each of event_names, but '
            f"{'is missing' if found is None else f'has {found}'}."
        )


def _random_step(
    env: Environment, key: PRNGKeyArray, state: PyTree, key_offset: int = 0
) -> tuple[TimeStep, PyTree]:
    return as_timestep(_random_result(env, key, state, key_offset))


def _random_result(
    env: Environment, key: PRNGKeyArray, state: PyTree, key_offset: int = 0
) -> tuple[Any, PyTree]:
    """The result of one step in which every agent takes a random allowed action. With another
    `key_offset`, the environment gets another key, but the actions are the same.
    """
    action_key, step_key = jax.random.split(key)
    step_key = jax.random.fold_in(step_key, key_offset) if key_offset else step_key
    sample = functools.partial(sample_allowed, env.action_space, env.observe(state))
    keys = jax.random.split(action_key, env.num_agents)
    return env.step(step_key, state, jax.vmap(sample)(jnp.arange(env.num_agents), keys))


def _play_faults(env: Environment, key: PRNGKeyArray, steps: int) -> Iterator[str]:
    """Faults that appear in random steps. Each step is taken twice, with equal arguments."""
    traces = []

    @eqx.filter_jit
    def step(env: Environment, key: PRNGKeyArray, state: PyTree) -> tuple[TimeStep, PyTree, PyTree]:
        traces.append(None)  # this line runs only while the function is compiled
        timestep, after = _random_step(env, key, state)
        return timestep, after, env.observe(after)

    reset = eqx.filter_jit(env.reset)
    first_key, *step_keys = jax.random.split(key, steps + 1)
    first, state = reset(first_key)
    if not _equal(first, reset(_clone_keys(first_key))[0]):
        yield "reset must depend only on its key: equal keys gave different observations."
    yield from _number_faults(first)
    if not _equal(first, eqx.filter_jit(env.observe)(_clone_keys(state))):
        yield "observe(state) must be the observation that reset returned with the state."
    over, info_keys = np.zeros(env.num_agents, bool), None
    yield from _mask_faults(env, first, ~over)
    resets, length = [], 0
    for step_key, reset_key in map(jax.random.split, step_keys):
        inputs = _clone_keys((step_key, state))
        timestep, after, observed = step(env, step_key, state)
        if not _equal((timestep, after), step(env, *inputs)[:2]):
            yield "step must depend only on its arguments: equal arguments gave different results."
        if not _equal(timestep.observation, observed):
            yield "observe(state) must be the observation that step returned with the state."
        if not np.isfinite(timestep.reward).all():
            yield "reward must be finite."
        yield from _number_faults((timestep.observation, timestep.final_observation))
        if (over & ~np.asarray(timestep.terminated)).any():
            yield "terminated must stay true for an agent until the episode is over."
        if info_keys is not None and info_keys != set(timestep.info):
            yield "info must have the same keys in every step."
        over, info_keys = np.asarray(timestep.terminated), set(timestep.info)
        acts = ~over & ~np.asarray(timestep.done)
        yield from _mask_faults(env, timestep.final_observation, acts)
        length, state = length + 1, after
        if bool(timestep.done):
            fresh, state = reset(reset_key)
            resets.append(_resets_itself(env, inputs, timestep, after, fresh, length))
            length = 0
            over = np.zeros(env.num_agents, bool)
            yield from _mask_faults(env, fresh, ~over)
    if resets and all(resets):
        yield (
            "step must not reset the environment at the end of an episode, since AutoReset does; "
            "if it has to, final_observation must be the observation before the reset."
        )
    if len(traces) > 1:
        yield f"step was compiled {len(traces)} times for equal shapes, but must be compiled once."


def _mask_faults(
    env: Environment, observation: PyTree, acts: Bool[np.ndarray, " agents"]
) -> Iterator[str]:
    """Checks that each agent that acts next may take some action."""
    _, action_mask = split_mask(observation)
    if action_mask is None:
        return
    choices = env.action_space.split(action_mask)
    if any((acts & ~np.asarray(options).any(axis=-1)).any() for options in choices):
        yield "action_mask must allow at least one action to each agent that has not terminated."


def _number_faults(observation: PyTree) -> Iterator[str]:
    floats = [x for x in jax.tree.leaves(observation) if jnp.issubdtype(x.dtype, jnp.floating)]
    if not all(np.isfinite(x).all() for x in floats):
        yield "Observations must be finite numbers: networks cannot process NaN or infinity."


def _resets_itself(
    env: Environment,
    inputs: tuple[PRNGKeyArray, PyTree],
    timestep: TimeStep,
    after: PyTree,
    fresh: PyTree,
    length: int,
) -> bool:
    """Whether the last step of an episode has already started the next episode.

    It has if all of the following hold: a counter of the steps of the episode went back to 0; the
    final observation equals the observation; and the observation equals the observation of a fresh
    reset, or changes with the key.

    **Arguments:**

    - `env`: the environment.
    - `inputs`: the key of the step, and the state before it.
    - `timestep`, `after`: the result of the step.
    - `fresh`: the observation of a reset.
    - `length`: the number of steps of the episode.
    """
    # Only the innermost state is searched for counters: a counter of a wrapper may start again.
    pairs = zip(*(jax.tree.leaves(unwrap_state(x)) for x in (inputs[1], after)), strict=True)
    went_back = [
        int(old) == length - 1 and int(new) == 0
        for old, new in pairs
        if new.shape == () and jnp.issubdtype(new.dtype, jnp.integer)
    ]
    observed = timestep.observation
    if length == 1 or not any(went_back) or not _equal(observed, timestep.final_observation):
        return False
    other, _ = eqx.filter_jit(_random_step)(env, *_clone_keys(inputs), key_offset=1)
    return _equal(observed, fresh) or not _equal(observed, other.observation)


def _clone_keys(tree: PyTree) -> PyTree:
    """A copy of the tree whose PRNG keys are cloned, so that they may be used a second time."""

    def clone(x: PyTree) -> PyTree:
        is_key = eqx.is_array(x) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
        return jax.random.clone(x) if is_key else x

    return jax.tree.map(clone, tree)


def _equal(one: PyTree, other: PyTree) -> bool:
    return bool(eqx.tree_equal(one, other))
