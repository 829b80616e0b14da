"""Environments by name."""

import difflib
import inspect
from typing import Any

from ..grid import GridWorld
from .overcooked import Overcooked

ENVIRONMENTS = {"overcooked": Overcooked}


def make(name: str, **options: Any) -> GridWorld:
    """Builds an environment by name: `make("overcooked", layout="ring")`.

    **Arguments:**

    - `name`: `"overcooked"`.
    - `options`: what the environment's own constructor takes.

    **Raises:** `ValueError` when there is no such environment or option.
    """
    if name not in ENVIRONMENTS:
        near = difflib.get_close_matches(name, ENVIRONMENTS, n=1, cutoff=0.0)
        raise ValueError(f"There is no environment {name!r}; did you mean {near[0]!r}?")
    known = list(inspect.signature(ENVIRONMENTS[name]).parameters)
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1, cutoff=0.0)
            raise ValueError(
                f"The environment {name!r} has no option {option!r}; did you mean {near[0]!r}? "
                f"Known are {', '.join(known)}."
            )
    return ENVIRONMENTS[name](**options)
