"""Pictures by MuJoCo's own renderer, from a process of its own.

OpenGL needs a driver that many machines lack, and a driver that fails may end the process that
asked it. What draws a film at the end of a long run must not end the run.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8

from ._library import MjModel, mujoco

_WORKER = Path(__file__).parent / "_opengl_worker.py"
_TIMEOUT = 120.0  # seconds


def draw_with_opengl(
    model: MjModel,
    qpos: Float[np.ndarray, "frames positions"],
    mocap_pos: Float[np.ndarray, "frames mocap 3"],
    *,
    pixels: tuple[int, int],
    lookat: Sequence[Sequence[float]],
    distance: float,
) -> list[UInt8[np.ndarray, "rows columns 3"]] | None:
    """Draws states with MuJoCo's renderer. The variable `MUJOCO_GL` says which OpenGL is used; on
    Linux it is `egl`, which needs no screen, unless it is set.

    **Arguments:**

    - `model`, `qpos`, `mocap_pos`: the model, and its states.
    - `pixels`: columns and rows of a picture.
    - `lookat`: the point in the middle of each picture.
    - `distance`: of the camera, in metres.

    **Returns:** the pictures, or `None` where OpenGL cannot be used.
    """
    env = dict(os.environ)
    if sys.platform == "linux":
        env.setdefault("MUJOCO_GL", "egl")
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "asked.npz", Path(folder) / "answered.npy"
        mujoco.mj_saveModel(model, str(Path(folder) / "model.mjb"))
        np.savez(
            asked, qpos=qpos, mocap_pos=mocap_pos, pixels=pixels, lookat=lookat, distance=distance
        )
        try:
            subprocess.run(
                [sys.executable, "-W", "ignore", str(_WORKER), folder],
                env=env,
                capture_output=True,
                timeout=_TIMEOUT,
            )
            return list(np.load(answered))
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return None
