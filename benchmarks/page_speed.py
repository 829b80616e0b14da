"""How fast a page without a server is: when it shows something, when it plays, and each step.

python benchmarks/page_speed.py page.html

Serves a page of `eqgrid export-page` from this machine, without compression, to a headless
Chromium with an empty cache. Times are from the click on the address to the first frame,
and to the first computed step. 300 steps of the partner alone are then computed. The conditions
are those of Chromium's developer tools: a network of 20 Mbit/s and 40 ms, a processor four times
slower.
"""

import dataclasses
import functools
import gzip
import http.server
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, final

import numpy as np
import tyro
from playwright.sync_api import Browser, sync_playwright
from rich.console import Console

from eqgrid_lab.base import UsageError, run_command
from eqgrid_lab.settings import read_flags
from eqgrid_lab.show import print_table

_NETWORK = {
    "offline": False,
    "latency": 40,
    "downloadThroughput": 20e6 / 8,
    "uploadThroughput": 20e6 / 8,
}
_CONDITIONS = {
    "this machine": (None, 1),
    "20 Mbit/s, 40 ms": (_NETWORK, 1),
    "processor 4 times slower": (None, 4),
}
_STEPS = """async (steps) => {
  const { world } = globalThis.eqgrid;
  const { idle, seats } = world.facts;
  const pressed = Int32Array.from(Array.from({ length: seats }, () => idle).flat());
  let now = await world.start(1);
  const taken = [];
  for (let i = 0; i < steps; i += 1) {
    const begun = performance.now();
    now = await world.step(now, pressed, -1);
    taken.push(performance.now() - begun);
    if (now.finished.data[0]) now = await world.start(i);
  }
  return taken;
}"""
_MARKS = """() => performance.getEntriesByType("mark").map((x) => [x.name, x.startTime])"""


@dataclasses.dataclass(frozen=True)
class Config:
    """Measures a page without a server in a headless Chromium."""

    page: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="FILE")]] = Path("page.html")
    """The page."""
    steps: int = 300
    """Number of steps to time."""
    repeats: int = 3
    """How often the page is opened in each condition; the medians are printed."""


@final
class _Files(http.server.SimpleHTTPRequestHandler):
    """A file host that says nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Context manager that serves a folder as any file host would. **Returns:** its address."""
    handler = functools.partial(_Files, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def run(args: Sequence[str]) -> None:
    """Runs the command with these arguments.

    **Raises:** `UsageError` when there is no page or no browser.
    """
    config = read_flags(Config(), args, "benchmarks/page_speed.py")
    if not config.page.is_file():
        raise UsageError(
            f"There is no page {str(config.page)!r}: make one with eqgrid export-page."
        )
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise UsageError("This needs a browser: apt-get install chromium.")
    console = Console()
    content = config.page.read_bytes()
    raw, packed = (len(x) / 1000 for x in (content, gzip.compress(content)))
    console.print(f"{raw:.0f} kB, {packed:.0f} kB with gzip", highlight=False)
    rows = []
    with served(config.page.parent) as address, sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, (network, slower) in _CONDITIONS.items():
            found = [
                _visit(browser, address + config.page.name, network, slower, config.steps)
                for _ in range(config.repeats)
            ]
            rows.append([name, *(f"{x:.2f}" for x in np.median(found, axis=0))])
        browser.close()
    titles = ("", "first frame, s", "first step, s", "step, ms", "95%, ms")
    print_table(console, titles, rows)


def _visit(
    browser: Browser, address: str, network: dict[str, Any] | None, slower: int, steps: int
) -> tuple[float, float, float, float]:
    """**Returns:** the seconds to the first frame and to the first step, and the median and the
    95th percentile of the milliseconds of a step.
    """
    context = browser.new_context()
    page = context.new_page()
    tools = context.new_cdp_session(page)
    tools.send("Emulation.setCPUThrottlingRate", {"rate": slower})
    if network is not None:
        tools.send("Network.enable")
        tools.send("Network.emulateNetworkConditions", network)
    page.goto(address)
    page.wait_for_function("performance.getEntriesByName('first-step').length", timeout=120_000)
    marks = dict(page.evaluate(_MARKS))
    taken = page.evaluate(_STEPS, steps)
    context.close()
    middle, most = np.percentile(taken, [50, 95])
    return marks["first-frame"] / 1000, marks["first-step"] / 1000, float(middle), float(most)


if __name__ == "__main__":
    run_command(run)
