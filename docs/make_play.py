"""Records a game in the browser as `images/play.gif`: python docs/make_play.py

It needs Chromium and `pip install -e ".[play-test]"`. A bundled policy chooses the keys of the
person, and Playwright presses them on the page. The server runs the same policy as the partner.
"""

import contextlib
import io
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import uvicorn
from make_pictures import IMAGES, write_gif
from PIL import Image
from playwright.sync_api import Page, ViewportSize, sync_playwright

from eqgrid_lab import Kitchen
from agents import load_policy
from eqgrid import make
from eqgrid_play.games import GameServer, Menu, Session
from eqgrid_play.web._app import build_app

RATE, SECONDS, LAST = 6, 20, 1500
SIZE = ViewportSize(width=760, height=540)
KEYS = ("ArrowUp", "ArrowDown", "ArrowRight", "ArrowLeft", None, "Space")
"""The key for each action of a kitchen; no key for staying."""


@contextlib.contextmanager
def served() -> Iterator[tuple[GameServer, str]]:
    """A server of games in the kitchen `cramped`, and its address."""
    menu = Menu(Kitchen(layout="cramped"))
    with tempfile.TemporaryDirectory() as folder:
        games = GameServer(menu, Path(folder), ticks_per_second=RATE, most_games=1)
        app = build_app(games, ["127.0.0.1"], None, "secret")
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.02)
        try:
            yield games, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()


def person() -> Any:
    """A function that returns the key that the bundled policy presses in a state."""
    world: Any = make("overcooked", layout="cramped", observation="features")
    policy = load_policy("shipped:cramped")

    @eqx.filter_jit
    def act(state: Any, key: jax.Array) -> jax.Array:
        return policy.act(world.observe(state), policy.initial_carry(), key)[0]

    return lambda state, step: KEYS[int(act(state, jax.random.key(step))[0])]


def begin(opened: Page) -> None:
    """Starts a game with the trained agent."""
    opened.wait_for_selector("#start:not([disabled])")
    labels = opened.locator("#partner option").all_inner_texts()
    opened.select_option("#partner", label=next(x for x in labels if "trained" in x))
    opened.click("#start")
    opened.wait_for_selector("text=Press any of your keys", timeout=120_000)


def record(opened: Page, session: Session) -> list[Image.Image]:
    """A picture of the page after each step."""
    choose, frames, seen = person(), [], -1
    choose(session.game.state, 0)  # compiles
    while len(frames) < RATE * SECONDS:
        if session.game.steps > seen or seen <= 0:
            seen = session.game.steps
            name = choose(session.game.state, seen) or ("ArrowUp" if seen == 0 else None)
            if name is not None:
                opened.keyboard.press(name)
            frames.append(Image.open(io.BytesIO(opened.screenshot())).convert("RGB"))
        opened.wait_for_timeout(5)
    print(f"{len(frames)} pictures of {session.game.steps} steps")
    return frames


if __name__ == "__main__":
    with served() as (games, address), sync_playwright() as tool:
        browser = tool.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        opened = browser.new_page(viewport=SIZE, reduced_motion="reduce")
        opened.goto(address)
        begin(opened)
        frames = record(opened, next(iter(games.sessions.values())))
        browser.close()
    durations = [*[1000 // RATE // 10 * 10] * (len(frames) - 1), LAST]
    write_gif(frames, IMAGES / "play.gif", durations)
