"""Environments by name."""

import difflib
import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from ..grid import GridWorld
from .foraging import Foraging
from .goals import Goals
from .overcooked import Overcooked
from .overcooked_v2 import OvercookedV2
from .rescue import Rescue
from .warehouse import Warehouse

EnvName: TypeAlias = Literal[
    "overcooked", "overcooked_v2", "foraging", "warehouse", "rescue", "goals"
]

ENVIRONMENTS: dict[EnvName, Callable[..., GridWorld]] = {
    "overcooked": Overcooked,
    "overcooked_v2": OvercookedV2,
    "foraging": Foraging,
    "warehouse": Warehouse,
    "rescue": Rescue,
    "goals": Goals,
}
"""What `make` knows: the constructor of each world."""


def make(name: EnvName, **options: Any) -> GridWorld:
    """Builds an environment by name: `make("overcooked", layout="ring")`.

    **Arguments:**

    - `name`: a key of `ENVIRONMENTS`.
    - `options`: what the world's own constructor takes.

    **Raises:** `ValueError` when there is no such environment or option, or the constructor refuses
    an option.
    """
    if name not in ENVIRONMENTS:
        raise ValueError(
            f"There is no environment {name!r}{_hint(name, ENVIRONMENTS)} Known are "
            f"{', '.join(ENVIRONMENTS)}."
        )
    known = list(inspect.signature(ENVIRONMENTS[name]).parameters)
    for option in options:
        if option not in known:
            raise ValueError(
                f"The environment {name!r} has no option {option!r}{_hint(option, known)} "
                f"Known are {', '.join(known)}."
            )
    return ENVIRONMENTS[name](**options)


def _hint(word: str, known: Any) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else "."
