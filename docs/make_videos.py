"""Makes the videos of the five kitchens from the bundled policies: python docs/make_videos.py

It writes `cramped.gif` and `kitchens.gif` in docs/images, which takes two minutes on two CPU cores.
"""

import io
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
from PIL import Image, ImageSequence

import eqgrid
from agents import load_policy
from agents.files import shipped
from eqgrid.envs.overcooked import KITCHENS

IMAGES = Path(__file__).parent / "images"
WIDTH, GAP, COLOURS = 784, 8, 128
BACKGROUND = (252, 251, 250)


def frames_of(kitchen: str, cell_pixels: int) -> list[Image.Image]:
    """The frames of an episode with the bundled policy, with the score below each."""
    env = eqgrid.make("overcooked", layout=kitchen, observation="features")
    policy = load_policy(shipped(f"policies/{kitchen}.safetensors"))

    def step(carry, keys):
        (observation, state, memory) = carry
        action, memory = policy.act(observation, memory, keys[0])
        timestep, after = env.step(keys[1], state, action)
        return (timestep.observation, after, memory), (state, timestep.reward[0])

    observation, state = env.reset(jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), (200, 2))
    start = (observation, state, policy.initial_carry())
    _, (states, rewards) = eqx.filter_jit(jax.lax.scan)(step, start, keys)
    scores = np.cumsum(np.asarray(rewards)) - np.asarray(rewards)
    captions = [f"score {score:g}" for score in scores]
    data = env.render_episode(states, captions=captions, cell_pixels=cell_pixels)
    with Image.open(io.BytesIO(data)) as opened:
        return [frame.convert("RGB") for frame in ImageSequence.Iterator(opened)]


def write(frames: list[Image.Image], name: str, milliseconds: int = 120) -> None:
    """Writes a GIF with one palette for all frames, which holds its last frame."""
    sample = np.concatenate([np.asarray(frame) for frame in frames[::20]])
    palette = Image.fromarray(sample).quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=3)
    reduced = [x.quantize(palette=palette, dither=Image.Dither.NONE) for x in frames]
    seconds = [milliseconds] * (len(frames) - 1) + [1500]
    reduced[0].save(
        IMAGES / name, save_all=True, append_images=reduced[1:], duration=seconds, loop=0
    )


def beside(rows: list[list[Image.Image]]) -> Image.Image:
    """Pictures in rows, each row in the middle."""
    height = sum(max(x.height for x in row) for row in rows) + GAP * (len(rows) - 1)
    whole, top = Image.new("RGB", (WIDTH, height), BACKGROUND), 0
    for row in rows:
        left = (WIDTH - sum(x.width for x in row) - GAP * (len(row) - 1)) // 2
        for picture in row:
            whole.paste(picture, (left, top))
            left += picture.width + GAP
        top += max(x.height for x in row) + GAP
    return whole


if __name__ == "__main__":
    write(frames_of("cramped", 56), "cramped.gif")
    films = [frames_of(kitchen, 40)[::2] for kitchen in KITCHENS]
    together = [beside([[*now[:3]], [*now[3:]]]) for now in zip(*films, strict=True)]
    write(together, "kitchens.gif", 200)
