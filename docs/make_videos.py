"""Makes the videos of the docs: python docs/make_videos.py [video ...]

`cramped`, `kitchens` and `biped` show bundled policies. For each other video, the script first
trains a policy with the settings in `TRAINED`. The policies of November 2026 took between 55
seconds (`park`) and 376 seconds (`warehouse`) on two shared CPU cores. Policies stay in
`runs/videos`, and the script does not train them again. Without names of videos, it makes all.
"""

import dataclasses
import importlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from make_pictures import IMAGES, MILLISECONDS, write_gif
from PIL import Image, ImageSequence

from agents import PartnerTeam, PolicyPartner, load_policy
from agents.files import shipped
from eqgrid import AbstractEnv, AppendAgentId, AutoReset, Vectorize, make, record_play
from eqgrid.envs.overcooked import KITCHENS
from eqgrid_lab.show import caption, video_episode

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "runs/videos"
WIDTH, GAP, STEPS, LAST = 784, 8, 200, 1500
BIPED_STEPS = 340
BACKGROUND = (252, 251, 250)


@dataclasses.dataclass(frozen=True)
class Trained:
    """A video of a policy that a command trains.

    **Arguments:**

    - `script`, `name`, `options`, `flags`: the script, the world, its options, and further flags.
    - `caption`: the caption for the sum of the rewards of all agents.
    - `episodes`, `steps`: the number of episodes, and the largest number of steps of each.
    - `cell_pixels`, `milliseconds`: the side of a cell, and the duration of a frame.
    - `page`: the page whose first Python block, or first four blocks, define the world.
    """

    script: str
    name: str
    options: dict[str, Any]
    flags: str
    caption: Callable[[float], str]
    episodes: int = 1
    steps: int = 120
    cell_pixels: int = 40
    milliseconds: int = MILLISECONDS
    page: str = ""

    @property
    def command(self) -> list[str]:
        """The command without the folder that it writes."""
        flags = ["--env.name", self.name]
        for option, value in self.options.items():
            flags.append(f"--env.{option.replace('_', '-')}")
            flags += [] if value is True else [str(value)]
        return [
            sys.executable,
            str(ROOT / "experiments" / self.script),
            *flags,
            *self.flags.split(),
        ]

    def world(self) -> AbstractEnv:
        if not self.page:
            return make(self.name, **self.options)
        module, _, function = self.name.partition(":")
        text = (ROOT / "docs" / self.page).read_text(encoding="utf-8")
        code = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
        RUNS.mkdir(parents=True, exist_ok=True)
        (RUNS / f"{module}.py").write_text("\n".join(code[: 4 if "tutorials" in self.page else 1]))
        sys.path.insert(0, str(RUNS))
        return getattr(importlib.import_module(module), function)(**self.options)


def counted(words: str, share: float = 1.0) -> Callable[[float], str]:
    """A caption with a whole number, such as `3 delivered`."""
    return lambda total: f"{round(total * share)} {words}"


COMMONS = {"layout": "small", "horizon": 300, "shared": True, "observation": "planes"}
TRAINED = {
    "goals": Trained(
        "ippo.py",
        "goals",
        {"layout": "rooms", "num_agents": 4, "observation": "features"},
        "--total-steps 500000",
        counted("of 4 at a flag"),
        episodes=3,
        milliseconds=200,
    ),
    "foraging": Trained(
        "ippo.py",
        "foraging",
        {"size": 8, "num_agents": 2, "num_food": 2, "coop": True},
        "--total-steps 2000000",
        lambda total: f"{total:.0%} collected",
        episodes=4,
        milliseconds=240,
    ),
    "minigrid": Trained(
        "ippo.py",
        "minigrid",
        {"layout": "doorkey", "size": 5, "num_agents": 2},
        "--network gru --total-steps 600000",
        lambda total: caption(total / 2),
        episodes=3,
        cell_pixels=64,
        milliseconds=200,
    ),
    "rescue": Trained(
        "ippo.py",
        "rescue",
        {"layout": "small", "observation": "features"},
        "--total-steps 2000000",
        counted("of 4 rescued", 1 / 2),
    ),
    "harvest": Trained(
        "ippo.py",
        "harvest",
        COMMONS,
        "--total-steps 1000000",
        counted("apples", 1 / 3),
        cell_pixels=32,
    ),
    "cleanup": Trained(
        "ippo.py",
        "cleanup",
        COMMONS,
        "--total-steps 1000000",
        counted("apples", 1 / 3),
        cell_pixels=32,
    ),
    "overcooked_v2": Trained(
        "ippo.py",
        "overcooked_v2",
        {"layout": "cramped_room_v2"},
        "--total-steps 2000000",
        lambda total: caption(total / 2),
        cell_pixels=56,
    ),
    "warehouse": Trained(
        "mappo.py",
        "warehouse",
        {"num_agents": 3},
        "--total-steps 6000000 --agent-id",
        counted("delivered"),
        steps=160,
        cell_pixels=28,
    ),
    "park": Trained(
        "ippo.py",
        "park:Park",
        {"horizon": 40},
        "--total-steps 500000",
        counted("of 3 arrived"),
        episodes=4,
        cell_pixels=56,
        milliseconds=200,
        page="your-own-world.md",
    ),
    "garden": Trained(
        "ippo.py",
        "garden:Garden",
        {},
        "--total-steps 1000000",
        counted("watered"),
        cell_pixels=56,
        page="tutorials/3-world.md",
    ),
}
"""The videos of trained policies by name."""


def images(data: bytes) -> list[Image.Image]:
    """The frames of a GIF."""
    with Image.open(io.BytesIO(data)) as opened:
        return [frame.convert("RGB") for frame in ImageSequence.Iterator(opened)]


def trained_frames(video: str) -> tuple[list[Image.Image], list[int]]:
    """The frames of a video of a trained policy, and the duration of each in milliseconds."""
    made = TRAINED[video]
    world: Any = made.world()
    if not (RUNS / video / "policy.safetensors").exists():
        command = [*made.command, "--out", str(RUNS / video)]
        print(shlex.join(command))
        subprocess.run(command, check=True, cwd=RUNS.parent if not made.page else RUNS)
    agent = PolicyPartner(load_policy(RUNS / video))
    team = PartnerTeam((agent,) * world.num_agents)
    seen = AppendAgentId(world) if "--agent-id" in made.flags else world
    env = Vectorize(AutoReset(seen), 1)
    frames: list[Image.Image] = []
    durations: list[int] = []

    def draw(states: Any, returns: Sequence[float]) -> bytes:
        captions = [made.caption(score * world.num_agents) for score in returns]
        video = world.render_episode(states, captions=captions, cell_pixels=made.cell_pixels)
        frames.extend(images(video))
        durations.extend([made.milliseconds] * (len(returns) - 1) + [LAST])
        return b""

    for episode in range(made.episodes):
        video_episode(team, env, draw, jax.random.key(episode), made.steps)
    return frames, durations


def biped() -> bytes:
    """A GIF of the bundled policy of the biped, which walks to its goal; it needs MuJoCo."""
    world = importlib.import_module("eqgrid.envs.bodies").Biped("reach")
    agent = PolicyPartner(load_policy(shipped("policies/biped.safetensors")))
    env = Vectorize(AutoReset(world), 1)

    def draw(states: Any, returns: Sequence[float]) -> bytes:
        captions = [caption(score) for score in returns]
        return world.render_episode(states, width=400, frames_per_second=12.5, captions=captions)

    return video_episode(PartnerTeam((agent,)), env, draw, jax.random.key(0), BIPED_STEPS)


def frames_of(kitchen: str, cell_pixels: int) -> list[Image.Image]:
    """The frames of the first steps of an episode with the bundled policy."""
    env = make("overcooked", layout=kitchen, observation="features")
    agent = PolicyPartner(load_policy(shipped(f"policies/{kitchen}.safetensors")))
    game = record_play(env, (agent, agent), jax.random.split(jax.random.key(0), 1), max_steps=400)
    states, rewards = jax.tree.map(lambda x: x[:STEPS], (game.state, np.asarray(game.reward[:, 0])))
    captions = [caption(score) for score in np.cumsum(rewards) - rewards]
    return images(env.render_episode(states, captions=captions, cell_pixels=cell_pixels))


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


def make_video(video: str) -> None:
    """Writes a video into `images/`."""
    file = IMAGES / f"{video}.gif"
    if video == "cramped":
        frames = frames_of("cramped", 56)
        write_gif(frames, file, [*[MILLISECONDS] * (len(frames) - 1), LAST])
    elif video == "kitchens":
        videos = [frames_of(kitchen, 40)[::2] for kitchen in KITCHENS]
        together = [beside([[*now[:3]], [*now[3:]]]) for now in zip(*videos, strict=True)]
        write_gif(together, file, [*[200] * (len(together) - 1), LAST])
    elif video == "biped":
        file.write_bytes(biped())
    else:
        frames, durations = trained_frames(video)
        write_gif(frames, file, durations)


if __name__ == "__main__":
    for name in sys.argv[1:] or ("cramped", "kitchens", "biped", *TRAINED):
        make_video(name)
