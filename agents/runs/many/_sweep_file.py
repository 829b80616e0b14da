"""The file of a sweep: which settings are tried, and the points that follow from it."""

import dataclasses
import itertools
import math
import reprlib
from pathlib import Path
from typing import Any, Literal, final

import numpy as np

from agents.runs.display._errors import UsageError
from agents.runs.settings._file import fill, read_toml

_MOST_POINTS = 10_000
_DISTRIBUTIONS = ("uniform", "log_uniform", "int_uniform", "choice")


@final
@dataclasses.dataclass(frozen=True)
class Sweep:
    """The points of a sweep.

    **Arguments:**

    - `points`: the settings of every point, by the names of their flags.
    - `metric`: the entry of `result.json` that they are ranked by.
    - `at_once`: how many of them are trained together at most.
    """

    points: tuple[dict[str, Any], ...]
    metric: str
    at_once: int


@final
@dataclasses.dataclass(frozen=True)
class _File:
    """The entries of a file."""

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
    """Reads the file of a sweep (TOML).

    **Arguments:**

    - `path`: the file. Its table `grid` has a list of values for each setting, and all
        combinations are tried. With `method = "random"`, its table `random` has a distribution for
        each setting, `num_points` is how many points are drawn, and `seed` the seed of the draws.

    **Raises:** `UsageError` with one sentence when it is missing or malformed, or has no settings.
    """
    try:
        return _sweep(read_toml(path))
    except UsageError as error:
        raise UsageError(f"The sweep file {str(path)!r} {error}") from error


def _sweep(table: dict[str, Any]) -> Sweep:
    """**Raises:** `UsageError` with half a sentence, to follow the name of the file."""
    file = fill(_File(method="random" if "random" in table else "grid"), table, "")
    grid, random = _flat(file.grid), _flat(file.random)
    _check(file, grid, random)
    if random and "num_points" not in table:
        raise UsageError("needs 'num_points', a whole number, for method = \"random\".")
    number = math.prod(len(values) for values in grid.values())
    number *= file.num_points if random else 1
    if number > _MOST_POINTS:
        raise UsageError(f"has {number:,} points, and {_MOST_POINTS:,} are the most.")
    drawn = _draw(random, file.num_points, file.seed) if random else [{}]
    combinations = [dict(zip(grid, x, strict=True)) for x in itertools.product(*grid.values())]
    points = tuple(one | other for one in drawn for other in combinations)
    return Sweep(points, file.metric, file.at_once)


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The settings in a table by their full names: `gamma` in `[grid.ppo]` is `"ppo.gamma"`."""
    entries = {}
    for key, value in table.items():
        if isinstance(value, dict) and not set(value) & set(_DISTRIBUTIONS):
            entries |= _flat(value, f"{prefix}{key}.")
        else:
            entries[prefix + key] = value
    return entries


def _check(file: _File, grid: dict[str, Any], random: dict[str, Any]) -> None:
    """**Raises:** `UsageError` when entries are out of range or do not go together."""
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


def _draw(random: dict[str, Any], count: int, seed: int) -> list[dict[str, Any]]:
    """Draws points. Equal files give equal points."""
    generator = np.random.default_rng(seed)
    distributions = {key: _distribution(key, table) for key, table in random.items()}
    return [
        {key: _value(generator, name, values) for key, (name, values) in distributions.items()}
        for _ in range(count)
    ]


def _distribution(key: str, table: Any) -> tuple[str, list[Any]]:
    """The name of the distribution of a setting, and its values.

    **Raises:** `UsageError` when there is no such distribution, or its values do not fit.
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
    """**Raises:** `UsageError` when values are not a lowest and a highest number."""
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
    """Draws a value; real numbers have six digits, which a person can read and type again."""
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
