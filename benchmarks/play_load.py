"""How punctual live games are: many people play at once, each with an agent of their own.

python benchmarks/play_load.py --people 100

Starts the server of `eqgrid play` in a process of its own, and connects people from this process,
who press a key now and then. A frame is late if it comes later after the first one than
the rate of the clock says: with `n` steps in between, more than `n` periods. Prints percentiles of
this over all frames after the first seconds, and of the time from a press to the frame after it.
"""

import asyncio
import dataclasses
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import psutil
import websockets
from msgspec import Meta
from rich.console import Console

from eqgrid_lab.base import RunError, reason, run_command
from eqgrid_lab.settings import read_flags
from eqgrid_lab.show import print_table

EQGRID = Path(sys.executable).with_name("eqgrid")
_WARM_UP = 5.0


@dataclasses.dataclass(frozen=True)
class Config:
    """Measures how late the frames of live games come, with people of this machine alone."""

    people: Annotated[int, Meta(ge=1, le=1000)] = 100
    """Number of people who play at once, each with an agent."""
    seconds: Annotated[float, Meta(gt=5, le=120)] = 30.0
    """For how long they play; the first 5 seconds are not counted."""
    layout: str = "ring"
    """Kitchen."""
    ticks_per_second: Annotated[float, Meta(gt=0, le=60)] = 6.0
    """Steps per second."""
    latency: Annotated[float, Meta(ge=0, le=2)] = 0.0
    """Seconds after which people report frames, as if their connection were slow. From 0.05, the
    server computes the next steps of their games, too."""


def run(args: Sequence[str]) -> None:
    """Runs the command with these arguments.

    **Raises:** the errors that `run_command` prints as one sentence, and `RunError` when the
    machine is too slow.
    """
    config = read_flags(Config(), args, "benchmarks/play_load.py")
    with tempfile.TemporaryDirectory() as folder:
        server = _start(config, folder)
        try:
            assert server.stdout is not None
            address = re.findall(r"http://[\d.:]+/", server.stdout.readline())[0]
            late, answers = _measure(config, address)
            used = psutil.Process(server.pid).cpu_times()
        finally:
            server.terminate()
            server.wait()
    rows = [
        ["frames that are late", *_percentiles(late)],
        ["from key to frame", *_percentiles(answers)],
    ]
    console = Console(width=100)
    print_table(console, ("in milliseconds", "median", "95%", "99%", "largest"), rows)
    processor = used.user + used.system
    console.print(f"{config.people} people, {len(late):,} frames in {config.seconds:.0f} s")
    console.print(f"processor time of the server, with its start: {processor:.0f} s")


def _start(config: Config, folder: str) -> subprocess.Popen[str]:
    flags = [
        "--env.layout",
        config.layout,
        "--port",
        "0",
        "--no-browser",
        "--out",
        f"{folder}/games",
    ]
    flags += ["--most-games", str(config.people), "--most-per-client", str(config.people)]
    flags += ["--env.horizon", "100000"]
    flags += ["--ticks-per-second", str(config.ticks_per_second)]
    command = [str(EQGRID), "play", *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _measure(config: Config, address: str) -> tuple[list[float], list[float]]:
    """The results of `_play`. **Raises:** `RunError` when the machine is too slow for them."""
    says = f"{config.people} people cannot play at once on this machine ({{}}): lower --people."
    try:
        late, answers = asyncio.run(_play(config, address))
    except (OSError, websockets.WebSocketException) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise RunError(says.format(why)) from error
    if not (late and answers):
        raise RunError(says.format("too few frames came"))
    return late, answers


async def _play(config: Config, address: str) -> tuple[list[float], list[float]]:
    """How late all frames were, and after which time a press was answered, in seconds."""
    people = [_person(config, address, number) for number in range(config.people)]
    found = await asyncio.gather(*people)
    return [x for late, _ in found for x in late], [x for _, own in found for x in own]


def _open(address: str) -> tuple[str, str]:
    wish = json.dumps({"layout": 0, "seats": ["person", "partner-0"]}).encode()
    with urllib.request.urlopen(f"{address}api/games", wish) as answer:
        made = json.load(answer)
    return made["game"], made["tokens"][0]


async def _person(config: Config, address: str, number: int) -> tuple[list[float], list[float]]:
    game, token = await asyncio.to_thread(_open, address)
    chance = random.Random(number)
    late: list[float] = []
    answers: list[float] = []
    reports: set[asyncio.Task[None]] = set()
    socket_address = f"{address.replace('http', 'ws', 1)}api/games/{game}"
    async with websockets.connect(socket_address) as socket:
        await socket.send(json.dumps({"type": "join", "token": token}))
        first: tuple[float, int] | None = None
        pressed: float | None = None
        end = time.perf_counter() + 600
        while time.perf_counter() < end:
            message = json.loads(await socket.recv())
            now = time.perf_counter()
            if message.get("status") == "waiting":
                await socket.send(json.dumps({"type": "press", "choice": 0, "action": 0}))
            if message["type"] != "frame":
                continue
            shown = {"type": "shown", "frame": message["number"], "after": 0.0, "focus": True}
            report = _send_later(socket, json.dumps(shown), config.latency)
            reports.add(asyncio.create_task(report))
            if message["step"] == 0:
                continue
            if first is None:
                first, end = (now, message["step"]), now + config.seconds
            due = first[0] + (message["step"] - first[1]) / config.ticks_per_second
            if now > first[0] + _WARM_UP:
                late.append(now - due)
                if pressed is not None:
                    answers.append(now - pressed)
            pressed = None
            if chance.random() < 0.5:
                await asyncio.sleep(chance.random() / config.ticks_per_second)
                pressed = time.perf_counter()
                action = chance.choice([0, 1, 2, 3, 5])
                await socket.send(json.dumps({"type": "press", "choice": 0, "action": action}))
        await asyncio.gather(*reports)
    earliest = min(late, default=0.0)  # the first frame itself may have been late
    return [x - min(0.0, earliest) for x in late], answers


async def _send_later(socket: websockets.ClientConnection, text: str, seconds: float) -> None:
    await asyncio.sleep(seconds)
    await socket.send(text)


def _percentiles(seconds: Sequence[float]) -> list[str]:
    found = np.percentile(np.asarray(seconds) * 1000, [50, 95, 99, 100])
    return [f"{x:.1f}" for x in found]


if __name__ == "__main__":
    run_command(run)
