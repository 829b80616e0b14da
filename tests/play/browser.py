"""A headless browser for tests of pages, and a server that plays games for it."""

import contextlib
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from eqgrid_play.games import GameServer
from eqgrid_play.study import StudyRunner
from eqgrid_play.web._app import build_app

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
NEEDS = "needs a browser: apt-get install chromium && pip install -e '.[play-test]'"


@contextlib.contextmanager
def running(server: GameServer, runner: StudyRunner | None = None) -> Iterator[str]:
    """A server on a port of its own, by its address."""
    config = uvicorn.Config(
        build_app(server, ["127.0.0.1"], runner, "secret"), port=0, log_level="error"
    )
    uvicorn_server = uvicorn.Server(config)
    thread = threading.Thread(target=uvicorn_server.run)
    thread.start()
    while not uvicorn_server.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{uvicorn_server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        uvicorn_server.should_exit = True
        thread.join()


@contextlib.contextmanager
def delayed(address: str, trip: float) -> Iterator[str]:
    """The address of a proxy of a server, with this round trip in seconds."""
    proxy, port = Path(__file__).with_name("slow_proxy.py"), address.strip("/").split(":")[-1]
    command = [sys.executable, str(proxy), port, str(trip)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/"
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def chromium():
    """A headless Chromium; without one, the test is skipped."""
    playwright = pytest.importorskip("playwright.sync_api", reason=NEEDS)
    if CHROMIUM is None:
        pytest.skip(NEEDS)
    with playwright.sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def entry(label: str, display: str = "display") -> str:
    """The selector of the text next to a label in the display of a game."""
    return f"#{display} div:has(dt:text-is('{label}')) dd"


def screenshot(page, name: str) -> None:
    """Keeps a picture of a page, to be looked at: in `.pytest_cache/pages/`."""
    folder = Path(__file__).parents[2] / ".pytest_cache" / "pages"
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name}.png")
