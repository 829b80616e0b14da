"""The points of a sweep, and how they are grouped into compiled programs."""

import dataclasses
import json
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from agents import PPO, Hyperparameter
from eqgrid import read_regular_text

from ...base import UsageError, as_usage_error
from ...folders import MAX_RESULT_BYTES
from ...settings import Experiment, check, dump, fill, without_unused
from ..single import digests
from ._sweep_file import Sweep


@final
@dataclasses.dataclass(frozen=True)
class Point:
    """One point of a sweep: a combination of settings.

    **Arguments:**

    - `index`: its index in the sweep, from 0.
    - `settings`: the settings that the sweep sets for this point.
    - `config`: all settings of its run.
    - `folder`: the folder of its run.
    - `files`: the checksums of the files that its settings name, as `digests` returns them.
    """

    index: int
    settings: dict[str, Any]
    config: Experiment
    folder: Path
    files: dict[str, str]

    def result(self) -> dict[str, Any] | None:
        """The content of its `result.json`, or `None` while the run is not complete."""
        try:
            result = json.loads(read_regular_text(self.folder / "result.json", MAX_RESULT_BYTES))
        except (OSError, ValueError):
            return None
        # The plot of the learning curve is written last.
        complete = "not_finite" in result or (self.folder / "curve.png").exists()
        return result if complete else None


def settings_of(config: Experiment, point: Mapping[str, Any]) -> Experiment:
    """All settings of one point's run.

    **Arguments:**

    - `config`: the settings that all points share.
    - `point`: the settings of this point, by the names of their flags.

    **Raises:** `UsageError` when the settings are invalid or not supported in a sweep.
    """
    table: dict[str, Any] = {}
    for key, value in point.items():
        *prefixes, name = key.split(".")
        inner = table
        for prefix in prefixes:
            inner = inner.setdefault(prefix, {})
        inner[name] = value
    with as_usage_error("The sweep ", UsageError):
        named = config.partners.networks
        config = dataclasses.replace(config, sweep=None, sweep_index=None, out=None)
        config = without_unused(fill(config, table, ""))
        if config.partners.networks != named:
            raise UsageError("has 'partners.networks', which only a command line may name.")
    if config.num_seeds != 1:
        raise UsageError("The sweep has 'num_seeds': give it a list of seeds as 'seed' instead.")
    if config.candidates != 1:
        raise UsageError("The sweep has 'candidates', but its runs have none: leave it out.")
    check(config)
    return config


def points_of(config: Experiment, sweep: Sweep, folder: Path) -> list[Point]:
    """All points of a sweep.

    **Arguments:**

    - `config`: the settings that all points share.
    - `sweep`: the sweep.
    - `folder`: the folder of the sweep.

    **Raises:** `UsageError` as in `settings_of`, and `OSError` when a file that the settings name
    cannot be read.
    """
    points = []
    for i, own in enumerate(sweep.points):
        whole = settings_of(config, own)
        points.append(Point(i, own, whole, folder / f"point-{i:04}", digests(whole)))
    return points


def groups_of(points: Sequence[Point], at_once: int) -> list[list[Point]]:
    """Groups points so that one compiled program can train each group.

    **Arguments:**

    - `points`: the points.
    - `at_once`: the maximum number of points in a group.
    """
    alike: dict[str, list[Point]] = {}
    for point in points:
        alike.setdefault(dump(_without_leaves(point.config)), []).append(point)
    return [
        group[i : i + at_once] for group in alike.values() for i in range(0, len(group), at_once)
    ]


def _without_leaves(config: Experiment) -> Experiment:
    """The settings, with defaults for those that are array leaves of a compiled program.

    Points for which this is equal can be trained together.
    """
    hints = typing.get_type_hints(PPO)
    leaves = {name: getattr(PPO(), name) for name, hint in hints.items() if hint == Hyperparameter}
    ppo = dataclasses.replace(config.ppo, **leaves)
    own = {name: getattr(type(config), name) for name in config.in_one_program}
    return dataclasses.replace(config, seed=0, ppo=ppo, **own)
