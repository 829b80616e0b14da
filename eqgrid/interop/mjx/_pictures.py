"""Pictures and videos of MuJoCo bodies: 3D views with OpenGL, or flat side views with Pillow.

Many machines have no driver for OpenGL, and a faulty driver may crash its process. MuJoCo therefore
renders in a separate process.
"""

import dataclasses
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image, ImageDraw, ImageFont
from scipy.spatial import ConvexHull

from ._state import BodyState, MjData, MjModel, Renderer, mujoco

_WORKER = Path(__file__).parent / "_opengl_worker.py"
_TIMEOUT = 120.0  # seconds until the separate process is stopped
_SUPERSAMPLING = 3  # side views are drawn larger by this factor, and then scaled down
_PALETTE_SIZE = 64  # colours in a video
_PALETTE_FRAMES = 8  # frames of a video from which the palette is computed
_MARGIN = 0.15  # metres around the body
_BAR_HEIGHT = 24  # pixels of the bar with texts below a picture
_SKY, _INK, _BAR, _BAR_TEXT = (250, 250, 252), (90, 94, 102), (52, 58, 70), (236, 239, 244)
_ANGLES = np.linspace(0, 2 * np.pi, 24, endpoint=False)
_CIRCLE = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], 1)
_CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)


def draw_frames(
    model: MjModel, states: BodyState, *, width: int, renderer: Renderer
) -> list[UInt8[np.ndarray, "rows columns 3"]]:
    """Draws states of a model.

    **Arguments:**

    - `model`: the model.
    - `states`: the states to draw; every array has a leading time axis.
    - `width`: the width of a picture in pixels.
    - `renderer`: see `Renderer`.

    **Returns:** one RGB picture per state.

    **Raises:** `RuntimeError` when `renderer` is `"opengl"` and OpenGL cannot be used.
    """
    qpos, mocap_pos = np.asarray(states.qpos, float), np.asarray(states.mocap_pos, float)
    datas = []  # the data of MuJoCo for each state, with the positions of all geoms
    for positions, mocap_positions in zip(qpos, mocap_pos, strict=True):
        data = mujoco.MjData(model)
        data.qpos[:], data.mocap_pos[:] = positions, mocap_positions
        mujoco.mj_kinematics(model, data)
        datas.append(data)
    view = _view(model, datas, width)
    if renderer != "side":
        # The camera has a vertical field of view of 45 degrees, MuJoCo's default. At this distance,
        # the view fills the height of the picture.
        middle = view.bottom + view.height / 2
        frames = draw_with_opengl(
            model,
            qpos,
            mocap_pos,
            pixels=view.pixels,
            lookat=[[x, 0.0, middle] for x in (view.left + view.width / 2).tolist()],
            distance=view.height / 2 / np.tan(np.pi / 8),
        )
        if frames is not None:
            return frames
        if renderer == "opengl":
            raise RuntimeError("OpenGL cannot be used here: draw with renderer='side'.")
    return [_draw_side(model, data, view, frame) for frame, data in enumerate(datas)]


def write_gif(
    frames: Sequence[UInt8[np.ndarray, "rows columns 3"]],
    texts: Sequence[tuple[str, str]],
    seconds: float,
) -> bytes:
    """Encodes an animated GIF that loops.

    **Arguments:**

    - `frames`: the pictures.
    - `texts`: the texts on the left and on the right below each picture.
    - `seconds`: the duration of a frame. It is rounded to hundredths of a second, the unit of a
        GIF, and is at least 0.02.

    **Returns:** the bytes of the GIF file.
    """
    images = []
    for frame, (left, right) in zip(frames, texts, strict=True):
        rows, columns = frame.shape[:2]
        image = Image.new("RGB", (columns, rows + _BAR_HEIGHT), _BAR)
        image.paste(Image.fromarray(frame), (0, 0))
        pen, font = ImageDraw.Draw(image), ImageFont.load_default(size=14)
        middle = rows + _BAR_HEIGHT / 2
        pen.text((8, middle), left, fill=_BAR_TEXT, font=font, anchor="lm")
        pen.text((columns - 8, middle), right, fill=_BAR_TEXT, font=font, anchor="rm")
        images.append(image)
    # One palette for all frames, so that the background does not flicker.
    some = images[:: max(1, len(images) // _PALETTE_FRAMES)]
    sample = np.concatenate([np.asarray(image) for image in some])
    palette = Image.fromarray(sample).quantize(_PALETTE_SIZE)
    images = [x.quantize(palette=palette, dither=Image.Dither.NONE) for x in images]
    file = io.BytesIO()
    images[0].save(
        file,
        "GIF",
        save_all=True,
        append_images=images[1:],
        duration=max(20, round(100 * seconds) * 10),
        loop=0,
    )
    return file.getvalue()


def draw_with_opengl(
    model: MjModel,
    qpos: Float[np.ndarray, "frames positions"],
    mocap_pos: Float[np.ndarray, "frames mocap 3"],
    *,
    pixels: tuple[int, int],
    lookat: Sequence[Sequence[float]],
    distance: float,
) -> list[UInt8[np.ndarray, "rows columns 3"]] | None:
    """Draws states with MuJoCo's renderer in a separate process. The environment variable
    `MUJOCO_GL` selects the kind of OpenGL. On Linux, the default is `egl`, which needs no display.

    **Arguments:**

    - `model`, `qpos`, `mocap_pos`: the model and its states.
    - `pixels`: the width and height of a picture.
    - `lookat`: the point at the centre of each picture, in metres.
    - `distance`: the distance from the camera to this point, in metres.

    **Returns:** one RGB picture per state, or `None` if OpenGL cannot be used.
    """
    env = dict(os.environ)
    if sys.platform == "linux":
        env.setdefault("MUJOCO_GL", "egl")
    with tempfile.TemporaryDirectory() as folder:
        mujoco.mj_saveModel(model, str(Path(folder) / "model.mjb"))
        np.savez(
            Path(folder) / "input.npz",
            qpos=qpos,
            mocap_pos=mocap_pos,
            pixels=pixels,
            lookat=lookat,
            distance=distance,
        )
        try:
            subprocess.run(
                [sys.executable, "-W", "ignore", str(_WORKER), folder],
                env=env,
                capture_output=True,
                timeout=_TIMEOUT,
            )
            return list(np.load(Path(folder) / "pictures.npy"))
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return None  # the process wrote no pictures, or not all of them


@final
@dataclasses.dataclass(frozen=True)
class View:
    """The visible part of the world, as a rectangle in the plane of x and z.

    **Arguments:**

    - `left`: the x coordinate of the left edge in each frame, in metres.
    - `bottom`: the z coordinate of the lower edge, in metres.
    - `width`, `height`: the size of the rectangle, in metres.
    - `pixels`: the width and height of the picture in pixels.
    """

    left: Float[np.ndarray, " frames"]
    bottom: float
    width: float
    height: float
    pixels: tuple[int, int]


def _view(model: MjModel, datas: Sequence[MjData], width: int) -> View:
    """The part of the world around the body. If the first joint has limits, the view is fixed and
    contains all geoms. Otherwise the view follows the body.
    """
    fixed = bool(model.jnt_limited[0])
    if fixed:
        geoms = _solids(model)
    else:  # all geoms of bodies, except mocap bodies, which mark goals
        geoms = np.flatnonzero(model.geom_bodyid > 0).tolist()
        geoms = [i for i in geoms if model.body_mocapid[model.geom_bodyid[i]] < 0]
    outlines = [np.concatenate([_outline(model, data, i) for i in geoms]) for data in datas]
    floors = datas[0].geom_xpos[_floors(model), 2].tolist()  # their heights, which do not change
    bottom = min([*floors, *(x[:, 1].min() for x in outlines)]) - _MARGIN
    height = max(x[:, 1].max() for x in outlines) + _MARGIN - bottom
    if fixed:
        left = min(x[:, 0].min() for x in outlines) - _MARGIN
        across = max(x[:, 0].max() for x in outlines) + _MARGIN - left
        lefts = np.full(len(datas), left)
    else:
        across = 2 * height
        moving = model.geom_bodyid == model.jnt_bodyid[0]
        lefts = np.array([x.geom_xpos[moving, 0].mean() for x in datas]) - 0.4 * across
    pixels = (width, 2 * round(width * height / across / 2))  # video encoders need an even height
    return View(lefts, float(bottom), float(across), float(height), pixels)


def _floors(model: MjModel) -> list[int]:
    """The indices of all geoms that are planes."""
    return np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE).tolist()


def _solids(model: MjModel) -> list[int]:
    """The indices of all other geoms."""
    return np.flatnonzero(model.geom_type != mujoco.mjtGeom.mjGEOM_PLANE).tolist()


def _draw_side(
    model: MjModel, data: MjData, view: View, frame: int
) -> UInt8[np.ndarray, "rows columns 3"]:
    """Draws the side view of one state: x to the right, z up, geoms with a smaller y in front."""
    columns, rows = (_SUPERSAMPLING * x for x in view.pixels)
    scale = columns / view.width
    image = Image.new("RGB", (columns, rows), _SKY)
    pen = ImageDraw.Draw(image)
    font = ImageFont.load_default(size=10 * _SUPERSAMPLING)

    def to_pixels(points: Float[np.ndarray, "points 2"]) -> list[tuple[float, float]]:
        x, z = (points - [view.left[frame], view.bottom]).T * scale
        return list(zip(x.tolist(), (rows - z).tolist(), strict=True))

    for i in _floors(model):
        # The floor, with a mark at every metre.
        z, left = data.geom_xpos[i, 2], view.left[frame]
        right = left + view.width
        corners = np.array([[left, z], [right, z], [right, view.bottom], [left, view.bottom]])
        pen.polygon(to_pixels(corners), fill=_colour(model, i))
        pen.line(to_pixels(corners[:2]), fill=_INK, width=_SUPERSAMPLING)
        for metre in range(int(np.ceil(left)), int(np.floor(right)) + 1):
            top, below = to_pixels(np.array([[metre, z], [metre, z - 0.04]]))
            pen.line([top, below], fill=_INK, width=_SUPERSAMPLING)
            pen.text(below, f"{metre} m", fill=_INK, font=font, anchor="mt")
    for i in sorted(_solids(model), key=lambda i: -data.geom_xpos[i, 1]):
        hull = to_pixels(_outline(model, data, i))
        pen.polygon(hull, fill=_colour(model, i), outline=_INK, width=_SUPERSAMPLING)
    return np.asarray(image.resize(view.pixels, Image.Resampling.LANCZOS))


def _outline(model: MjModel, data: MjData, geom: int) -> Float[np.ndarray, "points 2"]:
    """The corners of the convex hull of a geom in the side view."""
    points, radius = _points(model, geom)
    rotation = data.geom_xmat[geom].reshape(3, 3)
    flat = (data.geom_xpos[geom] + points @ rotation.T)[:, [0, 2]]
    if radius > 0:
        flat = (flat[:, None] + radius * _CIRCLE).reshape(-1, 2)
    hull = ConvexHull(flat, qhull_options="QJ")  # QJ also allows flat geoms seen edge-on
    return flat[hull.vertices]


def _points(model: MjModel, geom: int) -> tuple[Float[np.ndarray, "points 3"], float]:
    """Points and a radius whose spheres have the geom as their convex hull."""
    kinds, kind, size = mujoco.mjtGeom, model.geom_type[geom], model.geom_size[geom]
    if kind == kinds.mjGEOM_SPHERE:
        return np.zeros((1, 3)), size[0]
    if kind == kinds.mjGEOM_CAPSULE:
        return np.array([[0, 0, -size[1]], [0, 0, size[1]]]), size[0]
    if kind == kinds.mjGEOM_CYLINDER:
        return np.concatenate([_ring(size[0], z) for z in (-size[1], size[1])]), 0.0
    if kind == kinds.mjGEOM_ELLIPSOID:
        rings = [_ring(np.sqrt(1 - z**2), z) for z in np.linspace(-1, 1, 13)]
        return np.concatenate(rings) * size, 0.0
    if kind == kinds.mjGEOM_MESH:
        mesh = model.geom_dataid[geom]
        start, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
        return np.asarray(model.mesh_vert[start : start + count], float), 0.0
    return _CORNERS * size, 0.0


def _ring(radius: float, z: float) -> Float[np.ndarray, "points 3"]:
    """Points on a horizontal circle around the z axis."""
    return np.column_stack([radius * _CIRCLE, np.full(len(_CIRCLE), z)])


def _colour(model: MjModel, geom: int) -> tuple[int, int, int]:
    red, green, blue = (int(255 * x) for x in model.geom_rgba[geom, :3])
    return red, green, blue
