"""The process that draws for `_opengl.py`: `python _opengl_worker.py FOLDER`. It does not import
the package, so that it starts without jax.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

mujoco: Any = importlib.import_module("mujoco")


def main(folder: Path) -> None:
    """Reads `model.mjb` and `asked.npz` in `folder`, and writes the pictures to `answered.npy`."""
    model = mujoco.MjModel.from_binary_path(str(folder / "model.mjb"))
    asked = np.load(folder / "asked.npz")
    columns, rows = asked["pixels"].tolist()
    model.vis.global_.offwidth = max(columns, model.vis.global_.offwidth)
    model.vis.global_.offheight = max(rows, model.vis.global_.offheight)
    data, camera, pictures = mujoco.MjData(model), mujoco.MjvCamera(), []
    camera.azimuth, camera.elevation, camera.distance = 90.0, -5.0, float(asked["distance"])
    with mujoco.Renderer(model, rows, columns) as renderer:
        for qpos, mocap_pos, lookat in zip(
            asked["qpos"], asked["mocap_pos"], asked["lookat"], strict=True
        ):
            data.qpos[:], data.mocap_pos[:], camera.lookat[:] = qpos, mocap_pos, lookat
            mujoco.mj_forward(model, data)
            renderer.update_scene(data, camera)
            pictures.append(renderer.render())
    np.save(folder / "answered.npy", np.stack(pictures))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
