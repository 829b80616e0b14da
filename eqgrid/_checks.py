"""Mistakes that are said while a program is traced: in a compiled one the checks cost nothing."""

import jax
import numpy as np
from jaxtyping import PyTree


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
