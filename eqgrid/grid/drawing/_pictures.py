"""Pictures and videos, drawn with Pillow. `_render` imports this module only when it is needed.

A picture is a mosaic of cells, each drawn within its own square. The picture of a cell depends only
on a small tuple (`Look`), so it is drawn once and then cached. A video of 400 steps has a few
hundred different cells. All arrays in layouts and worlds must be NumPy arrays.
"""

import functools
import io
import itertools
from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont

from .._kinds import NOTHING, Kinds
from .._layout import Layout
from .._world import IDLE, World
from ._looks import (
    AgentLook,
    Look,
    Number,
    Pen,
    draw_cell,
    draw_over_tile,
    look_codes,
    top_of,
)

_SUPERSAMPLING = 4
_CACHED_TILES = 4096
_VIDEO_COLOURS = 250
_PALETTE_SAMPLES = 200_000
_BAR = (52, 58, 70)
_BAR_TEXT = (236, 239, 244)
_TEXT_PIXELS = 14
"""The smallest size of a text, unless it must shrink to fit into the width of the picture."""
_LAST_FRAME_MS = 1500
"""How long a video shows its last frame before it begins again, in milliseconds."""


def draw(
    layout: Layout, world: World, cell_pixels: int, caption: str | None
) -> UInt8[np.ndarray, "pixel_rows pixel_cols 3"]:
    """The picture of one world, RGB."""
    height, width = layout.tiles.shape
    tiles = [tile(layout.kinds, look, cell_pixels) for look in looks(layout, world)]
    bar = _bar(int(world.time), caption, cell_pixels, width * cell_pixels)
    return np.concatenate([_mosaic(tiles, height, width), np.asarray(bar)])


def pngs(
    layout: Layout, worlds: World, cell_pixels: int, captions: Sequence[str | None]
) -> list[bytes]:
    """The pictures of worlds with a leading time axis, as PNG files."""
    files = []
    for number, caption in enumerate(captions):
        file = io.BytesIO()
        Image.fromarray(draw(layout, _frame(worlds, number), cell_pixels, caption)).save(
            file, format="PNG", optimize=True
        )
        files.append(file.getvalue())
    return files


def gif(
    layout: Layout,
    worlds: World,
    cell_pixels: int,
    frames_per_second: Number,
    captions: Sequence[str | None],
) -> bytes:
    """A GIF of worlds with a leading time axis."""
    frames = _frames(layout, worlds, cell_pixels, captions)
    file = io.BytesIO()
    duration = max(1, round(100 / frames_per_second)) * 10  # GIFs count hundredths of a second
    frames[0].save(
        file,
        format="GIF",
        save_all=True,
        append_images=frames[1:],
        duration=[duration] * (len(frames) - 1) + [max(duration, _LAST_FRAME_MS)],
        loop=0,
        optimize=True,
        palette=bytes(frames[0].getpalette() or []),
    )
    return file.getvalue()


def looks(layout: Layout, world: World) -> list[Look]:
    """The looks of all cells in row-major order."""
    codes = look_codes(layout, world)
    lying, timers, marks = (x.tolist() for x in (codes.lying, codes.timer, codes.mark))
    direction, held, numbered = codes.direction.tolist(), codes.held.tolist(), len(codes.place) > 2
    agents = {  # by the numbers of their cells
        place: AgentLook(
            index + 1,
            direction[index],
            held[index],
            numbered,
            tuple(number for leaf in codes.extra for number in leaf[index].tolist()),
        )
        for index, place in enumerate(codes.place.tolist())
        if place >= 0
    }
    found = [*bare_looks(layout)]
    is_bare = (codes.lying == NOTHING) & (codes.timer == IDLE) & (codes.mark == 0)
    for place in {*np.flatnonzero(~is_bare).tolist(), *agents}:
        found[place] = found[place]._replace(
            lying=lying[place],
            timer=timers[place],
            duration=_duration(layout, found[place].tile, lying[place], timers[place]),
            agent=agents.get(place),
            mark=marks[place],
        )
    return found


def bare_looks(layout: Layout) -> list[Look]:
    """The looks of all cells in row-major order, without objects, timers, agents and marks."""
    # `Kinds` are no key of the cache, since hashing them takes longer than computing the looks.
    solid = tuple(bool(kind.solid) for kind in layout.kinds.tiles)
    return _bare_looks(layout.tiles.tobytes(), layout.tiles.shape[1], solid)


@functools.lru_cache(maxsize=_CACHED_TILES)
def tile(kinds: Kinds, look: Look, cell_pixels: int) -> UInt8[np.ndarray, "cell cell 3"]:
    """The picture of a cell, RGB."""
    side = cell_pixels * _SUPERSAMPLING
    image = Image.new("RGB", (side, side))
    draw_cell(Pen(ImageDraw.Draw(image, "RGBA"), _font, side, cell_pixels), kinds, look)
    small = image.resize((cell_pixels, cell_pixels), Image.Resampling.LANCZOS)
    return np.asarray(small)


def over_tile(kinds: Kinds, look: Look, cell_pixels: int) -> UInt8[np.ndarray, "cell cell 4"]:
    """The object, the agent and the overlay of a cell on a transparent background, RGBA.

    They are drawn on black and on white: the more a pixel differs, the more transparent it is.
    """
    side = cell_pixels * _SUPERSAMPLING
    on_black, on_white = (Image.new("RGB", (side, side), colour) for colour in ("black", "white"))
    for image in (on_black, on_white):
        draw_over_tile(Pen(ImageDraw.Draw(image, "RGBA"), _font, side, cell_pixels), kinds, look)
    size = (cell_pixels, cell_pixels)
    black, white = (
        np.asarray(image.resize(size, Image.Resampling.LANCZOS), np.float32)
        for image in (on_black, on_white)
    )
    # A pixel on black is `colour * alpha / 255`; on white, it is lighter by `255 - alpha`.
    alpha = np.clip(255 - (white - black).mean(axis=-1, keepdims=True), 0, 255)
    colour = np.where(alpha > 0, black * 255 / np.maximum(alpha, 1), 0)
    return np.concatenate([np.clip(colour, 0, 255), alpha], axis=-1).round().astype(np.uint8)


def tile_png(kinds: Kinds, look: Look, cell_pixels: int, over: bool) -> bytes:
    """The picture of a cell, or with `over` the picture of `over_tile`, as a PNG file."""
    file = io.BytesIO()
    picture = over_tile if over else tile
    Image.fromarray(picture(kinds, look, cell_pixels)).save(file, "PNG")
    return file.getvalue()


@functools.lru_cache(maxsize=8)
def _bare_looks(tiles: bytes, width: int, solid: tuple[bool, ...]) -> list[Look]:
    numbers = np.frombuffer(tiles, np.uint8).reshape(-1, width)
    free = np.pad(~np.asarray(solid)[numbers], 1)
    # For each cell, whether the adjacent cells can be entered, in the order of `Direction`.
    sides = np.stack([free[:-2, 1:-1], free[2:, 1:-1], free[1:-1, 2:], free[1:-1, :-2]], axis=-1)
    found = []
    for (row, col), number in np.ndenumerate(numbers):
        north, south, east, west = sides[row, col].tolist()
        open_sides = (north, south, east, west)
        middle = top_of(open_sides) / 2 if solid[number] else 0.5
        shade = (row + col) % 2
        found.append(Look(int(number), NOTHING, IDLE, 0, shade, open_sides, middle, None))
    return found


def _duration(layout: Layout, tile: int, lying: int, timer: int) -> int:
    """The total number of steps of a timer; 0 if it does not run."""
    count = layout.kinds.tiles[tile].duration
    return count(layout.params, lying) if count is not None and timer > 0 else 0


def _mosaic(
    tiles: Sequence[UInt8[np.ndarray, "cell cell *channels"]], height: int, width: int
) -> UInt8[np.ndarray, "pixel_rows pixel_cols *channels"]:
    """Joins the pictures of cells, given in row-major order, to one picture."""
    stacked = np.stack(tiles)
    _, side, _, *channels = stacked.shape
    grid = stacked.reshape(height, width, side, side, *channels).swapaxes(1, 2)
    return grid.reshape(height * side, width * side, *channels)


def _bar(time: int, caption: str | None, cell_pixels: int, width: int) -> Image.Image:
    """The bar below a picture, with the time step and the caption."""
    height = max(_TEXT_PIXELS + 8, round(0.36 * cell_pixels))
    image = Image.new("RGB", (width, height), _BAR)
    draw = ImageDraw.Draw(image)
    margin, middle = max(4, height // 3), height / 2
    size = max(_TEXT_PIXELS, round(0.56 * height))
    step, font = _fit(f"step {time}", size, width - 2 * margin)
    draw.text((margin, middle), step, fill=_BAR_TEXT, font=font, anchor="lm")
    if caption:
        room = width - 3 * margin - font.getlength(step)
        text, font = _fit(caption, size, room)
        draw.text((width - margin, middle), text, fill=_BAR_TEXT, font=font, anchor="rm")
    return image


def _fit(
    text: str, size: int, room: Number
) -> tuple[str, ImageFont.FreeTypeFont | ImageFont.ImageFont]:
    """Shrinks a text until it fits into `room` pixels, or else shortens it."""
    while size > 9 and _font(size).getlength(text) > room:
        size -= 1
    font = _font(size)
    if font.getlength(text) > room:
        while text and font.getlength(text + "...") > room:
            text = text[:-1]
        text = text + "..." if text else ""
    return text, font


@functools.lru_cache(maxsize=64)
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=size)


def _frame(worlds: World, number: int) -> World:
    return jax.tree.map(lambda leaf: leaf[number], worlds)


def _frames(
    layout: Layout, worlds: World, cell_pixels: int, captions: Sequence[str | None]
) -> list[Image.Image]:
    """The frames of a GIF, all with the same palette."""
    height, width = layout.tiles.shape
    times = [int(time) for time in worlds.time]
    looks_of_frames = [looks(layout, _frame(worlds, number)) for number in range(len(times))]
    tiles = {
        look: tile(layout.kinds, look, cell_pixels)
        for look in dict.fromkeys(itertools.chain(*looks_of_frames))
    }
    first_bar = _bar(times[0], captions[0], cell_pixels, width * cell_pixels)
    palette = _palette(list(tiles.values()), first_bar)

    def reduce(image: Image.Image) -> UInt8[np.ndarray, "pixel_rows pixel_cols"]:
        return np.asarray(image.quantize(palette=palette, dither=Image.Dither.NONE))

    # Each look is reduced to palette indices once, and all frames are joined from these indices.
    indices = {look: reduce(Image.fromarray(picture)) for look, picture in tiles.items()}
    frames = []
    for shown, time, caption in zip(looks_of_frames, times, captions, strict=True):
        grid = _mosaic([indices[look] for look in shown], height, width)
        bar = reduce(_bar(time, caption, cell_pixels, width * cell_pixels))
        frame = Image.fromarray(np.concatenate([grid, bar]))
        frame.putpalette(palette.getpalette() or [])
        frames.append(frame)
    return frames


def _palette(tiles: Sequence[UInt8[np.ndarray, "cell cell 3"]], bar: Image.Image) -> Image.Image:
    """An image with the palette of the GIF.

    A few of its 256 colours stay unused, since Pillow needs one to mark unchanged pixels.
    """
    pixels = np.concatenate(tiles).reshape(-1, 3)
    bar_pixels = np.resize(np.asarray(bar).reshape(-1, 3), (_PALETTE_SAMPLES // 20, 3))
    stride = len(pixels) // _PALETTE_SAMPLES | 1  # odd, so that no column of a cell is skipped
    sample = Image.fromarray(np.concatenate([pixels[::stride], bar_pixels])[None])
    # MAXCOVERAGE keeps rare but important colours, such as those of leaves; k-means refines them.
    reduced = sample.quantize(_VIDEO_COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=3)
    colours = reduced.getpalette() or []
    reduced.putpalette(colours + [0] * (768 - len(colours)))
    return reduced
