"""Curricula: the stages of a run. A stage ends at a gate or after a number of steps."""

import dataclasses
import math
import typing
from collections.abc import Mapping, Sequence
from typing import Any, final

from beartype.door import is_bearable

from agents import PARTS, Part
from eqgrid.errors import did_you_mean

from ..base import Table, UsageError, as_usage_error
from ..settings import Experiment, check, fill, read_toml


@final
@dataclasses.dataclass(frozen=True)
class Gate:
    """Ends a stage when a metric of an evaluation meets a bound.

    **Arguments:**

    - `metric`: a metric of whole evaluated episodes: a column of `metrics.csv` whose name begins
        with `eval_` or `event_`.
    - `at_least`, `at_most`: the bound; exactly one of them is given.
    - `evaluations`: the number of consecutive evaluations that must meet the bound.
    """

    metric: str = ""
    at_least: float | None = None
    at_most: float | None = None
    evaluations: int = 1

    def __str__(self) -> str:
        bounds = (("at least", self.at_least), ("at most", self.at_most))
        bound = " and ".join(f"{words} {x:g}" for words, x in bounds if x is not None)
        times = f" in {self.evaluations} evaluations in a row" if self.evaluations > 1 else ""
        return f"{self.metric} is {bound}{times}"

    def check(self, known: Sequence[str]) -> None:
        """**Raises:** `UsageError` when the metric is not one of the `known` ones."""
        if self.metric not in known:
            raise UsageError(
                "its gate uses the unknown metric "
                f"{self.metric!r}{did_you_mean(self.metric, known)} Available metrics: "
                f"{', '.join(known)}."
            )

    def holds(self, measured: Mapping[str, float | int]) -> bool:
        """Whether the row of an evaluation meets the bound; NaN does not."""
        low = -math.inf if self.at_least is None else self.at_least
        high = math.inf if self.at_most is None else self.at_most
        return low <= measured[self.metric] <= high


@final
@dataclasses.dataclass(frozen=True)
class Stage:
    """One stage of a run.

    **Arguments:**

    - `name`: its name, in messages and in `result.json`.
    - `config`: the settings of the run, changed by the settings of the stage.
    - `gate`: the condition that ends it, if any.
    - `steps`: the maximum number of its environment steps; `None` for no maximum.
    - `keep`: the parts of the training state that are kept from the previous stage.
    """

    name: str
    config: Experiment
    gate: Gate | None = None
    steps: int | None = None
    keep: tuple[Part, ...] = PARTS

    @property
    def end(self) -> str:
        """A description of the end of the stage, for messages."""
        ends = [] if self.gate is None else [f"until {self.gate}"]
        if self.steps is not None:
            ends.append(f"{'at most' if ends else 'for'} {self.steps:,} steps")
        return ", ".join(ends) or "to the end of the run"

    def ended(self, measured: Mapping[str, float | int]) -> str | None:
        """The reason why the stage has ended; `None` while it continues.

        **Arguments:**

        - `measured`: the row of the last evaluation. Before the first evaluation of the stage, the
            row has no `gate_passes` and no `stage_steps`.
        """
        if self.gate is not None and measured.get("gate_passes", 0) >= self.gate.evaluations:
            return "its gate is passed"
        if self.steps is not None and measured.get("stage_steps", 0) >= self.steps:
            unless = ", without passing its gate" if self.gate is not None else ""
            return f"its {self.steps:,} steps have been used{unless}"
        return None


@final
class StageCount:
    """Counts the steps of a stage, and the consecutive evaluations that have met its gate."""

    def __init__(self, stage: Stage, number: int, begin: int, gate_passes: int = 0):
        """**Arguments:**

        - `stage`, `number`: the stage, and its number from 1.
        - `begin`: the number of environment steps before the stage.
        - `gate_passes`: the number of consecutive evaluations that have met its gate so far.
        """
        self.stage, self.number = stage, number
        self.begin, self.gate_passes = begin, gate_passes

    def __call__(self, row: Mapping[str, float]) -> dict[str, float]:
        """Returns the stage and its progress, to add to the row of an evaluation.

        A gate that was passed once stays passed: a seed may have to wait for the other seeds in its
        program.

        **Arguments:**

        - `row`: the row of the evaluation.
        """
        gate = self.stage.gate
        if gate is not None and self.gate_passes < gate.evaluations:
            self.gate_passes = self.gate_passes + 1 if gate.holds(row) else 0
        return {
            "stage": self.number,
            "stage_steps": row["env_steps"] - self.begin,
            "gate_passes": self.gate_passes,
        }


@dataclasses.dataclass(frozen=True)
class _Table:
    """The entries of a table `[[stage]]` in a file, except the settings of the script that are in
    `Experiment.stage_settings`.
    """

    name: str = ""
    env: Table = dataclasses.field(default_factory=dict)
    ppo: Table = dataclasses.field(default_factory=dict)
    gate: Gate = dataclasses.field(default_factory=Gate)
    steps: int | None = None
    reset: tuple[Part, ...] = ()


_FIXED = {"env": ("name", "normalize_observation"), "ppo": ("rollout_length", "normalize_values")}
"""The settings that are the same in all stages of a run."""


def with_curriculum(config: Experiment) -> Experiment:
    """Adds the stages in the file of `--curriculum` to the settings.

    **Raises:** `UsageError` when the file cannot be read or has no stages.
    """
    if config.curriculum is None:
        return config
    with as_usage_error(f"The curriculum {str(config.curriculum)!r} ", UsageError):
        file = read_toml(config.curriculum)
        tables = file.pop("stage", None)
        if not tables or not is_bearable(tables, list[Table]):
            raise UsageError("has no stages: add a table [[stage]] for each stage.")
        if file:
            raise UsageError(
                f"has {next(iter(file))!r} in addition to its stages: a curriculum has only "
                "tables [[stage]]. Pass a file with other settings to --config, where it may "
                "also have stages."
            )
    return dataclasses.replace(config, stage=tuple(tables))


def stages(config: Experiment) -> tuple[Stage, ...]:
    """The stages of a run; a single stage if it has no curriculum.

    **Raises:** `UsageError` when a stage has an unknown or fixed setting, or no end.
    """
    plain = dataclasses.replace(config, stage=())
    if not config.stage:
        return (Stage("", plain),)
    found = []
    for number, table in enumerate(config.stage, start=1):
        with as_usage_error(f"Stage {number} of the curriculum: ", UsageError):
            found.append(_stage(plain, table, number, last=number == len(config.stage)))
    return tuple(found)


def _stage(config: Experiment, entries: Table, number: int, *, last: bool) -> Stage:
    """The stage of a table `[[stage]]`.

    **Arguments:**

    - `config`: the settings of the run.
    - `entries`: the table.
    - `number`: the number of the stage from 1, which is its name by default.
    - `last`: whether it is the last stage, which needs no end.
    """
    hints = typing.get_type_hints(type(config))
    of_script = [(name, hints[name] | None, None) for name in config.stage_settings]
    kind = dataclasses.make_dataclass("_Table", of_script, bases=(_Table,), frozen=True)
    table: Any = fill(kind(), entries, "")
    for name, fixed in _FIXED.items():
        for key in fixed:
            if key in getattr(table, name):
                raise UsageError(f"{name}.{key} is the same in all stages; leave it out.")
    names = ("env", "ppo", *config.stage_settings)
    config = fill(config, {name: entries[name] for name in names if name in entries}, "")
    check(config)
    gate = table.gate if "gate" in entries else None
    if gate is not None:
        if (gate.at_least is None) == (gate.at_most is None):
            raise UsageError("its gate needs one bound: at_least or at_most.")
        bound = gate.at_least if gate.at_most is None else gate.at_most
        if not math.isfinite(bound):
            raise UsageError(f"its gate needs a finite bound, but has {bound}.")
        if gate.evaluations < 1:
            raise UsageError(f"its gate needs at least 1 evaluation, but has {gate.evaluations}.")
    if table.steps is not None and table.steps < 1:
        raise UsageError(f"steps must be at least 1, but is {table.steps}.")
    if not last and gate is None and table.steps is None:
        raise UsageError("it has no end: add a gate or steps.")
    # If the stage sets the shaped reward, the schedule of the shaped reward restarts.
    reset = {*table.reset, *(["shaping"] if {"shaping", "shaping_steps"} & entries.keys() else [])}
    keep: tuple[Part, ...] = tuple(part for part in PARTS if part not in reset)
    return Stage(table.name or str(number), config, gate, table.steps, keep)


def summary(stages: Sequence[Stage], rows: Sequence[Mapping[str, float | int]]) -> list[Table]:
    """The results of the stages that have begun, for `result.json`. The list is empty without a
    curriculum.

    **Arguments:**

    - `stages`: the stages of the run.
    - `rows`: the rows of its evaluations.
    """
    last = {int(row["stage"]) - 1: row for row in rows if "stage" in row}
    return [
        {
            "name": stages[i].name,
            "env_steps": int(row["env_steps"]),
            "stage_steps": int(row["stage_steps"]),
            "eval_return_mean": row["eval_return_mean"],
            "ended": stages[i].ended(row) or "with the run",
        }
        for i, row in last.items()
    ]
