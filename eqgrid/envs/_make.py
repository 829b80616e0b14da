"""Environments by name."""

import difflib
from typing import Any

from .._env import AbstractEnv
from ._overcooked import Overcooked

ENVIRONMENTS = {"overcooked": Overcooked}


def make(name: str, **options: Any) -> AbstractEnv:
    """Builds an environment by name: `make("overcooked", layout="ring")`.

    **Arguments:**

    - `name`: `"overcooked"`.
    - `options`: what the environment's own constructor takes.

    **Raises:** `ValueError` when there is no such environment or option.
    """
    if name not in ENVIRONMENTS:
        near = difflib.get_close_matches(name, ENVIRONMENTS, n=1, cutoff=0.0)
        raise ValueError(f"There is no environment {name!r}; did you mean {near[0]!r}?")
    return ENVIRONMENTS[name](**options)
