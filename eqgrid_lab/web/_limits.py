"""Limits of what one client can ask for at the same time."""

from collections import Counter
from typing import final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

_REQUESTS = 4
"""How many requests and connections a client may have open for each of its games or places."""


def client_of(scope: Scope) -> str:
    """The network address of a request, which a proxy on the same machine passes on."""
    return (scope.get("client") or ("",))[0]


@final
class Limits:
    """Rejects requests and connections of a client that has too many open."""

    def __init__(self, app: ASGIApp, most_per_client: int):
        """**Arguments:**

        - `app`: the application.
        - `most_per_client`: how many games or places a client may have.
        """
        self._app, self._most = app, _REQUESTS * most_per_client
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = "" if scope["type"] == "lifespan" else client_of(scope)
        if client and self._open[client] >= self._most:
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
