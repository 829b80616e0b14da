"""MuJoCo and MJX, or one sentence that says how to install them."""

import contextlib
import importlib
import io
from typing import Any, TypeAlias

try:
    # MJX prints which of its optional parts are missing. None of them is needed here.
    with contextlib.redirect_stdout(io.StringIO()):
        from mujoco import mjx as mjx
        from mujoco.mjx import Model as Model
except ImportError as error:
    raise ImportError(
        f"MuJoCo bodies need MuJoCo MJX ({error}): pip install -e '.[mjx]'"
    ) from error

mujoco: Any = importlib.import_module("mujoco")
"""The C simulator. Its names are made when it is imported, so no type checker knows them."""

MjModel: TypeAlias = Any
"""A model of the C simulator, `mujoco.MjModel`."""

MjData: TypeAlias = Any
"""What the C simulator works out, `mujoco.MjData`."""
