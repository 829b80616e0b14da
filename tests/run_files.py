"""The files of runs, and when two runs are the same."""

import csv
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

TIMES = {"wall_seconds", "train_seconds", "compile_seconds", "steps_per_second", "reached"}
TIMES |= {"memory_bytes"}
"""What differs between two runs that are otherwise the same."""


SMALL = (
    *("--env.name", "goals", "--env.horizon", "20", "--num-envs", "4", "--width", "8"),
    *("--ppo.rollout-length", "32", "--ppo.num-epochs", "1", "--ppo.num-minibatches", "2"),
    *("--eval-every", "256", "--eval-episodes", "4"),
    *("--total-steps", "640"),
)
"""The flags of a small run: five updates of 128 steps, two of them in a block."""


def table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def rows(folder: Path) -> list[dict[str, str]]:
    """The log of a run, without times."""
    return [
        {k: v for k, v in row.items() if k not in TIMES} for row in table(folder / "metrics.csv")
    ]


def _without_times(result):
    if isinstance(result, dict):
        return {k: _without_times(v) for k, v in result.items() if k not in TIMES}
    return [_without_times(x) for x in result] if isinstance(result, list) else result


def result(folder: Path) -> dict:
    """The results of a run, without times."""
    return _without_times(json.loads((folder / "result.json").read_text()))


def files(folder: Path) -> set[str]:
    """All files in a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def check_equal(folder: Path, whole: Path) -> None:
    """Two runs have the same files with the same logs, results and policies, to the bit."""
    assert files(folder) == files(whole)
    assert rows(folder) == rows(whole)
    assert result(folder) == result(whole)
    for name in files(whole):
        if name.endswith(".safetensors"):
            one, other = load_file(folder / name), load_file(whole / name)
            assert one.keys() == other.keys()
            for leaf in one:
                np.testing.assert_array_equal(one[leaf], other[leaf], err_msg=f"{name}{leaf}")


def check_close(found: list[dict[str, str]], expected: list[dict[str, str]]) -> None:
    """Two logs are the same but for rounding."""
    for row, other in zip(found, expected, strict=True):
        assert row.keys() == other.keys()
        for name in row:
            a, b = float(row[name]), float(other[name])
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5, err_msg=name)
