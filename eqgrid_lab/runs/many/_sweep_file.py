"""Sweep files: the settings to vary, and the points that result from them."""

import dataclasses
import itertools
import math
import reprlib
from pathlib import Path
from typing import Any, Literal, final

import numpy as np

from ...base import UsageError, as_usage_error
from ...settings import fill, read_toml

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
