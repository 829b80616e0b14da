"""The web server of a command: its flags, its address, and serving until a Ctrl-C."""

import contextlib
import dataclasses
import re
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

from msgspec import Meta

from eqgrid.errors import import_optional
from eqgrid_lab.base import (
    StopSignals,
    UsageError,
    as_usage_error,
    keep_compiled_programs,
    reason,
)

from ..games import GameServer
from ..study import StudyRunner


@dataclasses.dataclass(frozen=True)
class ServerFlags:
    """The flags of a web server."""

    host: str = "127.0.0.1"
    """Address to listen at; by default, only this machine can connect."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 8000
    """Port to listen at; 0 for any free port."""
    hosts: tuple[str, ...] = ()
    """Additional host names of the server, such as the name of a reverse proxy."""
    browser: bool = True
    """Open the page in a browser."""
    most_per_client: Annotated[int, Meta(ge=1, le=10_000)] = 50
    """Maximum number of people at one network address at the same time."""


@contextlib.contextmanager
def open_server(flags: ServerFlags) -> Iterator[tuple[str, Callable[..., None]]]:
    """Context manager that opens the port of a web server.

    **Returns:** the address of the server in a browser of this machine, and a function that serves
    until a Ctrl-C. The function has the arguments `server`, `runner` and `admin` of `build_app`,
    and `page`, which is the page to open in a browser.

    **Raises:** `UsageError` when a host name is wrong, the extra is not installed, or the address
    cannot be used.
    """
    _check_hosts(flags.hosts)
    with as_usage_error(of=ImportError):
        app = import_optional("eqgrid_play.web._app", "The server needs uvicorn", "play")
    with contextlib.closing(_listen(flags.host, flags.port)) as listening:
        address = _address(flags.host, listening.getsockname()[1])

        def serve(
            server: GameServer, runner: StudyRunner | None = None, admin: str = "", page: str = ""
        ) -> None:
            keep_compiled_programs()
            names = {flags.host.strip("[]"), "127.0.0.1", "localhost", *flags.hosts}
            if flags.browser:
                threading.Timer(0.5, webbrowser.open, [f"{address}{page}"]).start()
            with StopSignals():  # the server ends its games after a signal, and then repeats it
                app.serve(server, listening, sorted(names), runner, admin)

        yield address, serve


def _check_hosts(hosts: Sequence[str]) -> None:
    """**Raises:** `UsageError` unless all are host names."""
    for host in hosts:
        # A single colon is before a port, and several colons are in an IPv6 address.
        if not re.fullmatch(r"[A-Za-z0-9.:-]+", host) or host.count(":") == 1:
            raise UsageError(
                f"--hosts {host!r:.100} is not a host name without a port, such as "
                "play.example.org."
            )


def _listen(host: str, port: int) -> socket.socket:
    """Opens a listening socket. **Raises:** `UsageError` when the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # so that a browser can connect as soon as the address is shown
    except OSError as error:
        listening.close()
        raise UsageError(
            f"The server cannot listen at {host}:{port} ({reason(error)}): choose another "
            "--port, or --port 0 for any free port."
        ) from error
    return listening


def _address(host: str, port: int) -> str:
    """The address of the server in a browser of this machine."""
    # 0.0.0.0 and :: stand for all addresses of this machine.
    host = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}:{port}/"
