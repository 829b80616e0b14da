"""The kitchen and the counters that a command line names."""

import re
from collections.abc import Sequence
from typing import Literal

from eqgrid_lab import Kitchen
from eqgrid.envs.overcooked import REFERENCE_NAMES
from eqgrid.grid import AbstractGridWorld
from eqgrid_lab.base import UsageError, as_usage_error

from .._joint_model import reachable_counters


def build_kitchen(
    layout: str, dynamics: Literal["classic", "interactive"], horizon: int
) -> tuple[Kitchen, AbstractGridWorld]:
    """The settings of a kitchen, and the kitchen.

    **Raises:** `UsageError` when it cannot be built, or there are several layouts.
    """
    name = REFERENCE_NAMES.get(layout, layout)
    kitchen = Kitchen(layout=name, dynamics=dynamics, horizon=horizon)
    with as_usage_error():
        world = kitchen.build(train=False)
    if not isinstance(world, AbstractGridWorld):
        raise UsageError("The search is for one kitchen: name one layout.")
    return kitchen, world


def read_counters(texts: Sequence[str], env: AbstractGridWorld) -> tuple[tuple[int, int], ...]:
    """The rows and columns of the counters that a command line names.

    **Arguments:**

    - `texts`: counters as `row,column`, or only the word `all`, for all reachable counters.
    - `env`: the kitchen.

    **Raises:** `UsageError` when a counter is not written as `row,column`.
    """
    if tuple(texts) == ("all",):
        return reachable_counters(env.layout)
    cells = []
    for text in texts:
        if not re.fullmatch(r"\d{1,3},\d{1,3}", text, re.ASCII):
            raise UsageError(
                "--counters takes cells as row,column, such as 1,2, or the word all, not "
                f"{text!r:.60}."
            )
        row, _, col = text.partition(",")
        cells.append((int(row), int(col)))
    return tuple(sorted(set(cells)))
