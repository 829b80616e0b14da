"""Checks of arguments when a Module is built, and while a program is traced."""

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PyTree, Shaped

MAX_STEPS = 2**30
"""The longest episode: steps are counted in 32 bits."""


def as_number(
    value: Any, kind: type[int] | type[float], holds: Callable[[Any], Any], needs: str
) -> Shaped[Array, ""]:
    """One number as an array leaf, so that a batch of Modules can have different ones.

    **Arguments:**

    - `value`: the number, or an array with one. While it is being traced, as under
        `eqx.filter_vmap`, its value cannot be looked at, and is taken as it is.
    - `kind`: `int` for whole numbers only, `float` for others, too.
    - `holds`: whether the number can be used.
    - `needs`: what must be given, such as `"NormalizeReward needs a gamma from 0 to 1"`.

    **Raises:** `ValueError` with `needs` and what was given.
    """
    if is_known(value):
        number = np.asarray(value)
        whole = jnp.issubdtype(number.dtype, jnp.integer)
        real = kind is float and jnp.issubdtype(number.dtype, jnp.floating)
        if number.ndim > 0 or not (whole or real) or not holds(value):
            raise ValueError(f"{needs}, but got {value!r:.60}.")
    return jnp.asarray(value, kind)


def is_known(*values: Any) -> bool:
    """Whether values can be looked at, since none of them is being traced."""
    return not any(isinstance(value, Tracer) for value in values)


def as_probability(
    value: Any, needs: str = "A probability must be between 0 and 1"
) -> Shaped[Array, ""]:
    """A probability as an array leaf; see `as_number`."""
    return as_number(value, float, lambda x: 0 <= x <= 1, needs)


def is_finite(value: Any) -> Any:
    """Whether a number is finite in 32 bits."""
    return abs(value) <= float(np.finfo(np.float32).max)


def as_epsilon(value: Any, wrapper: str) -> Shaped[Array, ""]:
    """What a wrapper adds to a variance; see `as_number`."""
    smallest = float(np.finfo(np.float32).tiny)  # what does not vary is divided by its root
    holds = lambda x: x >= smallest and is_finite(x)  # noqa: E731
    return as_number(value, float, holds, f"{wrapper} needs an epsilon above 0")


def as_clip(value: Any, wrapper: str) -> Shaped[Array, ""]:
    """The largest magnitude that a wrapper gives, perhaps infinite; see `as_number`."""
    return as_number(value, float, lambda x: x > 0, f"{wrapper} needs a clip above 0")


def as_count(value: Any, needs: str) -> int:
    """A whole number of at least 1 that decides a shape or a loop, and so is no array leaf.

    **Arguments:**

    - `value`: the number, of Python or of NumPy.
    - `needs`: what must be given, such as `"Vectorize needs at least 1 environment"`.

    **Raises:** `ValueError` with `needs` and what was given.
    """
    try:
        count = operator.index(value)
    except TypeError:
        count = None
    if count is None or isinstance(value, bool) or count < 1:
        raise ValueError(f"{needs}, but got {value!r:.60}.")
    return count


def check_whole(**numbers: Any) -> None:
    """Refuses what is no whole number before anything is computed with it.

    **Arguments:**

    - `numbers`: numbers, or tuples of numbers such as a range, by the names of arguments.

    **Raises:** `ValueError` with the name of the first one.
    """
    for name, value in numbers.items():
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, bool) or not isinstance(number, int | np.integer):
                what = "whole numbers" if isinstance(value, tuple) else "a whole number"
                raise ValueError(f"`{name}` must be {what}, but is {value!r:.60}.")


def check_action_shape(action: object, leading: tuple[int, ...]) -> None:
    """Compares the leading axes of actions with what an environment takes.

    It costs nothing in a compiled program, and says at once what jax would say far away.

    **Raises:** `ValueError` when they differ.
    """
    shape = getattr(action, "shape", ())
    found = tuple(shape[: len(leading)])
    if found != leading:
        names = ("envs", "agents")[-len(leading) :]
        wanted = ", ".join(f"{n} {name}" for n, name in zip(leading, names, strict=True))
        raise ValueError(f"The actions must lead with {wanted}, but their shape is {tuple(shape)}.")


def check_state(env: object, state: PyTree) -> None:
    """Refuses Python's own numbers in a state: they become arrays in a loop, and a state must not
    change its structure from one step to the next.

    **Raises:** `TypeError` with the place of the first one.
    """
    for where, leaf in jax.tree_util.tree_leaves_with_path(state):
        if isinstance(leaf, bool | int | float | complex) and not isinstance(leaf, np.generic):
            place = jax.tree_util.keystr(where) or "its top"
            raise TypeError(
                f"The state of {type(env).__name__} holds {leaf!r:.60} at {place}, which is no "
                "array: put jnp.asarray around it where the state is made."
            )
