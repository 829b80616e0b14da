"""Returns as text."""

import math
from collections.abc import Iterable


def return_text(value: float, among: Iterable[float] = ()) -> str:
    """A return with about four digits, since the returns of worlds have different scales: three
    decimal places below 1, two below 10 and one above. Zero has no sign.

    **Arguments:**

    - `value`: the return, or a difference or a deviation of returns.
    - `among`: the returns next to it, such as those of the same table, all with the same number of
        decimal places.
    """
    largest = max(map(abs, filter(math.isfinite, (value, *among))), default=0.0)
    places = 1 if largest >= 10 else 2 if largest >= 1 else 3
    return f"{round(value, places) + 0.0:.{places}f}"  # the sum of -0.0 and 0.0 is 0.0


def return_texts(values: Iterable[float]) -> list[str]:
    """Several returns with the same number of decimal places, as in `return_text`."""
    values = list(values)
    return [return_text(value, values) for value in values]


def with_deviation(mean: float, deviation: float, *, bold: bool = False) -> str:
    """A mean return with its standard deviation, such as `0.964 ± 0.012`.

    **Arguments:**

    - `mean`, `deviation`: the numbers.
    - `bold`: whether to mark the mean as bold, for a console.
    """
    first, second = return_texts((mean, deviation))
    return f"[bold]{first}[/] ± {second}" if bold else f"{first} ± {second}"


def with_interval(mean: float, low: float, high: float) -> tuple[str, str]:
    """A mean return, and its 95 % interval, such as `0.964` and `0.951 to 0.977`."""
    first, *ends = return_texts((mean, low, high))
    return first, " to ".join(ends)


def caption(score: float) -> str:
    """The return so far, as on a picture: with at most two decimal places."""
    return f"{round(score, 2) + 0.0:g}"  # the sum of -0.0 and 0.0 is 0.0
