"""The points of a sweep, and which of them one program trains together."""

import dataclasses
import json
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from agents import PPO, Hyperparameter
from agents.runs.display._errors import UsageError
from agents.runs.folders._results import MAX_RESULT_BYTES
from agents.runs.settings._config import check
from agents.runs.settings._experiment import Experiment
from agents.runs.settings._file import dump, fill
from agents.runs.single._identity import digests
from eqgrid import read_regular_text

from ._sweep_file import Sweep


@final
@dataclasses.dataclass(frozen=True)
class Point:
    """One combination of settings.

    **Arguments:**

    - `index`: which one, counted from 0.
    - `settings`: what it has of its own.
    - `config`: all its settings.
    - `folder`: where its run is.
    - `files`: the checksums of the files that its settings name, as `digests` gives them.
    """

    index: int
    settings: dict[str, Any]
    config: Experiment
    folder: Path
    files: dict[str, str]

    def result(self) -> dict[str, Any] | None:
        """The result of its run, or `None` where that is not complete."""
        try:
            result = json.loads(read_regular_text(self.folder / "result.json", MAX_RESULT_BYTES))
        except (OSError, ValueError):
            return None
        # The curve is the last file that is written.
        complete = "not_finite" in result or (self.folder / "curve.png").exists()
        return result if complete else None


def settings_of(config: Experiment, point: Mapping[str, Any]) -> Experiment:
    """The settings of one point.

    **Arguments:**

    - `config`: those that all points share.
    - `point`: those that are its own.

    **Raises:** `UsageError` with one sentence when they cannot be used.
    """
    table: dict[str, Any] = {}
    for key, value in point.items():
        *prefixes, name = key.split(".")
        inner = table
        for prefix in prefixes:
            inner = inner.setdefault(prefix, {})
        inner[name] = value
    try:
        config = dataclasses.replace(config, sweep=None, sweep_index=None, out=None)
        config = fill(config, table, "")
    except UsageError as error:
        raise UsageError(f"The sweep {error}") from error
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
    - `folder`: its folder.

    **Raises:** as `settings_of`, and `OSError` when a file that the settings name cannot be read.
    """
    points = []
    for i, own in enumerate(sweep.points):
        whole = settings_of(config, own)
        points.append(Point(i, own, whole, folder / f"point-{i:04}", digests(whole)))
    return points


def groups_of(points: Sequence[Point], at_once: int) -> list[list[Point]]:
    """The points that one compiled program can train together, at most `at_once` of them."""
    alike: dict[str, list[Point]] = {}
    for point in points:
        alike.setdefault(dump(_without_leaves(point.config)), []).append(point)
    return [
        group[i : i + at_once] for group in alike.values() for i in range(0, len(group), at_once)
    ]


def _without_leaves(config: Experiment) -> Experiment:
    """The settings, with equal ones in place of those that are arrays in a compiled program."""
    hints = typing.get_type_hints(PPO)
    leaves = {name: getattr(PPO(), name) for name, hint in hints.items() if hint == Hyperparameter}
    ppo = dataclasses.replace(config.ppo, **leaves)
    own = {name: getattr(type(config), name) for name in config.in_one_program}
    return dataclasses.replace(config, seed=0, ppo=ppo, **own)
