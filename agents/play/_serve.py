"""Running the server, with uvicorn. It is imported only where the extra `[play]` is needed."""

import socket
from collections.abc import Sequence

import uvicorn

from ._app import build_app
from ._hall import Hall

_LARGEST_FRAME = 4096
_SECONDS_TO_END = 5


def serve(hall: Hall, listening: socket.socket, hosts: Sequence[str]) -> None:
    """Serves games until the process is interrupted; they are then ended, and their files written.

    **Arguments:**

    - `hall`: the games.
    - `listening`: the socket.
    - `hosts`: the names under which browsers may reach the server.
    """
    config = uvicorn.Config(
        build_app(hall, hosts),
        log_level="error",
        ws_max_size=_LARGEST_FRAME,
        timeout_graceful_shutdown=_SECONDS_TO_END,
    )
    uvicorn.Server(config).run(sockets=[listening])
