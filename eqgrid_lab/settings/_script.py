"""Scripts: Python files such as `experiments/ippo.py`, each of which defines one `Experiment`."""

import functools
import hashlib
import importlib.util
import inspect
import os
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from agents.files import shipped
from eqgrid import read_regular_text

from ..base import UsageError, as_usage_error, folder_first
from ._flags import program
from ._policy_settings import PolicySettings

SHIPPED = ("ippo", "mappo", "e3t", "body", "bc")
"""The bundled scripts, by the names of their algorithms."""


@functools.cache
def shipped_script(algorithm: str) -> type[PolicySettings]:
    """Loads a bundled script.

    **Arguments:**

    - `algorithm`: one of `SHIPPED`.

    **Returns:** its subclass of `Experiment`.
    """
    return _experiment_in(shipped(f"{algorithm}.py"))


def load_script(path: Path) -> type[PolicySettings]:
    """Loads a custom script.

    This executes its code, so the path must come from the user, never from a file.

    **Arguments:**

    - `path`: the Python file.

    **Returns:** its subclass of `Experiment`.

    **Raises:** `UsageError` when it is not a Python file, or does not define exactly one subclass.
    """
    if path.suffix != ".py" or not path.is_file():
        raise UsageError(f"--script {str(path)!r} is not a Python file.")
    with folder_first(str(path.parent.resolve())):  # imports resolve as if the file were run
        return _experiment_in(path)


def _experiment_in(path: Path) -> type[PolicySettings]:
    """Runs a file as a module with a name of its own, and returns the only subclass in it."""
    name = f"eqgrid_script_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses resolve annotations through `sys.modules`
    spec.loader.exec_module(module)
    found = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, PolicySettings) and kind.__module__ == name
    ]
    if len(found) != 1:
        raise UsageError(
            f"The script {str(path)!r} must define exactly one subclass of Experiment, but defines "
            f"{len(found)}."
        )
    return found[0]


def file_of(experiment: type[PolicySettings]) -> Path | None:
    """The path of the script that defines an experiment; `None` for a class from a notebook."""
    try:
        path = Path(inspect.getfile(experiment))
    except (OSError, TypeError):
        return None
    return path if path.is_file() else None


def name_of(experiment: type[PolicySettings]) -> str:
    """The file name of the script that defines an experiment; in a notebook, the class name."""
    path = file_of(experiment)
    return experiment.__name__ if path is None else path.name


@functools.cache
def is_shipped(experiment: type[PolicySettings]) -> bool:
    """Whether the script of an experiment is a bundled script or an exact copy.

    If it is, eqgrid can build the parts of the run again without the user's file.
    """
    path, bundled = file_of(experiment), shipped(f"{experiment.algorithm}.py")
    if path is None or experiment.algorithm not in SHIPPED:
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
