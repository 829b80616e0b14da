"""The web server: routes for pages and games, and the connections of pages, with Starlette."""

import asyncio
import contextlib
import socket
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, final
from urllib.parse import urlsplit

import msgspec
import segno
import uvicorn
from msgspec import Meta
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from agents import CheckpointError
from eqgrid import unwrap
from eqgrid.grid import RandomLayouts
from eqgrid_lab.base import UsageError, reason
from eqgrid_lab.folders import short_name
from eqgrid_lab.show import running_return, with_last

from ..games import (
    SUFFIX,
    WATCHER,
    GameServer,
    Join,
    Page,
    Ping,
    Place,
    Pong,
    Recorded,
    Refusal,
    Screen,
    Session,
    opening_of,
    read_body,
    read_journal,
    read_json,
    read_message,
    recorded,
    replay,
    scenes,
    think,
    to_text,
    whole_frame,
)
from ..study import StudyRunner
from ._study_routes import Answer, Endpoint, study_routes

PAGE = Path(__file__).with_name("page")
_LARGEST_BODY = 4096
_LARGEST_FRAME = 4096
"""The maximum sizes of a request and of a WebSocket message, in bytes."""
_REQUESTS_PER_GAME = 4
"""The maximum number of open requests and connections of a client per game, or per person in a
study.
"""
_MESSAGES_PER_SECOND = 60.0
_MOST_REFUSALS = 50
"""The limits for the messages of a page: their rate, in addition to one for each frame, and the
number of invalid messages.
"""
_SECONDS_TO_END = 5
"""The time in which connections must end when the server stops."""
_DEFAULT_PORTS = {"http": 80, "https": 443}
"""The port of an address without a port, by its scheme."""
_CLOSED_BY_BROWSER = (1000, 1001)
"""The codes with which a browser ends the connection of a page that is closed or reloaded."""
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def serve(
    server: GameServer,
    listening: socket.socket,
    hosts: Sequence[str],
    runner: StudyRunner | None = None,
    admin: str = "",
) -> None:
    """Serves games until the process is interrupted. The server then ends all games and writes
    their files.

    **Arguments:**

    - `server`: the games.
    - `listening`: the socket.
    - `hosts`, `runner`, `admin`: as for `build_app`.
    """
    config = uvicorn.Config(
        build_app(server, hosts, runner, admin),
        log_level="error",
        ws_max_size=_LARGEST_FRAME,
        # Frames are short, and compressing them took a sixth of the server's time.
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=_SECONDS_TO_END,
    )
    uvicorn.Server(config).run(sockets=[listening])


def build_app(
    server: GameServer, hosts: Sequence[str], runner: StudyRunner | None = None, admin: str = ""
) -> Starlette:
    """Builds the Starlette application.

    **Arguments:**

    - `server`: the games.
    - `hosts`: the host names that are accepted, which protects against requests from other sites.
    - `runner`: a study, whose participants play only the games of its plan; `None` to let people
        choose games.
    - `admin`: the token of the experimenter.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await (server if runner is None else runner).close()

    routes: list[BaseRoute] = [
        Mount("/page", StaticFiles(directory=PAGE)),
        WebSocketRoute("/api/games/{game}", _socket),
    ]
    if runner is not None:
        routes += study_routes(runner, admin, _endpoint, _page)
    else:  # without a study, players choose their games
        routes += [
            Route("/", _page("index.html")),
            Route("/api/menu", _endpoint(_menu)),
            Route("/api/layouts/{number:int}", _endpoint(_layout)),
            Route("/api/layouts/{number:int}/partners", _endpoint(_partners)),
            Route("/api/layouts/{number:int}/picture.png", _endpoint(_picture)),
            Route("/api/qr", _endpoint(_qr), methods=["POST"]),
            Route("/api/games", _endpoint(_open), methods=["POST"]),
            Route("/api/games/{game}/again", _endpoint(_again), methods=["POST"]),
            Route("/api/games/{game}/video.gif", _endpoint(_video)),
            Route("/api/games/{game}/scenes", _endpoint(_scenes)),
            Route("/api/games/{game}/thoughts/{policy:int}", _endpoint(_thoughts)),
            Route("/api/games/{game}/record", _endpoint(_record)),
            Route("/api/recordings", _endpoint(_recordings)),
            Route("/api/recordings/{number:int}/scenes", _endpoint(_scenes)),
            Route("/api/recordings/{number:int}/thoughts/{policy:int}", _endpoint(_thoughts)),
        ]
    guard = Middleware(_Guard, hosts=frozenset(x.lower() for x in hosts))
    limits = Middleware(_Limits, most_per_client=server.most_per_client)
    app = Starlette(routes=routes, middleware=[guard, limits], lifespan=lifespan)
    app.state.server = server
    return app


@final
class _Guard:
    """Rejects requests from other sites: the `Host` header must be one of the hosts, and the
    `Origin`, if there is one, must match it. Responses have security headers.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str]):
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        if scope["type"] == "lifespan" or self._is_allowed(Headers(scope=scope)):
            await self._app(scope, receive, send_with_headers)
        elif scope["type"] == "websocket":
            await WebSocket(scope, receive, send).close(1008)
        else:
            text = "The server does not accept this host name: see --hosts in its --help."
            await _error(text, 400)(scope, receive, send_with_headers)

    def _is_allowed(self, headers: Headers) -> bool:
        try:
            host = urlsplit(f"//{headers.get('host', '')}")
            if "origin" not in headers:
                return host.hostname in self._hosts
            origin = urlsplit(headers["origin"])
            # Browsers leave out the default port, but some proxies add it.
            default = _DEFAULT_PORTS.get(origin.scheme)
            ports = host.port or default, origin.port or default
        except ValueError:
            return False
        is_same = host.hostname == origin.hostname and ports[0] == ports[1]
        return host.hostname in self._hosts and is_same and default is not None


@final
class _Limits:
    """Rejects requests and connections of a client that has too many open ones."""

    def __init__(self, app: ASGIApp, most_per_client: int):
        self._app, self._max_open = app, _REQUESTS_PER_GAME * most_per_client
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Behind a proxy on the same machine, uvicorn sets the address that the proxy reports.
        client, _ = scope.get("client") or ("", 0)
        if client and self._open[client] >= self._max_open:
            if scope["type"] == "websocket":
                await WebSocket(scope, receive, send).close(1013)
            else:
                text = "Your network address has too many requests open. Please try again."
                await _error(text, 429)(scope, receive, send)
            return
        self._open[client] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open[client] -= 1
            if not self._open[client]:
                del self._open[client]


def _endpoint(answer: Answer) -> Endpoint:
    """An endpoint that turns expected errors into responses with one sentence."""

    async def endpoint(request: Request) -> Response:
        try:
            return await answer(request.app.state.server, request)
        except (UsageError, CheckpointError, msgspec.MsgspecError) as error:
            return _error(str(error), 400)
        except ClientDisconnect:
            return Response(status_code=400)  # the client is gone, so the response is discarded
        except OSError as error:
            return _error(f"The server cannot read or write a file: {reason(error)}.", 503)
        except sqlite3.Error as error:
            return _error(f"The database of the study failed: {error}.", 503)

    return endpoint


def _error(text: str, status: int) -> Response:
    return JSONResponse({"text": text}, status)


def _page(name: str) -> Endpoint:
    """An endpoint that returns one of the HTML files."""

    async def endpoint(_: Request) -> Response:
        return FileResponse(PAGE / name)

    return endpoint


async def _menu(server: GameServer, _: Request) -> Response:
    layouts = server.menu.layouts if server.most_games else ()
    return JSONResponse({"layouts": [short_name(layout) for layout in layouts]})


async def _layout(server: GameServer, request: Request) -> Response:
    """A layout with its rules and its first picture, as the person in a seat sees it."""
    place = await _place(server, request)
    wanted = request.query_params.get("seat", "")
    seat = int(wanted) if wanted in map(str, range(place.env.num_agents)) else WATCHER
    await asyncio.to_thread(lambda: (place.example, place.rule_pictures))
    opening = msgspec.to_builtins(opening_of(place, [], 0, server.ticks_per_second))
    if isinstance(unwrap(place.world), RandomLayouts):
        opening["notes"].append("Each game has another layout; this picture is an example.")
    nothing = [0.0] * place.env.num_agents
    whole = whole_frame(place.drawn_layout, place.example, 0, nothing, server.tiles, people=[seat])
    frame = Screen().update(whole, server.tiles, {}, seat)
    facts = {"seats": place.env.num_agents, "frame": msgspec.to_builtins(frame)}
    return JSONResponse(opening | facts)


async def _partners(server: GameServer, request: Request) -> Response:
    """The partners for a layout, without partners of the same name. The first call takes long."""
    layout = _layout_of(server, request.path_params["number"])
    offers = await asyncio.to_thread(server.menu.offers, layout)
    keys: dict[str, str] = {}
    for key, offer in offers.items():
        keys.setdefault(offer.words, key)
    return JSONResponse({"offers": [{"key": key, "name": words} for words, key in keys.items()]})


async def _picture(server: GameServer, request: Request) -> Response:
    """A small picture of a layout."""
    place = await _place(server, request)
    picture = await asyncio.to_thread(lambda: place.small_picture)
    return Response(picture, media_type="image/png")


async def _place(server: GameServer, request: Request) -> Place:
    layout = _layout_of(server, request.path_params["number"])
    return await asyncio.to_thread(server.menu.place, layout)


async def _qr(_: GameServer, request: Request) -> Response:
    """The QR code of a link that a page sends, as an address that contains the picture."""
    content = await read_body(request.stream(), _LARGEST_BODY)
    link = read_json(content or b"", msgspec.json.Decoder(Annotated[str, Meta(max_length=200)]))
    picture = await asyncio.to_thread(lambda: segno.make(link).png_data_uri(scale=5))
    return JSONResponse({"picture": picture})


@final
class _NewGame(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The request of a page to open a game; see `GameServer.open`."""

    layout: Annotated[int, Meta(ge=0, le=10_000)]
    seats: Annotated[list[Annotated[str, Meta(max_length=40)]], Meta(max_length=64)]


async def _open(server: GameServer, request: Request) -> Response:
    """Opens a game, and returns the token of each seat of a person. The page keeps one token, and
    the other tokens are for invited people.
    """
    content = await read_body(request.stream(), _LARGEST_BODY)
    if content is None:
        return _error("The request for a new game is too large.", 413)
    wanted = read_json(content, msgspec.json.Decoder(_NewGame))
    layout = _layout_of(server, wanted.layout)
    client = request.client.host if request.client else ""
    name = await server.open(layout, wanted.seats, client=client)
    session = server.sessions[name]
    tokens = {"tokens": session.tokens, "watch": session.watch_token}
    return JSONResponse({"game": name, **tokens}, 201)


async def _again(server: GameServer, request: Request) -> Response:
    """Opens the next game with the same seats, and returns the token of the requesting seat."""
    _, seat = _over_game(server, request)
    if seat == WATCHER:
        raise UsageError("Only people who have played can play again.")
    name = await server.again(request.path_params["game"])
    return JSONResponse({"game": name, "token": server.sessions[name].tokens[seat]})


async def _video(server: GameServer, request: Request) -> Response:
    """The video of a game that is over, with the score of the requesting person."""
    session, path = _played_game(server, request)
    _, seat = _over_game(server, request)

    def video() -> bytes:
        recording = read_journal(path)
        episode, last = replay(session.place, recording)
        reward = recording.reward
        own = reward.mean(axis=1) if seat == WATCHER else reward[:, seat]
        states = with_last(episode.state, last)
        draw = session.place.settings.draw
        return draw(session.place.world, states, running_return(own))

    return Response(await asyncio.to_thread(video), media_type="image/gif")


async def _record(server: GameServer, request: Request) -> Response:
    """The journal of a game that is over."""
    _, path = _played_game(server, request)
    return FileResponse(path, filename=path.name, media_type="application/jsonl")


async def _recordings(server: GameServer, _: Request) -> Response:
    """The games to watch."""
    games = [
        {
            "title": x.place.title,
            "seats": x.seats,
            "scores": x.scores,
            "steps": len(x.action),
            "started": x.started,
        }
        for x in server.recorded
    ]
    return JSONResponse({"games": games})


async def _scenes(server: GameServer, request: Request) -> Response:
    """All frames of a game, and the policies whose predictions can be shown."""

    def answer() -> bytes:
        game = _game_to_watch(server, request)
        policies = [offer.words for offer in server.policies(game.place)]
        return msgspec.json.encode({**scenes(game, server.tiles), "policies": policies})

    return Response(await asyncio.to_thread(answer), media_type="application/json")


async def _thoughts(server: GameServer, request: Request) -> Response:
    """The action probabilities and values of a policy at each step of a game."""

    def answer() -> bytes:
        game = _game_to_watch(server, request)
        offers = server.policies(game.place)
        number = request.path_params["policy"]
        if number >= len(offers):
            raise UsageError("There is no such policy.")
        return msgspec.json.encode(think(game, offers[number].partner))

    return Response(await asyncio.to_thread(answer), media_type="application/json")


def _game_to_watch(server: GameServer, request: Request) -> Recorded:
    """The game of a request: a recording by number, or a game of this server that is over.

    **Raises:** `UsageError` when there is no such game.
    """
    number = request.path_params.get("number")
    if number is None:
        session, path = _played_game(server, request)
        return recorded(path.stem, session.place, read_journal(path))
    if number >= len(server.recorded):
        raise UsageError("There is no such game.")
    return server.recorded[number]


def _played_game(server: GameServer, request: Request) -> tuple[Session, Path]:
    """A game that is over and has steps, and the path of its journal.

    **Raises:** `UsageError` as `_over_game`, and when the game has no steps.
    """
    session, _ = _over_game(server, request)
    if not session.game.steps:
        raise UsageError("This game has no steps.")
    return session, server.folder / f"{request.path_params['game']}{SUFFIX}"


def _over_game(server: GameServer, request: Request) -> tuple[Session, int]:
    """A game that is over, and the seat of the request's token in this game.

    **Raises:** `UsageError` when no game has this token, or the game is still running.
    """
    session = server.sessions.get(request.path_params["game"])
    seat = None if session is None else session.seat_of(request.query_params.get("token", ""))
    if session is None or seat is None:
        raise UsageError("There is no such game, or it is not yours.")
    if not session.over.is_set():
        raise UsageError("The game is not over yet.")
    return session, seat


def _layout_of(server: GameServer, number: int) -> str:
    if number >= len(server.menu.layouts):
        raise UsageError("There is no such layout.")
    return server.menu.layouts[number]


async def _socket(socket: WebSocket) -> None:
    """The connection of a page to its game."""
    server: GameServer = socket.app.state.server
    await socket.accept()
    session, page = await _join(server, socket)
    if session is None or page is None:
        return
    writer = asyncio.create_task(_write(socket, page))
    why = "lost"
    try:
        why = await _read(socket, session, page)
    except (WebSocketDisconnect, RuntimeError):
        pass
    finally:
        session.disconnect(page, why)
        await writer


async def _join(server: GameServer, socket: WebSocket) -> tuple[Session | None, Page | None]:
    """Reads the first message, and connects the page to its game."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        session = server.sessions.get(socket.path_params["game"])
        try:
            first = read_message(await asyncio.wait_for(socket.receive_text(), 10))
            seat = session.seat_of(first.token) if session and isinstance(first, Join) else None
        except (msgspec.MsgspecError, TimeoutError, KeyError):
            seat = None
        if session is not None and seat is not None:
            return session, session.connect(seat)
        await socket.send_text(to_text(Refusal("There is no such game, or it is not yours.")))
        await socket.close(1008)
    return None, None


async def _write(socket: WebSocket, page: Page) -> None:
    """Sends queued messages until the page is closed."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError, OSError):
        while (text := await page.waiting.get()) is not None:
            await socket.send_text(text)
        await socket.close()


async def _read(socket: WebSocket, session: Session, page: Page) -> str:
    """Reads messages until the connection ends. A `Refusal` answers each message that is invalid or
    exceeds the rate limit. A client is disconnected after `_MOST_REFUSALS` of them.

    **Returns:** why the connection ended; see `Conduct.absent`.
    """
    # A token bucket: each message costs 1, and the allowance refills with time.
    rate = _MESSAGES_PER_SECOND + 1 / session.period
    refusals, allowance, before = 0, rate, time.monotonic()
    while refusals < _MOST_REFUSALS:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return "closed" if message.get("code") in _CLOSED_BY_BROWSER else "lost"
        session.hear(page)
        now = time.monotonic()
        allowance = min(rate, allowance + (now - before) * rate) - 1
        before = now
        try:
            if allowance < 0:
                raise UsageError("The page sent too many messages.")
            found = read_message(message.get("text") or message.get("bytes") or b"")
        except (msgspec.MsgspecError, UsageError) as error:
            refusals += 1
            page.post(Refusal(f"This message has no effect: {error}"))
            continue
        if isinstance(found, Ping):
            page.post(Pong(found.sent))
        else:
            session.receive(page, found)
    return "lost"
