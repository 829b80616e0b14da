"""Processes of one `--distributed` run on this machine."""

import contextlib
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from eqgrid_lab.base import _distributed


def free_ports(number: int) -> list[int]:
    """Ports that nobody uses, below those that the system gives to connections in the meantime."""
    found: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(found) < number:
            port = random.SystemRandom().randrange(20_000, 32_000)
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_server(("", port)))
                found.append(port)
    return found


def by_hand(port: int, number: int, process: int) -> dict[str, str]:
    """The environment from which a process learns who it is."""
    values = (f"localhost:{port}", str(number), str(process))
    return dict(zip(_distributed.BY_HAND, values, strict=True))


def run_together(
    folder: Path,
    number: int,
    *flags: object,
    accident: str = "- 0 SIGTERM",
    apart: bool = False,
    who: Callable[[int, int, int], dict[str, str]] = by_hand,
    devices: int = 1,
) -> list[tuple[int, str, str]]:
    """Starts processes of one run, in one folder or in a folder for each.

    **Returns:** the exit code and the output of each.
    """
    (port,) = free_ports(1)
    xla = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
    command = [sys.executable, str(Path(__file__).parent / "one_of_many.py"), "--distributed"]
    command += map(str, flags)
    started = []
    for i in range(number):
        env = os.environ | who(port, number, i) | {"XLA_FLAGS": xla, "ACCIDENT": accident}
        cwd = folder / str(i) if apart else folder
        cwd.mkdir(exist_ok=True)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, cwd=cwd, env=env, **pipes))
    try:
        said = [process.communicate(timeout=400) for process in started]
    finally:
        for process in started:
            process.kill()
    return [(x.returncode, *texts) for x, texts in zip(started, said, strict=True)]
