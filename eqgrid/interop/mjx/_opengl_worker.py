"""Renders states with OpenGL in a separate process, which `draw_with_opengl` of `_pictures` starts:
`python _opengl_worker.py FOLDER`. It does not import eqgrid, so that it starts without jax.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

mujoco: Any = importlib.import_module("mujoco")


def main(folder: Path) -> None:
    """Reads `model.mjb` and `input.npz` in `folder`, and writes the pictures to `pictures.npy`."""
    model = mujoco.MjModel.from_binary_path(str(folder / "model.mjb"))
    inputs = np.load(folder / "input.npz")
    columns, rows = inputs["pixels"].tolist()
    # The framebuffer must be at least as large as a picture.
    model.vis.global_.offwidth = max(columns, model.vis.global_.offwidth)
    model.vis.global_.offheight = max(rows, model.vis.global_.offheight)
    data, camera, pictures = mujoco.MjData(model), mujoco.MjvCamera(), []
    camera.azimuth, camera.elevation, camera.distance = 90.0, -5.0, float(inputs["distance"])
    frames = zip(inputs["qpos"], inputs["mocap_pos"], inputs["lookat"], strict=True)
    with mujoco.Renderer(model, rows, columns) as renderer:
        for qpos, mocap_pos, lookat in frames:
            data.qpos[:], data.mocap_pos[:], camera.lookat[:] = qpos, mocap_pos, lookat
            mujoco.mj_forward(model, data)
            renderer.update_scene(data, camera)
            pictures.append(renderer.render())
    np.save(folder / "pictures.npy", np.stack(pictures))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
