"""What several runs come to together, as rliable (Agarwal et al. 2021) defines it."""

import importlib
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

_RESAMPLES = 2000
_CONFIDENCE = 0.95


def interquartile_mean(scores: ArrayLike, axis: int = -1) -> Float[np.ndarray, "..."]:
    """The mean of the middle half of the runs: a quarter of them, rounded down, is left out at
    either end.

    **Arguments:**

    - `scores`: a number for every run.
    - `axis`: that of the runs.
    """
    return np.asarray(_scipy_stats().trim_mean(np.asarray(scores), 0.25, axis=axis))


def bootstrap_interval(
    scores: Float[np.ndarray, "*rows runs"],
) -> tuple[Float[np.ndarray, "*rows"], Float[np.ndarray, "*rows"]]:
    """The interval of 95 % around the interquartile mean: the 2.5 % and 97.5 % percentiles of the
    means of 2,000 samples of the runs, drawn with replacement. For one task, this is the
    stratified bootstrap.

    Equal scores give equal intervals, as the samples are drawn from a fixed seed. There is no
    interval around a single run: both ends are then that run.

    **Arguments:**

    - `scores`: a number for every run.

    **Returns:** the lower and the upper end.
    """
    if scores.shape[-1] == 1:
        return scores[..., 0], scores[..., 0]
    low, high = (
        _scipy_stats()
        .bootstrap(
            (scores,),
            interquartile_mean,
            n_resamples=_RESAMPLES,
            batch=100,
            axis=-1,
            confidence_level=_CONFIDENCE,
            method="percentile",
            rng=np.random.default_rng(0),
        )
        .confidence_interval
    )
    return np.asarray(low), np.asarray(high)


def _scipy_stats() -> Any:
    """It takes a second to import: only who has several runs waits for it."""
    return importlib.import_module("scipy.stats")
