"""Makes the pictures of the README from the videos in `images/`: python docs/make_pictures.py"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

IMAGES = Path(__file__).parent / "images"
STRIP = ("cramped", "warehouse", "rescue", "harvest")
"""The videos of the strip, from left to right."""
FRAMES, MILLISECONDS = 90, 120
WORLDS = {
    "overcooked": ("cramped", 70),
    "overcooked_v2": ("overcooked_v2", 40),
    "foraging": ("foraging", 3),
    "warehouse": ("warehouse", 40),
    "rescue": ("rescue", 30),
    "minigrid": ("minigrid", 4),
    "goals": ("goals", 1),
    "harvest": ("harvest", 60),
    "cleanup": ("cleanup", 60),
    "body": ("biped", 40),
}
"""For each world, a video and the frame that the picture of all worlds shows."""
CELL, LABEL, GAP, HEIGHT = 190, 26, 8, 200
COLOURS = 128
BAR = 24
"""The height of captions, which would be too small to read in smaller pictures."""


def frame(video: str, number: int) -> Image.Image:
    """A frame of a video without its caption; the last frame if the video is shorter."""
    with Image.open(IMAGES / f"{video}.gif") as opened:
        opened.seek(min(number, getattr(opened, "n_frames", 1) - 1))
        return opened.convert("RGB").crop((0, 0, opened.width, opened.height - BAR))


def strip(number: int) -> Image.Image:
    """A frame of the strip: one frame of each video, all of one height."""
    parts = [frame(video, number) for video in STRIP]
    parts = [x.resize((round(x.width * HEIGHT / x.height), HEIGHT)) for x in parts]
    width = sum(x.width + GAP for x in parts) - GAP
    joined = Image.new("RGB", (width + width % 2, HEIGHT), "white")
    left = 0
    for part in parts:
        joined.paste(part, (left, 0))
        left += part.width + GAP
    return joined


def all_worlds() -> Image.Image:
    """Two rows of five worlds, each above its name."""
    size = 5 * (CELL + GAP) - GAP, 2 * (CELL + LABEL)
    joined = Image.new("RGB", size, "white")
    draw, font = ImageDraw.Draw(joined), ImageFont.load_default(16)
    for place, (name, (video, number)) in enumerate(WORLDS.items()):
        left, top = place % 5 * (CELL + GAP), place // 5 * (CELL + LABEL)
        picture = frame(video, number)
        scale = CELL / max(picture.size)
        picture = picture.resize((round(picture.width * scale), round(picture.height * scale)))
        corner = left + (CELL - picture.width) // 2, top + CELL - picture.height
        joined.paste(picture, corner)
        draw.text((left + CELL / 2, top + CELL + 3), name, "#333333", font, anchor="ma")
    return joined


def write_gif(frames: list[Image.Image], file: Path, durations: Sequence[int]) -> None:
    """Writes a GIF with one palette for all frames, in which small things keep their colours.

    **Arguments:**

    - `frames`, `file`: the frames, and the file.
    - `durations`: the duration of each frame in milliseconds.
    """
    sample = np.concatenate([np.asarray(x) for x in frames[::20]])
    palette = Image.fromarray(sample).quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=3)
    frames = [x.quantize(palette=palette, dither=Image.Dither.NONE) for x in frames]
    rest = {"append_images": frames[1:], "duration": list(durations)}
    frames[0].save(file, save_all=True, loop=0, **rest)


def save(folder: Path) -> None:
    """Writes `strip.gif` and `worlds.png` to a folder."""
    write_gif([strip(x) for x in range(FRAMES)], folder / "strip.gif", [MILLISECONDS] * FRAMES)
    all_worlds().save(folder / "worlds.png", optimize=True)


if __name__ == "__main__":
    save(IMAGES)
