"""The file of a sweep: which settings are tried, and the points that follow from it."""

import dataclasses
import itertools
import math
import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

import numpy as np

from agents.runs.display._errors import UsageError
from agents.runs.settings._config import check
from agents.runs.settings._experiment import Experiment
from agents.runs.settings._file import fill, read_toml

METRICS = ("eval_return_mean", "best_return_mean", "eval_fraction_of_optimum")
"""What points may be ranked by, as `result.json` calls it."""

_MOST_POINTS = 10_000
_METHODS = ("grid", "random")
_KEYS = ("method", "metric", "num_points", "seed", "at_once", "grid", "random")


@final
@dataclasses.dataclass(frozen=True)
class Sweep:
    """What a file asks for.

    **Arguments:**

    - `points`: the settings of every point, by the names of their flags.
    - `metric`: what they are ranked by.
    - `at_once`: how many of them are trained together at most.
    """

    points: tuple[dict[str, Any], ...]
    metric: str
    at_once: int

    @property
    def keys(self) -> tuple[str, ...]:
        """The settings that are tried."""
        return tuple(self.points[0])


def read_sweep(path: Path) -> Sweep:
    """Reads the file of a sweep (TOML).

    **Arguments:**

    - `path`: the file. Its table `grid` has a list of values for each setting, and all
        combinations are tried. With `method = "random"`, its table `random` has a distribution for
        each setting, `num_points` says how many points are drawn, and `seed` how.

    **Raises:** `UsageError` with one sentence when it is missing, malformed or asks for nothing.
    """
    try:
        return _sweep(read_toml(path))
    except UsageError as error:
        raise UsageError(f"The sweep file {str(path)!r} {error}") from error


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


def _sweep(table: dict[str, Any]) -> Sweep:
    """**Raises:** `UsageError` with half a sentence."""
    for key in table:
        if key not in _KEYS:
            raise UsageError(f"has an unknown key {reprlib.repr(key)}; known: {', '.join(_KEYS)}.")
    method = _one_of(_METHODS, table, "method", "random" if "random" in table else "grid")
    metric = _one_of(METRICS, table, "metric", METRICS[0])
    grid, random = _table(table, "grid"), _table(table, "random")
    if method == "grid" and random:
        raise UsageError("has a table 'random', which is for method = \"random\".")
    if method == "random" and not random:
        raise UsageError("has method = \"random\", and so needs a table 'random' with settings.")
    if not grid and not random:
        raise UsageError("tries nothing: add a table 'grid' with a list of values for a setting.")
    _check_keys([*grid, *random])
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise UsageError(f"needs a list of values for {key!r} in 'grid'.")
    drawn: list[dict[str, Any]] = [{}]
    number = math.prod(len(values) for values in grid.values())
    if method == "random":
        count = _count(table, "num_points", None)
        number *= count
        _check_number(number)
        drawn = _draw(random, count, _count(table, "seed", 0, 0))
    _check_number(number)
    combinations = [dict(zip(grid, x, strict=True)) for x in itertools.product(*grid.values())]
    points = tuple(one | other for one in drawn for other in combinations)
    return Sweep(points, metric, _count(table, "at_once", 32))


def _check_keys(keys: list[str]) -> None:
    """Refuses a setting that is there twice, or in another one."""
    for one, other in itertools.permutations(keys, 2):
        if f"{other}.".startswith(f"{one}."):
            raise UsageError(f"has {one!r} and {other!r}: leave one of them out.")


def _check_number(number: int) -> None:
    if number > _MOST_POINTS:
        raise UsageError(f"has {number:,} points, and {_MOST_POINTS:,} are the most.")


def _one_of(known: tuple[str, ...], table: dict[str, Any], key: str, default: str) -> str:
    value = table.get(key, default)
    if value not in known:
        raise UsageError(
            f"has {reprlib.repr(value)} for {key!r}, which must be one of "
            f"{', '.join(map(repr, known))}."
        )
    return value


def _table(table: dict[str, Any], key: str) -> dict[str, Any]:
    """A table of settings; `[grid.ppo]` with `gamma` says the same as `"ppo.gamma"` in `[grid]`."""
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise UsageError(f"has {reprlib.repr(value)} for {key!r}, which must be a table.")
    return dict(_flat(value, ""))


def _flat(table: dict[str, Any], prefix: str) -> list[tuple[str, Any]]:
    """The entries of nested tables, but for those that are distributions."""
    entries = []
    for key, value in table.items():
        if isinstance(value, dict) and not set(value) & set(_DISTRIBUTIONS):
            entries += _flat(value, f"{prefix}{key}.")
        else:
            entries.append((prefix + key, value))
    return entries


def _count(table: dict[str, Any], key: str, default: int | None, lowest: int = 1) -> int:
    value = table.get(key, default)
    if value is None:
        raise UsageError(f'needs {key!r}, a whole number, for method = "random".')
    if type(value) is not int or not lowest <= value < 2**63:
        raise UsageError(
            f"has {reprlib.repr(value)} for {key!r}, which must be a whole number of at least "
            f"{lowest}."
        )
    return value


def _draw(random: dict[str, Any], count: int, seed: int) -> list[dict[str, Any]]:
    """Draws points. Equal files draw equal points."""
    generator = np.random.default_rng(seed)
    draws = {key: _distribution(key, table) for key, table in random.items()}
    return [{key: draw(generator) for key, draw in draws.items()} for _ in range(count)]


def _distribution(key: str, table: Any) -> Callable[[np.random.Generator], Any]:
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
    return lambda generator: _DISTRIBUTIONS[name](generator, *values)


def _check_ends(key: str, name: str, values: list[Any]) -> None:
    """Refuses what is no lowest and highest number."""
    kinds = (int,) if name == "int_uniform" else (int, float)
    if len(values) != 2 or not all(type(x) in kinds and abs(x) < 2**62 for x in values):
        what = "whole numbers" if name == "int_uniform" else "numbers"
        raise UsageError(
            f"needs two {what} after {name!r} for {key!r}, the lowest and the highest."
        )
    if not values[0] <= values[1] or (name == "log_uniform" and values[0] <= 0):
        above = ", both above 0" if name == "log_uniform" else ""
        raise UsageError(f"needs the lower number first after {name!r} for {key!r}{above}.")


def _choice(generator: np.random.Generator, *values: Any) -> Any:
    return values[int(generator.integers(len(values)))]


def _uniform(generator: np.random.Generator, low: float, high: float) -> float:
    return _six_digits(generator.uniform(low, high))


def _log_uniform(generator: np.random.Generator, low: float, high: float) -> float:
    return _six_digits(math.exp(generator.uniform(math.log(low), math.log(high))))


def _int_uniform(generator: np.random.Generator, low: int, high: int) -> int:
    return int(generator.integers(low, high, endpoint=True))


def _six_digits(number: float) -> float:
    """A number that a person can read in a table and type again."""
    return float(f"{number:.6g}")


_DISTRIBUTIONS: dict[str, Callable[..., Any]] = {
    "uniform": _uniform,
    "log_uniform": _log_uniform,
    "int_uniform": _int_uniform,
    "choice": _choice,
}
