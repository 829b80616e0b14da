"""MuJoCo and MJX, imported with an error that explains how to install them."""

import contextlib
import importlib
import io
from typing import Any, TypeAlias

from ...errors import missing_library

try:
    # MJX prints which of its optional parts are missing, none of which is needed here.
    with contextlib.redirect_stdout(io.StringIO()):
        from mujoco import mjx as mjx
        from mujoco.mjx import Model as Model
except ImportError as error:
    raise missing_library(f"MuJoCo bodies need MuJoCo MJX ({error})", "mjx") from error

mujoco: Any = importlib.import_module("mujoco")
"""The C simulator. It creates its names when it is imported, so type checkers cannot see them."""

MjModel: TypeAlias = Any
"""A model of the C simulator, `mujoco.MjModel`."""

MjData: TypeAlias = Any
"""The data of the C simulator, `mujoco.MjData`."""
