"""The flags of a search in a kitchen."""

import dataclasses
import re
from pathlib import Path
from typing import Annotated, Literal

import tyro
from msgspec import Meta

from eqgrid_lab import Kitchen
from eqgrid.envs.overcooked import REFERENCE_NAMES
from eqgrid.grid import AbstractGridWorld
from eqgrid_lab.base import UsageError, as_usage_error

from .._joint_model import JointModel, reachable_counters

_GIB = 2**30


@dataclasses.dataclass(frozen=True)
class KitchenFlags:
    """The kitchen, the limits of the search, and the results."""

    layout: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="LAYOUT")]] = "cramped"
    """cramped, asymmetric, ring, forced, circuit, the name of another layout, or a file."""
    dynamics: Literal["classic", "interactive"] = "classic"
    """A full pot starts by itself (classic), or a cook starts it (interactive)."""
    horizon: Annotated[int, Meta(ge=1, le=10_000)] = 400
    """Length of the episode, in steps."""
    counters: Annotated[tuple[str, ...], tyro.conf.arg(metavar="ROW,COL ...")] = ()
    """Counters that cooks may use, each as row,column from 0; or all."""
    memory_gib: Annotated[float, Meta(gt=0)] = 8.0
    """Maximum memory for values and probabilities, in GiB."""
    disk_gib: Annotated[float, Meta(gt=0)] = 16.0
    """Maximum disk space for values or actions, in GiB."""
    video: bool = True
    """Write videos."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results; by default, a new one in runs/."""

    def kitchen(self) -> tuple[Kitchen, AbstractGridWorld]:
        """The settings of the kitchen, and the kitchen.

        **Raises:** `UsageError` when it cannot be built, or there are several layouts.
        """
        name = REFERENCE_NAMES.get(self.layout, self.layout)
        kitchen = Kitchen(layout=name, dynamics=self.dynamics, horizon=self.horizon)
        with as_usage_error():
            world = kitchen.build(train=False)
        if not isinstance(world, AbstractGridWorld):
            raise UsageError("The search is for one kitchen: name one layout.")
        return kitchen, world

    def cells(self, env: AbstractGridWorld) -> tuple[tuple[int, int], ...]:
        """The rows and columns of the counters in a kitchen.

        **Raises:** `UsageError` when a counter is not written as `row,column`.
        """
        if self.counters == ("all",):
            return reachable_counters(env.layout)
        for text in self.counters:
            if not re.fullmatch(r"\d{1,3},\d{1,3}", text, re.ASCII):
                raise UsageError(
                    "--counters takes cells as row,column, such as 1,2, or the word all, not "
                    f"{text!r:.60}."
                )
        cells = (text.split(",") for text in self.counters)
        return tuple(sorted({(int(row), int(col)) for row, col in cells}))

    def check_room(self, model: JointModel, memory: int, disk: int = 0) -> None:
        """**Raises:** `UsageError` when so many bytes of memory or disk space are not allowed."""
        needs = {"memory": (memory, self.memory_gib), "disk": (disk, self.disk_gib)}
        for name, (needed, allowed) in needs.items():
            if needed / _GIB > allowed:
                raise UsageError(
                    f"The search has {model.num_states:,} joint states and needs "
                    f"{needed / _GIB:.1f} GiB of {name}, more than --{name}-gib {allowed:g}: raise "
                    "this limit, or use fewer counters."
                )
