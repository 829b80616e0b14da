"""Limits on the simultaneous requests of a client."""

from collections import Counter
from typing import final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

_REQUESTS_PER_GAME = 4
"""The maximum number of open requests and connections of a client per game, or per person in a
study.
"""


def client_of(scope: Scope) -> str:
    """The network address of a request; behind a proxy on the same machine, the address that the
    proxy reports.
    """
    return (scope.get("client") or ("",))[0]


@final
class Limits:
    """Middleware that rejects requests and connections of a client with too many open ones."""

    def __init__(self, app: ASGIApp, most_per_client: int):
        """**Arguments:**

        - `app`: the application.
        - `most_per_client`: the maximum number of games, or of people in a study, of a client.
        """
        self._app, self._max_open = app, _REQUESTS_PER_GAME * most_per_client
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = "" if scope["type"] == "lifespan" else client_of(scope)
        if client and self._open[client] >= self._max_open:
            if scope["type"] == "websocket":
                await WebSocket(scope, receive, send).close(1013)
            else:
                text = "Your network address has too many requests open. Please try again."
                await JSONResponse({"text": text}, 429)(scope, receive, send)
            return
        self._open[client] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open[client] -= 1
            if not self._open[client]:
                del self._open[client]
