"""Running the server, with uvicorn. It is imported only where the extra `[play]` is needed."""

import socket
from collections.abc import Sequence

import uvicorn

from ..play import Hall
from ..study import Course
from ._app import build_app

_LARGEST_FRAME = 4096
_SECONDS_TO_END = 5


def serve(
    hall: Hall,
    listening: socket.socket,
    hosts: Sequence[str],
    course: Course | None = None,
    admin: str = "",
) -> None:
    """Serves games until the process is interrupted; they are then ended, and their files written.

    **Arguments:**

    - `hall`: the games.
    - `listening`: the socket.
    - `hosts`: the names under which browsers may reach the server.
    - `course`, `admin`: a study, and the token of who runs it.
    """
    config = uvicorn.Config(
        build_app(hall, hosts, course, admin),
        log_level="error",
        ws_max_size=_LARGEST_FRAME,
        timeout_graceful_shutdown=_SECONDS_TO_END,
    )
    uvicorn.Server(config).run(sockets=[listening])
