"""Pictures by MuJoCo's own renderer, in a separate process.

OpenGL needs a driver that many machines lack, and a failing driver may end its process. That must
not end a training run that draws a film.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float, UInt8

from ._library import MjModel, mujoco

Renderer: TypeAlias = Literal["auto", "opengl", "side"]
"""How to draw: with OpenGL, as a flat side view with Pillow, or with OpenGL where it works."""

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
    """Draws states with MuJoCo's renderer. The environment variable `MUJOCO_GL` selects the kind of
    OpenGL; if it is not set, Linux uses `egl`, which needs no display.

    **Arguments:**

    - `model`, `qpos`, `mocap_pos`: the model and its states.
    - `pixels`: the width and height of a picture.
    - `lookat`: the point at the centre of each picture, in metres.
    - `distance`: the distance of the camera in metres.

    **Returns:** one picture per state, RGB, or `None` if OpenGL cannot be used.
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
