"""Sweep files: the settings that a sweep varies, and how it samples their values."""

import dataclasses
import importlib
import itertools
import json
import math
import reprlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, final

from ..base import Table, UsageError, as_usage_error
from ..settings import LARGEST_SEED, Experiment, check, fill, read_toml

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_MOST_POINTS = 10_000
_MOST_CHECKED = 1_000
"""The maximum number of points at the ends of ranges that are checked before a sweep starts."""
_LIMITS = (("num_points", 1, _MOST_POINTS), ("seeds", 1, 1024), ("at_once", 1, 1024))
_LIMITS += (("seed", 0, LARGEST_SEED),)
"""The lowest and the highest value of fields of `Sweep`."""
_RANGE = {"low", "high", "log", "step"}
_OF_ALL_POINTS = ("config", "curriculum", "devices", "log", "out", "resume", "stage", "sweep")
"""The settings that are the same for all points."""


@final
@dataclasses.dataclass(frozen=True)
class Sweep:
    """The content of a sweep file."""

    sampler: Literal["grid", "random", "tpe"] = "grid"
    """The sampler: all combinations of values, random points, or Optuna's TPE."""
    num_points: int | None = None
    """The number of points, for all samplers except `grid`."""
    seeds: int = 1
    """The number of seeds for each point; the first is --seed."""
    seed: int = 0
    """The seed of the sampler."""
    at_once: int = 32
    """The maximum number of points that are sampled and trained together."""
    metric: Literal["eval_return_mean", "best_return_mean", "eval_fraction_of_optimum"] = (
        "eval_return_mean"
    )
    """The entry of `result.json` that is maximised."""
    pruner: Literal["none", "median", "hyperband"] = "none"
    """The pruner. Points that are trained together end when it would prune each of them."""
    storage: str | None = None
    """The address of a database; by default, a journal in the folder of the sweep."""
    space: Table = dataclasses.field(default_factory=dict)
    """For each setting, a list of values or a range: `low`, `high`, `log` and `step`."""

    def size(self) -> int:
        """The number of points of the sweep."""
        if self.num_points is not None:
            return self.num_points
        return math.prod(len(values) for values in self.space.values())

    def grid(self) -> Iterator[Table]:
        """All combinations of the values of a grid, by the names of the settings."""
        for values in itertools.product(*self.space.values()):
            yield dict(zip(self.space, values, strict=True))

    def settings(self, params: Mapping[str, object]) -> Table:
        """The settings of a trial, from its parameters, in which each choice is a `category`."""
        found = dict(params)
        for key, values in self.space.items():
            if isinstance(values, list):
                found[key] = next(x for x in values if category(x) == params[key])
        return found


def category(value: object) -> Any:
    """The value of a setting as a choice of a study: lists and tables become JSON, because choices
    of Optuna cannot be lists.
    """
    return json.dumps(value) if isinstance(value, list | dict) else value


def read_sweep(path: Path) -> Sweep:
    """Reads a sweep file (TOML).

    **Arguments:**

    - `path`: the file.

    **Returns:** the sweep, whose `space` has the full name of each setting as key.

    **Raises:** `UsageError` when the file is missing or malformed, or varies no setting.
    """
    with as_usage_error(f"The sweep file {str(path)!r} ", UsageError):
        file = fill(Sweep(), read_toml(path), "")
        sweep = dataclasses.replace(file, space=_flat(file.space))
        _check(sweep)
        return sweep


def _flat(table: Table, prefix: str = "") -> Table:
    """Flattens nested tables: `gamma` in the table `[space.ppo]` gets the key `"ppo.gamma"`."""
    entries = {}
    for key, value in table.items():
        if isinstance(value, dict) and not value.keys() & _RANGE:
            entries |= _flat(value, f"{prefix}{key}.")
        else:
            entries[prefix + key] = value
    return entries


def _check(sweep: Sweep) -> None:
    """**Raises:** `UsageError` with a predicate, to which the name of the file is prepended."""
    for name, lowest, highest in _LIMITS:
        value = getattr(sweep, name)
        if value is not None and not lowest <= value <= highest:
            raise UsageError(
                f"has {value} for {name!r}: give a whole number from {lowest} to {highest}."
            )
    if sweep.storage == "":
        raise UsageError("has no address in 'storage': leave it out for a journal in the folder.")
    if not sweep.space:
        raise UsageError("has no points: add a table 'space' with a list of values for a setting.")
    for one, other in itertools.permutations(sweep.space, 2):
        if f"{other}.".startswith(f"{one}."):
            raise UsageError(f"has {one!r} and {other!r}: leave one of them out.")
    for key, values in sweep.space.items():
        if isinstance(values, dict):
            _check_range(key, values)
        elif not isinstance(values, list) or not values:
            raise UsageError(
                f"needs a list of values, or a range such as {{low = 1, high = 8}}, for {key!r}."
            )
        elif twice := [x for i, x in enumerate(values) if x in values[:i]]:
            raise UsageError(
                f"has {reprlib.repr(twice[0])} twice for {key!r}: list each value once."
            )
    ranges = [key for key, values in sweep.space.items() if isinstance(values, dict)]
    if sweep.sampler == "grid" and ranges:
        raise UsageError(f"needs a list of values for {ranges[0]!r}, since its sampler is a grid.")
    if sweep.sampler == "grid" and sweep.num_points is not None:
        raise UsageError("has 'num_points', which is for the samplers random and tpe.")
    if sweep.sampler != "grid" and sweep.num_points is None:
        raise UsageError(f"needs 'num_points', a whole number, for sampler = {sweep.sampler!r}.")
    if sweep.size() > _MOST_POINTS:
        raise UsageError(f"has {sweep.size():,} points, but may have at most {_MOST_POINTS:,}.")


def _check_range(key: str, values: Table) -> None:
    """**Raises:** as `_check`."""
    if unknown := values.keys() - _RANGE:
        raise UsageError(
            f"has an unknown key {sorted(unknown)[0]!r} for {key!r}; known: low, high, log, step."
        )
    low, high = (values.get(name, math.nan) for name in ("low", "high"))
    if not all(type(x) in (int, float) and abs(x) < 2**62 for x in (low, high)):
        raise UsageError(f"needs two numbers for {key!r}, low and high.")
    if type(values.get("log", False)) is not bool:
        raise UsageError(f"needs true or false as the log of {key!r}.")
    if type(values.get("step", 1)) not in (int, float):
        raise UsageError(f"needs a number as the step of {key!r}.")
    if not low < high:
        raise UsageError(f"needs a low that is less than high for {key!r}.")
    try:
        _distribution(values)
    except ValueError as error:  # of optuna
        raise UsageError(f"cannot draw {key!r}: {error}") from error


def distributions(sweep: Sweep) -> dict[str, "BaseDistribution"]:
    """The distribution of each setting, for `optuna.study.Study.ask`."""
    return {key: _distribution(values) for key, values in sweep.space.items()}


def _distribution(values: Any) -> "BaseDistribution":
    kinds = optuna("distributions")
    if isinstance(values, list):
        return kinds.CategoricalDistribution([category(value) for value in values])
    is_whole = all(type(values[name]) is int for name in ("low", "high"))
    return (kinds.IntDistribution if is_whole else kinds.FloatDistribution)(**values)


def optuna(module: str) -> ModuleType:
    """Imports a module of Optuna, which only sweeps need.

    **Raises:** `UsageError` when Optuna is not installed.
    """
    try:
        return importlib.import_module(f"optuna.{module}")
    except ImportError as error:
        raise UsageError("--sweep needs Optuna: pip install 'eqgrid[search]'.") from error


def settings_of(config: Experiment, point: Mapping[str, object]) -> Experiment:
    """All settings of the runs of a point.

    **Arguments:**

    - `config`: the settings that all points share.
    - `point`: the settings of this point, by full name, such as `"ppo.gamma"`.

    **Raises:** `UsageError` when the settings are invalid or not supported in a sweep.
    """
    table: Table = {}
    for key, value in point.items():
        *prefixes, name = key.split(".")
        inner = table
        for prefix in prefixes:
            inner = inner.setdefault(prefix, {})
        inner[name] = value
    with as_usage_error("The sweep ", UsageError):
        config = fill(config, table, "")
        for name in ("seed", "num_seeds"):
            if name in table:
                raise UsageError(f"has {name!r}: give the number of seeds as 'seeds' instead.")
        for name in (x for x in _OF_ALL_POINTS if x in table):
            flag = name.replace("_", "-")
            raise UsageError(f"has {name!r}, which is the same for all points: give --{flag}.")
    check(config)
    return config


def checked_points(config: Experiment, sweep: Sweep) -> list[Experiment]:
    """Checks all points of a grid, or the points at the ends of ranges, and returns their settings.

    **Arguments:**

    - `config`: the settings that all points share.
    - `sweep`: the sweep.

    **Raises:** `UsageError` as in `settings_of`.
    """
    ends = {
        key: [values["low"], values["high"]] if isinstance(values, dict) else values
        for key, values in sweep.space.items()
    }
    corners = dataclasses.replace(sweep, space=ends).grid()
    most = _MOST_POINTS if sweep.sampler == "grid" else _MOST_CHECKED
    return [settings_of(config, point) for point in itertools.islice(corners, most)]
