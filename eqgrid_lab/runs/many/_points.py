"""Sweep files, the points of a sweep, and how they are grouped into compiled programs."""

import dataclasses
import itertools
import json
import math
import reprlib
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, final

import numpy as np

from agents import PPO, Hyperparameter
from eqgrid import read_regular_text

from ...base import UsageError, as_usage_error
from ...folders import MAX_RESULT_BYTES
from ...settings import Experiment, check, dump, fill, read_toml, without_unused
from ..single import digests

_MOST_POINTS = 10_000
_MOST_TRIALS = 100
"""The number of samples for each random point before `_draw` gives up."""
_DISTRIBUTIONS = ("uniform", "log_uniform", "int_uniform", "choice")


@final
@dataclasses.dataclass(frozen=True)
class Sweep:
    """The points of a sweep.

    **Arguments:**

    - `points`: the settings that vary, for every point, by the names of their flags.
    - `metric`: the entry of `result.json` by which the points are ranked.
    - `at_once`: the maximum number of points that are trained together.
    """

    points: tuple[dict[str, Any], ...]
    metric: str
    at_once: int


@final
@dataclasses.dataclass(frozen=True)
class _File:
    """The entries of a sweep file, with their defaults."""

    method: Literal["grid", "random"] = "grid"
    metric: Literal["eval_return_mean", "best_return_mean", "eval_fraction_of_optimum"] = (
        "eval_return_mean"
    )
    num_points: int = 1
    seed: int = 0
    at_once: int = 32
    grid: dict[str, Any] = dataclasses.field(default_factory=dict)
    random: dict[str, Any] = dataclasses.field(default_factory=dict)


def read_sweep(path: Path) -> Sweep:
    """Reads a sweep file (TOML).

    The table `grid` has a list of values for each setting, and all combinations are points. The
    table `random` has a distribution for each setting, from which `num_points` points are sampled
    with the seed `seed`. If both tables are given, each sample is combined with the whole grid.

    **Arguments:**

    - `path`: the file.

    **Returns:** the sweep.

    **Raises:** `UsageError` when the file is missing or malformed, or varies no setting.
    """
    with as_usage_error(f"The sweep file {str(path)!r} ", UsageError):
        return _sweep(read_toml(path))


def _sweep(table: dict[str, Any]) -> Sweep:
    """The sweep in the table of a file.

    **Raises:** `UsageError` with a predicate, to which the name of the file is prepended.
    """
    file = fill(_File(method="random" if "random" in table else "grid"), table, "")
    grid, random = _flat(file.grid), _flat(file.random)
    _check(file, grid, random)
    if random and "num_points" not in table:
        raise UsageError("needs 'num_points', a whole number, for method = \"random\".")
    number = math.prod(len(values) for values in grid.values())
    number *= file.num_points if random else 1
    if number > _MOST_POINTS:
        raise UsageError(f"has {number:,} points, but may have at most {_MOST_POINTS:,}.")
    drawn = _draw(random, file.num_points, file.seed) if random else [{}]
    combinations = [dict(zip(grid, x, strict=True)) for x in itertools.product(*grid.values())]
    points = tuple(one | other for one in drawn for other in combinations)
    return Sweep(points, file.metric, file.at_once)


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The settings in nested tables by full name: `gamma` in `[grid.ppo]` is `"ppo.gamma"`."""
    entries = {}
    for key, value in table.items():
        if isinstance(value, dict) and not set(value) & set(_DISTRIBUTIONS):
            entries |= _flat(value, f"{prefix}{key}.")
        else:
            entries[prefix + key] = value
    return entries


def _check(file: _File, grid: dict[str, Any], random: dict[str, Any]) -> None:
    """**Raises:** `UsageError` when entries are out of range or contradict one another."""
    for name, lowest in (("num_points", 1), ("seed", 0), ("at_once", 1)):
        value = getattr(file, name)
        if not lowest <= value < 2**63:
            raise UsageError(
                f"has {reprlib.repr(value)} for {name!r}, which must be a whole number of at least "
                f"{lowest}."
            )
    if file.method == "grid" and random:
        raise UsageError("has a table 'random', which is for method = \"random\".")
    if file.method == "random" and not random:
        raise UsageError("has method = \"random\", and so needs a table 'random' with settings.")
    if not grid and not random:
        raise UsageError("tries nothing: add a table 'grid' with a list of values for a setting.")
    for one, other in itertools.permutations([*grid, *random], 2):
        if f"{other}.".startswith(f"{one}."):
            raise UsageError(f"has {one!r} and {other!r}: leave one of them out.")
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise UsageError(f"needs a list of values for {key!r} in 'grid'.")
        for i, value in enumerate(values):
            if value in values[:i]:
                raise UsageError(
                    f"has {reprlib.repr(value)} twice for {key!r} in 'grid': name each value once."
                )


def _draw(random: dict[str, Any], count: int, seed: int) -> list[dict[str, Any]]:
    """Samples different points; the same file always gives the same points.

    **Raises:** `UsageError` when there are too few different points.
    """
    generator = np.random.default_rng(seed)
    distributions = {key: _distribution(key, table) for key, table in random.items()}
    points: dict[str, dict[str, Any]] = {}
    for _ in range(_MOST_TRIALS * count):
        point = {
            key: _value(generator, name, values) for key, (name, values) in distributions.items()
        }
        points.setdefault(repr([_plain(value) for value in point.values()]), point)
        if len(points) == count:
            return list(points.values())
    raise UsageError(
        f"samples {len(points)} different points, but has {count} for 'num_points': lower it, or "
        "give wider distributions."
    )


def _plain(value: Any) -> Any:
    """The same value for equal numbers, such as 1 and 1.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _distribution(key: str, table: Any) -> tuple[str, list[Any]]:
    """The name of the distribution of a setting, and its parameters.

    **Raises:** `UsageError` when the distribution is unknown, or its parameters are invalid.
    """
    if not isinstance(table, dict) or len(table) != 1 or next(iter(table)) not in _DISTRIBUTIONS:
        raise UsageError(
            f"needs one of {', '.join(_DISTRIBUTIONS)} for {key!r} in 'random', such as "
            "{uniform = [0.1, 0.2]}."
        )
    name, values = next(iter(table.items()))
    if not isinstance(values, list) or not values:
        raise UsageError(f"needs a list after {name!r} for {key!r}.")
    if name != "choice":
        _check_ends(key, name, values)
    return name, values


def _check_ends(key: str, name: str, values: list[Any]) -> None:
    """**Raises:** `UsageError` when the parameters are not a lower and an upper bound."""
    kinds = (int,) if name == "int_uniform" else (int, float)
    if len(values) != 2 or not all(type(x) in kinds and abs(x) < 2**62 for x in values):
        what = "whole numbers" if name == "int_uniform" else "numbers"
        raise UsageError(
            f"needs two {what} after {name!r} for {key!r}, the lowest and the highest."
        )
    if not values[0] <= values[1] or (name == "log_uniform" and values[0] <= 0):
        above = ", both above 0" if name == "log_uniform" else ""
        raise UsageError(f"needs the lower number first after {name!r} for {key!r}{above}.")


def _value(generator: np.random.Generator, name: str, values: list[Any]) -> Any:
    """Samples a value; real numbers are rounded to six digits, so that they are easy to copy."""
    if name == "choice":
        return values[int(generator.integers(len(values)))]
    low, high = values
    if name == "int_uniform":
        return int(generator.integers(low, high, endpoint=True))
    if name == "log_uniform":
        number = math.exp(generator.uniform(math.log(low), math.log(high)))
    else:
        number = generator.uniform(low, high)
    return float(f"{number:.6g}")


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
