"""Makes the videos of the five kitchens from the bundled policies: python docs/make_videos.py

It writes `cramped.gif` and `kitchens.gif` in docs/images, which takes half a minute.
"""

import io

import jax
import numpy as np
from make_pictures import IMAGES, MILLISECONDS, write_gif
from PIL import Image, ImageSequence

from agents import PolicyPartner, load_policy
from agents.files import shipped
from eqgrid import make, record_play
from eqgrid.envs.overcooked import KITCHENS
from eqgrid_lab.show import caption

WIDTH, GAP, STEPS, LAST = 784, 8, 200, 1500
BACKGROUND = (252, 251, 250)


def frames_of(kitchen: str, cell_pixels: int) -> list[Image.Image]:
    """The frames of the first steps of an episode with the bundled policy."""
    env = make("overcooked", layout=kitchen, observation="features")
    agent = PolicyPartner(load_policy(shipped(f"policies/{kitchen}.safetensors")))
    game = record_play(env, (agent, agent), jax.random.split(jax.random.key(0), 1), max_steps=400)
    states, rewards = jax.tree.map(lambda x: x[:STEPS], (game.state, np.asarray(game.reward[:, 0])))
    captions = [caption(score) for score in np.cumsum(rewards) - rewards]
    data = env.render_episode(states, captions=captions, cell_pixels=cell_pixels)
    with Image.open(io.BytesIO(data)) as opened:
        return [frame.convert("RGB") for frame in ImageSequence.Iterator(opened)]


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
    write_gif(frames_of("cramped", 56), IMAGES / "cramped.gif", MILLISECONDS, LAST)
    films = [frames_of(kitchen, 40)[::2] for kitchen in KITCHENS]
    together = [beside([[*now[:3]], [*now[3:]]]) for now in zip(*films, strict=True)]
    write_gif(together, IMAGES / "kitchens.gif", 200, LAST)
