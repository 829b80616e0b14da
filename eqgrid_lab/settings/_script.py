"""Scripts: Python files such as `experiments/ippo.py`, each of which defines one `Experiment`."""

import functools
import inspect
import os
from contextlib import AbstractContextManager
from pathlib import Path

from agents.files import shipped
from eqgrid import read_regular_text

from ..base import as_usage_error
from ._flags import program
from ._policy_settings import PolicySettings


def file_of(experiment: type[PolicySettings]) -> Path | None:
    """The path of the script that defines an experiment; `None` for a class from a notebook."""
    try:
        path = Path(inspect.getfile(experiment))
    except (OSError, TypeError):
        return None
    return path if path.is_file() else None


@functools.cache
def is_shipped(experiment: type[PolicySettings]) -> bool:
    """Whether the script of an experiment is a bundled script or an exact copy."""
    path, bundled = file_of(experiment), shipped(f"{experiment.algorithm}.py")
    if path is None or not bundled.is_file():
        return False
    return path.samefile(bundled) or (
        read_regular_text(str(path)) == read_regular_text(str(bundled))
    )


def script_errors(experiment: type[PolicySettings]) -> AbstractContextManager[None]:
    """The `as_usage_error` for functions of a script: errors in the functions of a custom script
    keep their traceback.

    **Arguments:**

    - `experiment`: the class that the script defines.
    """
    name = experiment.__module__
    if is_shipped(experiment):
        return as_usage_error(scripts=(name,))
    return as_usage_error(own_script=name)


def command_of(experiment: type[PolicySettings]) -> str:
    """The command that runs the script of an experiment, such as `eqgrid ippo`."""
    path = file_of(experiment)
    if path is None:
        return experiment.__name__
    if path.parent.name == "shipped" and is_shipped(experiment):
        return f"eqgrid {experiment.algorithm}"
    return program(min(os.path.relpath(path), str(path), key=len))
