"""Pictures and videos of worlds. These functions need concrete arrays, so they cannot be traced."""

import base64
import hashlib
import json
from collections.abc import Sequence
from types import ModuleType
from typing import final

import jax
import numpy as np
from jaxtyping import UInt8

from ...errors import import_optional
from .._kinds import Kinds
from .._layout import Layout
from .._world import World
from ._looks import Look, Number

SMALLEST_CELL = 16
"""The smallest side of a cell in pixels for which a picture is recognisable."""

_PLAYER = """
<div id="{name}" style="display:inline-block;font-family:sans-serif">
<img style="display:block;image-rendering:auto" alt="a video of {count} frames">
<button type="button" style="width:4em">play</button>
<input type="range" min="0" max="{last}" value="0" style="width:16em;vertical-align:middle">
</div>
<script>
(() => {{
  const frames = {frames}, order = {order}, box = document.getElementById("{name}");
  const picture = box.querySelector("img"), slider = box.querySelector("input");
  const button = box.querySelector("button");
  let timer = null;
  const show = () => {{ picture.src = "data:image/png;base64," + frames[order[slider.value]]; }};
  const stop = () => {{ clearInterval(timer); timer = null; button.textContent = "play"; }};
  const next = () => {{
    if (+slider.value >= {last}) return stop();
    slider.value = +slider.value + 1; show();
  }};
  button.onclick = () => {{
    if (timer) return stop();
    if (+slider.value >= {last}) slider.value = 0;
    timer = setInterval(next, {pause}); button.textContent = "stop"; show();
  }};
  slider.oninput = () => {{ stop(); show(); }};
  show();
}})();
</script>
"""


@final
class Video:
    """A sequence of frames, which a notebook displays as a player with a slider. The player needs
    no server, and is saved with the notebook.

    - `frames`: the frames, each as the bytes of a PNG file.
    - `frames_per_second`: the playback speed.
    """

    def __init__(self, frames: list[bytes], frames_per_second: int | float):
        self.frames, self.frames_per_second = frames, frames_per_second

    def __len__(self) -> int:
        return len(self.frames)

    def _repr_html_(self) -> str:
        # Equal pictures are stored once: in many games, most steps change nothing that is drawn.
        different = list(dict.fromkeys(self.frames))
        number = {frame: i for i, frame in enumerate(different)}
        order = [number[frame] for frame in self.frames]
        # The name is a hash of the pictures, so that a notebook that is run twice stays the same.
        digest = hashlib.sha256(b"".join(different) + bytes(str(order), "ascii")).hexdigest()
        return _PLAYER.format(
            name=f"eqgrid-{digest[:16]}",
            count=len(order),
            last=len(order) - 1,
            frames=json.dumps([base64.b64encode(frame).decode() for frame in different]),
            order=json.dumps(order),
            pause=max(1, round(1000 / self.frames_per_second)),
        )


def render(
    layout: Layout, world: World, *, cell_pixels: int = 64, caption: str | None = None
) -> UInt8[np.ndarray, "pixel_rows pixel_cols 3"]:
    """Draws one world as an image, with a bar below it that shows the time step.

    **Arguments:**

    - `layout`: the layout of the world.
    - `world`: the state to draw, with concrete arrays.
    - `cell_pixels`: the side of a cell in pixels, at least 16; numbers are omitted where they would
        be too small to read.
    - `caption`: a short text on the right of the bar, such as the score.

    **Returns:** the image, RGB.

    **Raises:** `ValueError` when `cell_pixels` is too small, or the world does not fit the layout.
    """
    layout, world = _to_numpy(layout, world, cell_pixels, leading=0)
    return _pictures().draw(layout, world, cell_pixels, caption)


def render_episode(
    layout: Layout,
    worlds: World,
    *,
    cell_pixels: int = 64,
    frames_per_second: Number = 8,
    captions: Sequence[str] | None = None,
) -> bytes:
    """Draws an episode as an animated GIF that loops.

    **Arguments:**

    - `layout`: the layout of the worlds.
    - `worlds`: the states to draw, one per frame; every array has a leading time axis.
    - `cell_pixels`: the side of a cell in pixels, at least 16.
    - `frames_per_second`: the playback speed, at most 100. A GIF stores delays in hundredths of a
        second, and viewers slow down GIFs of more than 50 frames per second.
    - `captions`: a short text for every frame, such as the score.

    **Returns:** the GIF file, for `pathlib.Path.write_bytes`.

    **Raises:** `ValueError` when `cell_pixels` is too small, the worlds do not fit the layout,
    there is no frame, the speed is not above 0 and at most 100, or the number of captions is not
    the number of frames.
    """
    layout, worlds, shown = _check_video(layout, worlds, cell_pixels, frames_per_second, captions)
    return _pictures().gif(layout, worlds, cell_pixels, frames_per_second, shown)


def video(
    layout: Layout,
    worlds: World,
    *,
    cell_pixels: int = 32,
    frames_per_second: Number = 8,
    captions: Sequence[str] | None = None,
) -> Video:
    """Draws an episode as a video, which a notebook displays as a player. The arguments and errors
    are those of `render_episode`.
    """
    layout, worlds, shown = _check_video(layout, worlds, cell_pixels, frames_per_second, captions)
    return Video(_pictures().pngs(layout, worlds, cell_pixels, shown), frames_per_second)


def looks(layout: Layout, world: World) -> list[Look]:
    """The inputs of the picture of each cell, in row-major order.

    A program that draws many worlds, such as a web page, draws each look once with `draw_look`,
    and then joins the pictures.

    **Arguments:**

    - `layout`: the layout of the world.
    - `world`: the state, with concrete arrays.

    **Raises:** `ValueError` when the world does not fit the layout.
    """
    layout, world = _to_numpy(layout, world, SMALLEST_CELL, leading=0)
    return _pictures().looks(layout, world)


def bare_looks(layout: Layout) -> list[Look]:
    """The inputs of the picture of each cell of a bare layout, in row-major order: without objects,
    timers, agents and an overlay.

    **Arguments:**

    - `layout`: the layout, with concrete arrays.
    """
    return _pictures().bare_looks(jax.tree.map(np.asarray, layout))


def draw_look(
    kinds: Kinds, look: Look, cell_pixels: int = 64
) -> UInt8[np.ndarray, "cell_pixels cell_pixels 3"]:
    """Draws the picture of a cell, as `render` shows it.

    **Arguments:**

    - `kinds`: the kinds of the layout.
    - `look`: the inputs of the picture, as returned by `looks`.
    - `cell_pixels`: the side of the picture in pixels, at least 16.

    **Returns:** the image, RGB.

    **Raises:** `ValueError` when `cell_pixels` is too small.
    """
    _check_size(cell_pixels)
    return _pictures().tile(kinds, look, cell_pixels)


def draw_over_look(
    kinds: Kinds, look: Look, cell_pixels: int = 64
) -> UInt8[np.ndarray, "cell_pixels cell_pixels 4"]:
    """Draws the object, the agent and the overlay of a cell on a transparent background.

    A program that puts these pictures over pictures of bare tiles needs few pictures for many
    looks.

    **Arguments:** as in `draw_look`.

    **Returns:** the image, RGBA.

    **Raises:** `ValueError` when `cell_pixels` is too small.
    """
    _check_size(cell_pixels)
    return _pictures().over_tile(kinds, look, cell_pixels)


def look_png(kinds: Kinds, look: Look, cell_pixels: int = 64, *, over: bool = False) -> bytes:
    """The picture of `draw_look`, or of `draw_over_look` if `over` is true, as a PNG file. The
    other arguments and the errors are the same.
    """
    _check_size(cell_pixels)
    return _pictures().tile_png(kinds, look, cell_pixels, over)


def _check_video(
    layout: Layout,
    worlds: World,
    cell_pixels: int,
    frames_per_second: Number,
    captions: Sequence[str] | None,
) -> tuple[Layout, World, Sequence[str | None]]:
    """Checks the arguments, and returns the layout and the worlds as NumPy arrays, and a caption or
    `None` for each frame.
    """
    layout, worlds = _to_numpy(layout, worlds, cell_pixels, leading=1)
    count = len(worlds.time)
    if count == 0:
        raise ValueError("An episode needs at least one world to make a video of.")
    if not 0 < frames_per_second <= 100:
        raise ValueError(f"`frames_per_second` must be between 0 and 100, not {frames_per_second}.")
    if captions is not None and len(captions) != count:
        raise ValueError(
            f"There are {len(captions)} captions for {count} frames: give one for each."
        )
    return layout, worlds, [None] * count if captions is None else captions


def _to_numpy(
    layout: Layout, worlds: World, cell_pixels: int, leading: int
) -> tuple[Layout, World]:
    """Checks that the worlds fit the layout, and converts both to NumPy arrays."""
    _check_size(cell_pixels)
    # NumPy arrays are not converted again, for programs that draw every step of many games.
    if not isinstance(layout.tiles, np.ndarray):
        layout = jax.tree.map(np.asarray, layout)
    if not isinstance(worlds.time, np.ndarray):
        worlds = jax.tree.map(np.asarray, worlds)
    grid = worlds.cells.object.shape[leading:]
    if worlds.cells.object.ndim != leading + 2 or grid != layout.tiles.shape:
        wanted = "a leading time axis and the layout's grid" if leading else "the layout's grid"
        raise ValueError(
            f"The cells of the world are {worlds.cells.object.shape}, but they must have {wanted} "
            f"of {layout.tiles.shape} cells."
        )
    position = worlds.bodies.position
    if (position < 0).any() or (position >= np.asarray(grid)).any():
        raise ValueError(f"An agent stands outside of the layout's grid of {grid} cells.")
    return layout, worlds


def _check_size(cell_pixels: int) -> None:
    if cell_pixels < SMALLEST_CELL:
        raise ValueError(
            f"`cell_pixels` must be at least {SMALLEST_CELL} to be recognisable, not {cell_pixels}."
        )


def _pictures() -> ModuleType:
    """The module that imports Pillow; it is imported only when a picture is drawn.

    **Raises:** `ImportError` when Pillow is not installed.
    """
    return import_optional(f"{__package__}._pictures", "Pictures need pillow", "pictures")
