"""Ranges of settings."""

import dataclasses
import reprlib
from collections.abc import Iterator
from typing import Any

from agents.runs.display._errors import UsageError

LARGEST_SEED = 2**32 - 1
"""What a jax key holds."""
_SMALLEST_FLOAT, _LARGEST_FLOAT = 1.2e-38, 3.4028234e38  # of 32 bits

_LIMITS = {
    "--seed": (0, LARGEST_SEED),
    "--num-seeds": (1, 1024),
    "--candidates": (1, 1024),
    "--candidate-steps": (1, 10**15),
    "--sweep.index": (0, 10**6),
    "--total-steps": (1, 10**15),
    "--num-envs": (1, 2**24),
    "--width": (1, 2**16),
    "--shaping-steps": (0, 10**15),
    "--eval-every": (1, 10**15),
    "--eval-episodes": (1, 2**20),
    "--devices": (1, 2**20),
    "--patience": (1, 10**9),
    "--checkpoint-every": (1, 10**15),
    "--final-episodes": (1, 2**20),
    "--episodes": (1, 2**14),
    "--best-response-steps": (1, 10**9),
    "--count": (1, 10_000),
    "--cell-pixels": (4, 128),
    "--env.horizon": (1, 100_000),
    "--env.generated.pool": (0, 2**20),
    "--env.generated.height": (3, 127),
    "--env.generated.width": (3, 127),
    "--env.generated.smallest-height": (3, 127),
    "--env.generated.smallest-width": (3, 127),
    "--env.generated.num-agents": (1, 35),
    "--env.generated.onions": (1, 100),
    "--env.generated.tomatoes": (0, 100),
    "--env.generated.dishes": (1, 100),
    "--env.generated.pots": (1, 100),
    "--env.generated.servings": (1, 100),
    "--env.generated.green": (1, 100),
    "--env.generated.yellow": (0, 100),
    "--env.generated.red": (0, 100),
    "--env.generated.rubble": (0, 1000),
    "--env.generated.high-rubble": (0, 1000),
    "--env.generated.doors": (0, 3),
    "--env.num-agents": (1, 35),
    "--env.num-food": (1, 1000),
    "--env.radius": (1, 127),
    "--env.sight": (0, 127),
    "--env.size": (1, 125),
    "--env.view-radius": (0, 127),
    "--ppo.rollout-length": (1, 2**20),
    "--ppo.num-epochs": (1, 2**20),
    "--ppo.num-minibatches": (1, 2**24),
    "--ppo.chunk-length": (0, 2**20),
}
"""The lowest and the highest value of every whole number."""

_ANY_WHOLE = (-(2**31), 2**31 - 1)
"""Those of a setting of somebody's own world, which checks it itself."""


def check_limits(config: Any, prefix: str = "--") -> None:
    """Refuses numbers that are out of range.

    **Raises:** `UsageError` with one sentence that names the flag.
    """
    for flag, value in flags(config, prefix):
        low, high = _LIMITS.get(flag, _ANY_WHOLE)
        if type(value) is int and not low <= value <= high:
            raise UsageError(
                f"{flag} must be at least {low} and at most {high}, but is {reprlib.repr(value)}."
            )
        if type(value) is float and not abs(value) <= _LARGEST_FLOAT:
            raise UsageError(f"{flag} must be a finite number, but is {value:g}.")
        if type(value) is float and 0 < abs(value) < _SMALLEST_FLOAT:
            raise UsageError(f"{flag} is too small for a number of 32 bits: {value:g}.")


def flags(config: Any, prefix: str = "--") -> Iterator[tuple[str, Any]]:
    """Every setting, by the name of its flag."""
    for field in dataclasses.fields(config):
        name, value = field.name.replace("_", "-"), getattr(config, field.name)
        name = {"sweep-index": "sweep.index"}.get(name, name)
        if dataclasses.is_dataclass(value):
            yield from flags(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
