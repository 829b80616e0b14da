"""Statistics of returns, and their formats in text.

Intervals and aggregate metrics are as in rliable (Agarwal et al. 2021).
"""

import importlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

S = TypeVar("S", bound=float)
_RESAMPLES = 2000
_CONFIDENCE = 0.95
_FEWEST_RUNS = 5
_ROUNDING = 1e-4
"""Relative differences of sums that rounding can cause, in long episodes of 32-bit rewards."""


def align_curves(
    curves: Sequence[Mapping[S, float]],
) -> tuple[list[S], Float[np.ndarray, "steps runs"]]:
    """Aligns the learning curves of several runs.

    **Arguments:**

    - `curves`: for every run, its returns by the number of training steps.

    **Returns:** the numbers of steps that all curves have in common, in order, and the returns of
    all runs at these steps.
    """
    steps = sorted(set.intersection(*map(set, curves)))
    scores = np.asarray([[own[step] for own in curves] for step in steps], float)
    return steps, scores.reshape(len(steps), len(curves))


def interquartile_mean(scores: ArrayLike, axis: int = -1) -> Float[np.ndarray, "..."]:
    """The mean of the middle half of the runs: a quarter of the runs, rounded down, is left out at
    each end.

    **Arguments:**

    - `scores`: a number for every run.
    - `axis`: the axis of the runs.

    **Returns:** the mean, without this axis.
    """
    return np.asarray(_scipy_stats().trim_mean(np.asarray(scores), 0.25, axis=axis))


def bootstrap_interval(
    scores: Float[np.ndarray, "*rows runs"],
    statistic: Callable[..., Float[np.ndarray, "..."]] = interquartile_mean,
) -> tuple[Float[np.ndarray, "*rows"], Float[np.ndarray, "*rows"]]:
    """The 95 % bootstrap interval of a statistic. For one task, this is the stratified bootstrap.

    The ends of the interval are the 2.5 % and 97.5 % percentiles of the statistic in 2,000 samples
    of the runs with replacement. The seed of the samples is fixed, so equal scores have equal
    intervals. For a single run, both ends are its score.

    **Arguments:**

    - `scores`: a number for every run.
    - `statistic`: a function of the scores and the keyword `axis`, such as `np.mean`.

    **Returns:** the lower and the upper end.
    """
    if scores.shape[-1] == 1:
        return scores[..., 0], scores[..., 0]
    found = _scipy_stats().bootstrap(
        (scores,),
        statistic,
        n_resamples=_RESAMPLES,
        batch=100,
        axis=-1,
        confidence_level=_CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    low, high = found.confidence_interval
    return np.asarray(low), np.asarray(high)


def bootstrap_crossplay(
    matrix: Float[np.ndarray, "runs runs"],
) -> dict[str, tuple[float, float] | None]:
    """The 95 % bootstrap intervals of the mean of self-play, the mean of cross-play, and their
    difference.

    The runs are sampled 2,000 times with replacement from a fixed seed. Each sample has the same
    runs in rows and columns, since two entries that share a run are not independent. The entry of a
    run with itself never counts as cross-play, even if the run is sampled twice.

    **Arguments:**

    - `matrix`: the return of every run with every run, of which there are at least two.

    **Returns:** the 2.5 % and 97.5 % percentiles of `self_play`, `cross_play` and `gap`; `None` for
    fewer than five runs, for which bootstrap intervals are too narrow.
    """
    number = len(matrix)
    if number < _FEWEST_RUNS:
        return dict.fromkeys(("self_play", "cross_play", "gap"))
    rows = np.random.default_rng(0).integers(number, size=(_RESAMPLES, number))
    rows = rows[(rows != rows[:, :1]).any(axis=1)]  # a sample of a single run has no cross-play
    own = np.diag(matrix)
    # How often each sample has each run; the entries of samples would need their size squared.
    counts = np.stack([np.bincount(row, minlength=number) for row in rows]).astype(float)
    self_play = counts @ own / number
    pairs = number**2 - (counts**2).sum(axis=1)
    cross_play = ((counts @ (matrix - np.diag(own))) * counts).sum(axis=1) / pairs
    means = {"self_play": self_play, "cross_play": cross_play, "gap": self_play - cross_play}
    ends = [50 * (1 - _CONFIDENCE), 50 * (1 + _CONFIDENCE)]
    return {name: tuple(np.percentile(x, ends).tolist()) for name, x in means.items()}


def interval_of_mean(
    scores: Float[np.ndarray, "*rows episodes"],
) -> tuple[Float[np.ndarray, "*rows"], Float[np.ndarray, "*rows"]]:
    """The 95 % confidence interval of the mean of independent episodes, by Student's t.

    **Arguments:**

    - `scores`: a number for every episode, of which there are at least two.

    **Returns:** the lower and the upper end.
    """
    count = scores.shape[-1]
    error = scores.std(axis=-1, ddof=1) / np.sqrt(count)
    width = error * _scipy_stats().t.ppf((1 + _CONFIDENCE) / 2, count - 1)
    mean = scores.mean(axis=-1)
    return np.asarray(mean - width), np.asarray(mean + width)


def mean_with_interval(scores: Float[np.ndarray, " episodes"]) -> dict[str, float]:
    """The `mean` of independent episodes, and the ends `low` and `high` of its `interval_of_mean`,
    for result files.
    """
    low, high = interval_of_mean(scores)
    return {"mean": float(scores.mean()), "low": float(low), "high": float(high)}


def _scipy_stats() -> ModuleType:
    """The module `scipy.stats`, imported on first use, since the import takes a second."""
    return importlib.import_module("scipy.stats")


def mean_returns(
    returns: Float[np.ndarray, "episodes agents"], name: str = "eval_return", *, each: bool = False
) -> dict[str, float]:
    """The mean return of episodes as columns of the log: `eval_return_mean` and `eval_return_std`
    of the mean over the agents, and `eval_return_agent_0`, ... if the agents' returns differ.

    **Arguments:**

    - `returns`: the return of each agent in each episode.
    - `name`: the beginning of the names.
    - `each`: whether to add the columns of each agent even if their returns are equal.
    """
    team = returns.mean(axis=-1)
    columns = {f"{name}_mean": float(team.mean()), f"{name}_std": float(team.std())}
    if each or (np.ptp(returns, axis=-1) > 0).any():
        means = returns.mean(axis=0)
        columns |= {f"{name}_agent_{i}": float(mean) for i, mean in enumerate(means)}
    return columns


def returns_of_agents(row: Mapping[str, Any], name: str = "eval_return") -> list[float]:
    """The returns of the agents in a row from `mean_returns`; empty if they are equal."""
    return [value for key, value in row.items() if key.startswith(f"{name}_agent_")]


def agents_text(row: Mapping[str, Any], name: str = "eval_return") -> str:
    """The returns of the agents in a row as text, such as ` (agents: 1.25, -1.25)`; empty if they
    are equal.
    """
    own = returns_of_agents(row, name)
    return f" (agents: {', '.join(return_texts(own))})" if own else ""


def agent_columns(evaluations: Iterable[Mapping[str, Any]]) -> list[str]:
    """The columns with the returns of single agents in several evaluations. In a row without them,
    the return of each agent is `eval_return_mean`.
    """
    rows = max(evaluations, key=lambda row: len(returns_of_agents(row)), default={})
    return [key for key in rows if key.startswith("eval_return_agent_")]


def is_constant_sum(evaluations: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the agents' returns differ, but have the same sum in each evaluated episode, as in a
    zero-sum game. Then no evaluation has a better mean than another.

    **Arguments:**

    - `evaluations`: the rows of all evaluations. In a curriculum, those of the last stage count.
    """
    if not (evaluations and returns_of_agents(evaluations[-1])):
        return False
    stage = evaluations[-1].get("stage")
    rows = [row for row in evaluations if row.get("stage") == stage]
    largest = max(abs(x) for row in rows for x in returns_of_agents(row))
    differences = [float(np.ptp([row["eval_return_mean"] for row in rows]))]
    differences += [row["eval_return_std"] for row in rows]
    return largest > 0 and max(differences) <= _ROUNDING * largest


def return_text(value: float, among: Iterable[float] = ()) -> str:
    """A return as text, for worlds whose returns have different scales: with three decimal places
    below 1, two below 10, and one otherwise. Zero has no sign.

    **Arguments:**

    - `value`: the return, or a difference or a deviation of returns.
    - `among`: the returns next to it, such as the rest of the table. The largest of them and
        `value` sets the number of decimal places.
    """
    largest = max(map(abs, filter(math.isfinite, (value, *among))), default=0.0)
    places = 1 if largest >= 10 else 2 if largest >= 1 else 3
    return f"{round(value, places) + 0.0:.{places}f}"  # the sum of -0.0 and 0.0 is 0.0


def return_texts(values: Iterable[float]) -> list[str]:
    """Several returns with the same number of decimal places, as in `return_text`."""
    values = list(values)
    return [return_text(value, values) for value in values]


def with_deviation(mean: float, deviation: float) -> str:
    """A mean return with its standard deviation, such as `0.964 ± 0.012`."""
    return " ± ".join(return_texts((mean, deviation)))


def with_interval(mean: float, low: float, high: float) -> tuple[str, str]:
    """A mean return and its 95 % interval as two texts, such as `0.964` and `0.951 to 0.977`."""
    first, *ends = return_texts((mean, low, high))
    return first, " to ".join(ends)


def caption(score: float) -> str:
    """The caption of a picture with the return so far, such as `score 120`; with at most two
    decimal places.
    """
    return f"score {round(score, 2) + 0.0:g}"  # the sum of -0.0 and 0.0 is 0.0
