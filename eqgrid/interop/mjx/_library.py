"""MuJoCo and MJX, or one sentence that says how to install them."""

import contextlib
import io

try:
    # MJX prints which of its optional parts are missing. None of them is needed here.
    with contextlib.redirect_stdout(io.StringIO()):
        import mujoco as mujoco
        from mujoco import mjx as mjx
        from mujoco.mjx import Model as Model
except ImportError as error:
    raise ImportError(
        f"MuJoCo bodies need MuJoCo MJX, which cannot be imported ({error}): "
        "pip install -e '.[mjx]'"
    ) from error
