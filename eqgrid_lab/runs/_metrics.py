"""The metrics of a block of updates as columns of `metrics.csv`."""

from collections.abc import Mapping, Sequence

import numpy as np

from agents import Metrics

from ..base import Table


def block_means(metrics: Metrics) -> Table:
    """The metrics of a block: means over its updates, and means over the episodes that ended in it.

    The learning rate is that of the last update, and `episodes` is the number of episodes.
    """
    means = {name: float(np.mean(values)) for name, values in metrics.scalars.items()}
    if "learning_rate" in means:
        means["learning_rate"] = float(metrics.scalars["learning_rate"][-1])
    episodes = np.asarray(metrics.episodes)
    ended = episodes > 0
    for name in ("episode_return", "episode_length"):
        values = np.asarray(getattr(metrics, name))[ended]
        means[name] = float(np.average(values, weights=episodes[ended])) if ended.any() else np.nan
    return {**means, "episodes": int(episodes.sum())}


def episode_totals(metrics: Metrics, totals: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """The mean totals of the training episodes that ended in a block, summed over the agents."""
    means = {}
    episodes = np.asarray(metrics.episodes)
    weights = episodes / max(1, episodes.sum())
    for name, values in metrics.totals.items():
        if columns := totals.get(name, ()):
            mean = np.tensordot(weights, values, 1).reshape(-1, len(columns)).sum(axis=0)
            mean = mean if episodes.any() else np.full(len(columns), np.nan)
            means |= {f"episode_{x}": float(own) for x, own in zip(columns, mean, strict=True)}
    return means
