"""The scripts of `experiments/`, and others, as modules."""

import functools
from pathlib import Path
from typing import Any

from agents.files import shipped
from eqgrid_lab.base import import_file
from eqgrid_lab.settings import PolicySettings


def load_script(path: Path) -> Any:
    """The class of settings that a script defines."""
    module = import_file(path)
    [found] = [
        x
        for x in vars(module).values()
        if isinstance(x, type) and issubclass(x, PolicySettings) and x.__module__ == module.__name__
    ]
    return found


@functools.cache
def shipped_script(algorithm: str) -> Any:
    """The class of settings of a script in `experiments/`."""
    return load_script(shipped(f"{algorithm}.py"))
