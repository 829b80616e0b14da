"""Stages: a run in one world after another, each until a gate is passed or its steps are spent."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, final

from beartype.door import is_bearable

from agents import PARTS, Part, StopTraining, TrainProgress
from agents.runs.display._errors import UsageError, as_usage_error
from agents.runs.settings._config import check
from agents.runs.settings._experiment import Experiment
from agents.runs.settings._file import fill, read_toml
from eqgrid.grid import did_you_mean

from ._evaluator import Evaluator


@final
@dataclasses.dataclass(frozen=True)
class Gate:
    """What has to be reached before the next stage begins.

    **Arguments:**

    - `metric`: what is measured in whole evaluated episodes; a column of `metrics.csv` whose name
        begins with `eval_` or `event_`.
    - `at_least`, `at_most`: its bound; one of them is given.
    - `evaluations`: how many evaluations in a row have to keep to it.
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
        """**Raises:** `UsageError` when nothing of that name is measured."""
        if self.metric not in known:
            raise UsageError(
                f"its gate asks for {self.metric!r}{did_you_mean(self.metric, known)} Measured are "
                f"{', '.join(known)}."
            )

    def holds(self, measured: Mapping[str, float | int]) -> bool:
        """Whether one evaluation keeps to the bound; what is not a number does not."""
        low = -math.inf if self.at_least is None else self.at_least
        high = math.inf if self.at_most is None else self.at_most
        return low <= measured[self.metric] <= high


@final
@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of a run, with settings of its own.

    **Arguments:**

    - `name`: for people.
    - `config`: the settings of the run, with those of the stage in their place.
    - `gate`: what ends it.
    - `steps`: environment steps after which it ends in any case.
    - `keep`: which parts of the state are kept from the stage before.
    """

    name: str
    config: Experiment
    gate: Gate | None = None
    steps: int | None = None
    keep: tuple[Part, ...] = PARTS

    @property
    def end(self) -> str:
        """When it ends, in words."""
        ends = [] if self.gate is None else [f"until {self.gate}"]
        if self.steps is not None:
            ends.append(f"{'at most' if ends else 'for'} {self.steps:,} steps")
        return ", ".join(ends) or "to the end of the run"

    def ended(self, measured: Mapping[str, float | int]) -> str | None:
        """Why it is over, in words, or `None` when it goes on.

        **Arguments:**

        - `measured`: the row of the last evaluation; without `gate_passes` and `stage_steps` before
            the first one of the stage.
        """
        if self.gate is not None and measured.get("gate_passes", 0) >= self.gate.evaluations:
            return "its gate is passed"
        if self.steps is not None and measured.get("stage_steps", 0) >= self.steps:
            unless = ", without passing its gate" if self.gate is not None else ""
            return f"its {self.steps:,} steps are spent{unless}"
        return None


@final
class StageEvaluator:
    """Evaluations in a run with a curriculum: the rows also have the stage and its steps."""

    def __init__(
        self, evaluator: Evaluator, stage: Stage, number: int, begin: int, gate_passes: int = 0
    ):
        """**Arguments:**

        - `evaluator`: plays the episodes.
        - `stage`, `number`: the stage, and which one it is, from 1.
        - `begin`: how many environment steps there were before it.
        - `gate_passes`: how many evaluations in a row have kept to the bound of its gate so far.
        """
        self.evaluator, self.stage, self.number = evaluator, stage, number
        self.begin, self.gate_passes = begin, gate_passes

    def __call__(self, progress: TrainProgress) -> dict[str, float]:
        row = self.evaluator(progress)
        if self.stage.gate is not None:
            self.gate_passes = self.gate_passes + 1 if self.stage.gate.holds(row) else 0
        row["stage"] = self.number
        row["stage_steps"] = progress.env_steps - self.begin
        row["gate_passes"] = self.gate_passes
        return row


@final
class EndOfStage:
    """A hook that ends a stage."""

    def __init__(self, stage: Stage):
        self.stage = stage

    def __call__(self, progress: TrainProgress) -> None:
        if (reason := self.stage.ended(progress.measured)) is not None:
            raise StopTraining(reason)


@dataclasses.dataclass(frozen=True)
class _Table:
    """A `[[stage]]` of a file."""

    name: str = ""
    env: dict[str, Any] = dataclasses.field(default_factory=dict)
    ppo: dict[str, Any] = dataclasses.field(default_factory=dict)
    shaping: float | None = None
    shaping_steps: int | None = None
    gate: Gate = dataclasses.field(default_factory=Gate)
    steps: int | None = None
    reset: tuple[Part, ...] = ()


_FIXED = {"env": ("name", "normalize_observation"), "ppo": ("rollout_length", "normalize_values")}
"""What all stages of a run share."""


def with_curriculum(config: Experiment) -> Experiment:
    """The settings with the stages of the file that `--curriculum` names.

    **Raises:** `UsageError` when it cannot be read, or has no stages.
    """
    if config.curriculum is None:
        return config
    with as_usage_error(f"The curriculum {str(config.curriculum)!r} ", UsageError):
        file = read_toml(config.curriculum)
        tables = file.pop("stage", None)
        if not tables or not is_bearable(tables, list[dict[str, Any]]):
            raise UsageError("has no stages: write a table [[stage]] for each.")
        if file:
            raise UsageError(
                f"has {next(iter(file))!r} beside its stages: a curriculum has tables [[stage]] "
                "only. A file with other settings is given to --config, and may have stages, too."
            )
    return dataclasses.replace(config, stage=tuple(tables))


def stages(config: Experiment) -> tuple[Stage, ...]:
    """The stages of a run; a single one where it has no curriculum.

    **Raises:** `UsageError` when a stage has an unknown setting, one that cannot change, or no end.
    """
    plain = dataclasses.replace(config, stage=())
    if not config.stage:
        return (Stage("", plain),)
    found = []
    for number, table in enumerate(config.stage, start=1):
        with as_usage_error(f"Stage {number} of the curriculum: ", UsageError):
            found.append(_stage(plain, table, number, last=number == len(config.stage)))
    return tuple(found)


def _stage(config: Experiment, entries: dict[str, Any], number: int, *, last: bool) -> Stage:
    table: _Table = fill(_Table(), entries, "")
    for name, fixed in _FIXED.items():
        for key in fixed:
            if key in getattr(table, name):
                raise UsageError(f"{name}.{key} is the same in all stages; leave it out.")
    names = ("env", "ppo", *config.in_one_program)
    config = fill(config, {name: entries[name] for name in names if name in entries}, "")
    check(config)
    gate = _gate(table) if "gate" in entries else None
    if table.steps is not None and table.steps < 1:
        raise UsageError(f"steps must be at least 1, but is {table.steps}.")
    if not last and gate is None and table.steps is None:
        raise UsageError("it has no end: give it a gate, or steps.")
    # A schedule of its own begins with the stage.
    own = {"shaping"} if {*config.in_one_program} & entries.keys() else set()
    keep: tuple[Part, ...] = tuple(part for part in PARTS if part not in {*table.reset, *own})
    return Stage(table.name or str(number), config, gate, table.steps, keep)


def _gate(table: _Table) -> Gate:
    gate = table.gate
    if (gate.at_least is None) == (gate.at_most is None):
        raise UsageError("its gate needs one bound: at_least or at_most.")
    bound = gate.at_least if gate.at_most is None else gate.at_most
    if bound is None or not math.isfinite(bound):
        raise UsageError(f"its gate needs a finite bound, but has {bound}.")
    if gate.evaluations < 1:
        raise UsageError(f"its gate needs at least 1 evaluation, but has {gate.evaluations}.")
    return gate


def summary(
    stages: Sequence[Stage], rows: Sequence[Mapping[str, float | int]]
) -> list[dict[str, Any]]:
    """The result of each stage that was begun, for `result.json`; nothing without a curriculum.

    **Arguments:**

    - `stages`: those of the run.
    - `rows`: the results of its evaluations.
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
