"""Checks of arguments, which run when a Module is built or a function is traced."""

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Shaped

from .typing import PyTree

Number: TypeAlias = Any
"""A number or an array of shape `()`. The checks raise an error for anything else."""

MAX_STEPS = 2**30
"""The longest allowed episode, in steps, which are counted as 32-bit integers."""


def as_number(
    value: Number, kind: type[int] | type[float], holds: Callable[[Number], object], needs: str
) -> Shaped[Array, ""]:
    """Checks a scalar and returns it as an array leaf, so that it can differ within a batch.

    **Arguments:**

    - `value`: the number, or an array of shape `()`. A traced value, as under `eqx.filter_vmap`,
        is not checked.
    - `kind`: `int` for integers only, `float` for any real number.
    - `holds`: returns whether a number is valid.
    - `needs`: the requirement, such as `"NormalizeReward needs a gamma from 0 to 1"`.

    **Raises:** `ValueError` with `needs`, the value, and its type if it is not a number.
    """
    if is_known(value):
        number = np.asarray(value)
        whole = jnp.issubdtype(number.dtype, jnp.integer)
        real = kind is float and jnp.issubdtype(number.dtype, jnp.floating)
        if number.ndim > 0 or not (whole or real):
            wanted = "an int" if kind is int else "a number"
            raise ValueError(f"{needs}, but got {_typed(value)}, not {wanted}.")
        if not holds(value):
            raise ValueError(f"{needs}, but got {value!r:.60}.")
    return jnp.asarray(value, kind)


def _typed(value: object) -> str:
    """A value of a wrong type in a message, such as `the float 4.0`."""
    if isinstance(value, jax.Array | np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    return f"the {type(value).__name__} {value!r:.60}"


def is_known(*values: object) -> bool:
    """Whether the values are concrete: none of them is being traced."""
    return not any(isinstance(value, Tracer) for value in values)


def as_probability(
    value: Number, needs: str = "A probability must be between 0 and 1"
) -> Shaped[Array, ""]:
    """A probability as an array leaf; see `as_number`."""
    return as_number(value, float, lambda x: 0 <= x <= 1, needs)


def is_finite(value: Number) -> Number:
    """Whether a number is finite as a float32."""
    return abs(value) <= float(np.finfo(np.float32).max)


def as_epsilon(value: Number, wrapper: str) -> Shaped[Array, ""]:
    """A wrapper's `epsilon`, which it adds to a variance, as an array leaf; see `as_number`."""
    smallest = float(np.finfo(np.float32).tiny)  # constant inputs are divided by sqrt(epsilon)
    needs = f"{wrapper} needs an epsilon above 0"
    return as_number(value, float, lambda x: x >= smallest and is_finite(x), needs)


def as_clip(value: Number, wrapper: str) -> Shaped[Array, ""]:
    """A wrapper's `clip`, the largest magnitude of its output, or infinity; see `as_number`."""
    return as_number(value, float, lambda x: x > 0, f"{wrapper} needs a clip above 0")


def as_count(value: Number, needs: str) -> int:
    """Checks a count of at least 1. It stays a Python integer, since it decides a shape or a loop.

    **Arguments:**

    - `value`: the number, a Python or NumPy integer.
    - `needs`: the requirement, such as `"Vectorize needs at least 1 environment"`.

    **Raises:** `ValueError` with `needs`, the value, and its type if it is not an integer.
    """
    try:
        count = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        count = None
    if count is None:
        raise ValueError(f"{needs}, but got {_typed(value)}, not an int.")
    if count < 1:
        raise ValueError(f"{needs}, but got {count}.")
    return count


def check_whole(**numbers: object) -> None:
    """Checks that arguments are integers before anything is computed with them.

    **Arguments:**

    - `numbers`: numbers, or tuples of numbers such as a range, by argument name.

    **Raises:** `ValueError` with the name and type of the first argument that is not an integer.
    """
    for name, value in numbers.items():
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, bool) or not isinstance(number, int | np.integer):
                what = "whole numbers" if isinstance(value, tuple) else "a whole number"
                verb = "has" if isinstance(value, tuple) else "is"
                raise ValueError(f"`{name}` must be {what}, but {verb} {_typed(number)}.")


def check_leading(leading: tuple[int, ...], **arrays: PyTree) -> None:
    """Checks that the leading axes of arrays are the agents, or the environments and the agents.

    The check runs at trace time, before JAX would raise an error of its own, and costs nothing in a
    compiled program.

    **Arguments:**

    - `leading`: the number of agents, preceded by the number of environments if there are several.
    - `arrays`: PyTrees of arrays, by their names in the message, such as `action=action`.

    **Raises:** `ValueError` with the name and the shape of the first array that does not fit, or
    with the type of a tree that is not of arrays.
    """
    names = ("envs", "agents")[-len(leading) :]
    wanted = ", ".join(f"{n} {name}" for n, name in zip(leading, names, strict=True))
    for name, tree in arrays.items():
        for leaf in jax.tree.leaves(tree):
            if not hasattr(leaf, "shape"):
                raise ValueError(
                    f"`{name}` must be an array that leads with {wanted}, but is {_typed(tree)}."
                )
            shape = tuple(leaf.shape)
            if shape[: len(leading)] != leading:
                raise ValueError(f"`{name}` must lead with {wanted}, but has the shape {shape}.")


def check_state(env: object, state: PyTree) -> None:
    """Checks that a state has no Python scalars as leaves. In a loop, they would become arrays, so
    the structure of the state would change.

    **Raises:** `TypeError` with the tree path of the first Python scalar.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        if isinstance(leaf, bool | int | float | complex) and not isinstance(leaf, np.generic):
            place = jax.tree_util.keystr(path) or "its top"
            raise TypeError(
                f"The state of {type(env).__name__} holds {leaf!r:.60} at {place}, which is not an "
                "array: put jnp.asarray around it where the state is made."
            )
