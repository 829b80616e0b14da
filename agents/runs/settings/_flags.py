"""The command line of a page: its flags, read and checked."""

from collections.abc import Sequence
from typing import TypeVar

from ._config import cli
from ._limits import check_limits

T = TypeVar("T")


def read_flags(default: T, args: Sequence[str], page: str) -> T:
    """Reads the flags of a page whose settings are a dataclass.

    **Arguments:**

    - `default`: the settings that no flag changes; the docstring of their class describes the page.
    - `args`: what was typed.
    - `page`: the path of the page, such as `experiments/report.py`.

    **Raises:** `UsageError` with one sentence for what is unknown, malformed or out of range.
    """
    config = cli(default, args, f"python {page}", type(default).__doc__ or "")
    check_limits(config)
    return config
