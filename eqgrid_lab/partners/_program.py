"""Programs as partners: in each step, a program outside of this process gets a request as a line of
JSON, and answers with an action.

JAX supports only pure callbacks in the loops of games. A batch may contain games that have ended:
there, `Program.act` returns the last action again, without a request.
"""

import contextlib
import functools
import json
import operator
import os
import queue
import shlex
import socket
import subprocess
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from eqgrid import AbstractEnv, AbstractPartner, MultiDiscrete, PartnerInput, split_mask, unwrap
from eqgrid.envs.overcooked_v2 import PermutedFeatures
from eqgrid.grid import (
    AGENT_CHARACTERS,
    AbstractGridWorld,
    Action,
    Direction,
    Features,
    Kinds,
    LookCodes,
    Move,
    PlacedWorld,
    RandomLayouts,
    Rotate,
    Say,
    Stay,
    Strafe,
    Use,
    by_choice,
    look_codes,
)

from ..base import RunError, UsageError, reason, warn

_STARTING_SECONDS = 30.0
"""The shortest time limit of the first step, since a program may load libraries and models."""
_ENDING_SECONDS = 2.0
_MOST_SILENT = 10
"""After this number of consecutive steps without any answer in time, a program is given up."""
_LONGEST_LINE, _MOST_LINES = 2**20, 10_000
"""The maximum size and number of lines that a program may send before they are read."""

_Key: TypeAlias = tuple[str, int]
"""The game and the step of a request."""
_Reply: TypeAlias = tuple[str | None, float]
"""A reply, or `None` if there was none in time, and how long it took in seconds."""


@final
class _Connection:
    """The lines to and from a process or a server. Threads read and write them, so that a program
    that does not read or write cannot block a game.

    **Raises:** `OSError` when the program cannot be started or reached.
    """

    def __init__(self, source: str | tuple[str, int]):
        self._received: queue.Queue[bytes] = queue.Queue(_MOST_LINES)
        self._unsent: queue.Queue[bytes] = queue.Queue()
        self._process = self._socket = None
        with contextlib.ExitStack() as resources:
            self._errors = resources.enter_context(tempfile.TemporaryFile())
            if isinstance(source, str):
                words = shlex.split(source) if os.name == "posix" else source
                pipe, errors = subprocess.PIPE, self._errors
                self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=errors)
                streams = self._process.stdout, self._process.stdin
            else:
                self._socket = socket.create_connection(source, timeout=_STARTING_SECONDS)
                self._socket.settimeout(None)
                streams = self._socket.makefile("rb"), self._socket.makefile("wb")
            resources.pop_all()
        for task, stream in zip((self._read, self._write), streams, strict=True):
            threading.Thread(target=task, args=(stream,), daemon=True).start()

    def _read(self, stream: BinaryIO) -> None:
        with contextlib.suppress(OSError), stream:
            while line := stream.readline(_LONGEST_LINE):
                self._received.put(line)
        self._received.put(b"")

    def _write(self, stream: BinaryIO) -> None:
        with contextlib.suppress(OSError), stream:
            while lines := self._unsent.get():
                stream.write(lines)
                stream.flush()

    def send(self, lines: str) -> None:
        """Sends lines."""
        self._unsent.put(lines.encode())

    def receive(self, seconds: float) -> str | None:
        """The next line, or `None` if there is none within some seconds.

        **Raises:** `ConnectionError` when the program has ended the connection.
        """
        try:
            line = self._received.get(timeout=seconds)
        except queue.Empty:
            return None
        if not line:
            raise ConnectionError
        return line.decode(errors="replace")

    def ending(self) -> str:
        """How the program ended the connection, such as `ended with exit code 1`."""
        if self._process is None:
            return "closed the connection"
        try:
            code = self._process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            return "closed its standard output"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f"ended with exit code {code}" + (f" ({lines[-1].strip()})" if lines else "")

    def close(self) -> None:
        """Closes the connection, and ends the process unless it ends by itself."""
        self._unsent.put(b"")
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDING_SECONDS)
            self._process.kill()
            self._process.wait()
        self._errors.close()


class _Words(NamedTuple):
    """The names in a world.

    - `actions`: the actions of each choice.
    - `is_list`: whether an action is a list with an entry for each choice.
    - `stay`: the index of the default action in each choice.
    - `spoken`: the words that agents can say.
    - `features`: the names of the numbers in an observation, or `None` if they have no names.
    """

    actions: list[list[str]]
    is_list: bool
    stay: list[int]
    spoken: list[str]
    kinds: Kinds
    features: tuple[str, ...] | None

    @classmethod
    def of(cls, grid: AbstractGridWorld, text: bool) -> Self:
        """The names in a grid world."""
        choices, view = by_choice(grid.actions), grid.observation
        return cls(
            actions=[[_name(action) for action in choice] for choice in choices],
            is_list=isinstance(grid.action_space, MultiDiscrete),
            stay=[choice.index(Stay()) if Stay() in choice else -1 for choice in choices],
            spoken=[x.word for choice in choices for x in choice if isinstance(x, Say)],
            kinds=grid.layout.kinds,
            features=view.names(grid.layout)
            if not text and isinstance(view, Features | PermutedFeatures)
            else None,
        )


class _View(NamedTuple):
    """The inputs of a request. In a batch of games, all arrays have further leading axes.

    - `game`: the number of the game in this seat; 0 in its first step.
    - `asks`: whether the agent acts in this step.
    - `allowed`: whether each action of each choice is allowed.
    - `features`: the observation, if its numbers have names.
    - `tiles`, `looks`: the grid, see `Layout` and `look_codes`.
    - `said`: as in `Bodies`.
    """

    seat: Int[Array, ""]
    game: Int[Array, ""]
    step: Int[Array, ""]
    asks: Bool[Array, ""]
    allowed: Bool[Array, " options"]
    features: Float[Array, " features"] | None
    tiles: Int[Array, "height width"]
    looks: LookCodes
    said: Int[Array, " agents"] | None


@final
class Program:
    """A program that chooses the actions of `ProgramPartner`s: a process that reads its standard
    input and writes its standard output, or a server on a local socket.

    Each request is a line of JSON, and so is each answer, such as
    `{"game": "0-1", "step": 7, "action": "north"}`. An answer without `game` and `step` belongs to
    the oldest request without an answer. If an answer is late or has no known action, the agent
    stays. If the program ends, or answers nothing in time in ten steps in a row, the agent stays
    until the games are over. Then `check` raises a `RunError`, as does the end of a `with` block.
    Use the results of the games inside of this block, since JAX may still compute them.

    - `seconds`: how long to wait for the next answer in a step.
    - `requests`, `late`, `unusable`: the number of requests, of requests without an answer in time,
        and of requests whose answer had no known action.
    """

    def __init__(
        self,
        source: str | tuple[str, int] | Path,
        *,
        seconds: float = 5.0,
        transcript: Path | None = None,
    ):
        """**Arguments:**

        - `source`: the command that starts the program; the host and the port of a server; or the
            transcript of earlier games, which plays the same games again in the same calls of
            `play` or `evaluate` with the same keys.
        - `seconds`: how long to wait for the next answer in a step; at least half a minute in the
            first step.
        - `transcript`: a new file for all requests and answers, each written as it happens; `None`
            to write nothing. A full disk prints a warning.

        **Raises:** `UsageError` when the program cannot be started or reached, when the file in
        `source` is not a transcript, or when the new transcript exists or cannot be written.
        """
        self.name = f"{source[0]}:{source[1]}" if isinstance(source, tuple) else str(source)
        self.requests, self.late, self.unusable = 0, 0, 0
        self.seconds, self._silent, self._error = seconds, 0, ""
        self._open: dict[_Key, None] = {}  # the requests without an answer, the oldest first
        self._turns: dict[tuple[int, int], tuple[_View, list[int]]] = {}  # by seat and game
        self._games: Counter[int] = Counter()  # the number of games in each seat
        self._recorded: dict[_Key, dict[str, Any]] | None = None  # the rows of a transcript
        self._lock, self._connection, self._transcript = threading.Lock(), None, None
        try:
            with contextlib.ExitStack() as resources:
                if isinstance(source, Path):
                    rows = [json.loads(line) for line in source.read_text().splitlines()]
                    self._recorded = {_key(row["request"]): row for row in rows}
                else:
                    self._connection = _Connection(source)
                    resources.callback(self._connection.close)
                self._resources = resources.pop_all()
            if transcript is not None:
                self.record(transcript)
        except (OSError, ValueError, LookupError, TypeError) as error:
            why = error if isinstance(error, OSError) else "it has an unknown format"
            raise UsageError(f"The program {self.name!r} cannot be used: {why}.") from error

    def record(self, transcript: Path) -> None:
        """Writes all further requests and answers into a new file, each as it happens. A full disk
        prints a warning.

        **Raises:** `OSError` when the file exists or cannot be written.
        """
        self._transcript = self._resources.enter_context(transcript.open("x"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        if kind is None:
            self.check()

    def close(self) -> None:
        """Ends the program or the connection, and closes the transcript."""
        with self._lock, contextlib.suppress(OSError):  # of a full disk
            self._resources.close()
        self._recorded = self._connection = None

    def check(self) -> None:
        """**Raises:** `RunError` if the program ended or gave no answers, or if the games differ
        from the transcript in `source`.
        """
        if self._error:
            raise RunError(self._error)

    @property
    def summary(self) -> str:
        """A sentence about the number of requests, and about requests without a usable answer."""
        return (
            f"{self.name} got {self.requests} requests. The agent stayed in {self.late} steps "
            f"without an answer in time, and in {self.unusable} steps without a known action."
        )

    def act(
        self, words: _Words, views: _View
    ) -> tuple[Int[np.ndarray, "..."], Int[np.ndarray, "..."]]:
        """The callback of a batch of games.

        **Returns:** the index of the agent's action in each choice, and the number of each game.

        **Raises:** `RunError` when the program is closed.
        """
        views = jax.tree.map(np.array, views)  # copies, since XLA reuses the memory
        batch = np.shape(views.seat)
        asks, turns, asked = views.asks.reshape(-1), [], {}
        with self._lock:
            for i in np.ndindex(batch):
                view = jax.tree.map(lambda x, i=i: x[i], views)
                turn = int(view.seat), int(view.game)
                if view.asks and not view.game:
                    self._games[turn[0]] += 1
                    turn = turn[0], self._games[turn[0]]
                before, _ = self._turns.get(turn, (None, None))
                if view.asks and (before is None or before.step != view.step):
                    asked[turn] = view, _request(words, view, turn[1], before)
                turns.append(turn)
            answers = self._ask([request for _, request in asked.values()])
            for (turn, (view, _)), answer in zip(asked.items(), answers, strict=True):
                action = words.stay if answer is None else map(list.index, words.actions, answer)
                self._turns[turn] = view, list(action)
            actions = [
                self._turns[turn][1] if does else words.stay
                for turn, does in zip(turns, asks, strict=True)
            ]
        shape = (*batch, -1) if words.is_list else batch
        games = np.asarray([game for _, game in turns], np.int32)
        return np.asarray(actions, np.int32).reshape(shape), games.reshape(batch)

    def _ask(self, requests: list[dict[str, Any]]) -> list[list[str] | None]:
        """The names of the chosen actions for each request, or `None`."""
        if self._error or not requests:
            replies = [(None, 0.0)] * len(requests)
        elif self._recorded is not None:
            replies = [self._recall(self._recorded, request) for request in requests]
        elif self._connection is not None:
            replies = self._exchange(self._connection, requests)
        else:
            raise RunError(f"{self.name!r} is closed: use the results of games before closing it.")
        return [self._note(*pair) for pair in zip(requests, replies, strict=True)]

    def _exchange(self, connection: _Connection, requests: list[dict[str, Any]]) -> list[_Reply]:
        """Sends requests to the program, and waits for its replies."""
        waiting = {_key(request): i for i, request in enumerate(requests)}
        replies: list[_Reply] = [(None, 0.0)] * len(requests)
        self._open.update(dict.fromkeys(waiting))
        connection.send("".join(json.dumps(request) + "\n" for request in requests))
        limit = self.seconds if self.requests else max(self.seconds, _STARTING_SECONDS)
        start = heard = time.monotonic()
        while waiting and (left := heard + limit - time.monotonic()) > 0:
            try:
                line = connection.receive(left)
            except ConnectionError:
                self._error = f"The program {self.name!r} {connection.ending()}."
                return replies
            reply = _parse(line or "")
            game, step = reply.get("game"), reply.get("step")
            fits = (x for x in self._open if game in (None, x[0]) and step in (None, x[1]))
            if line is None or (key := next(fits, None)) is None:
                continue
            del self._open[key]
            if key in waiting:  # otherwise, it is a late answer to an earlier request
                heard = time.monotonic()
                replies[waiting.pop(key)] = line, round(heard - start, 4)
        self._silent = self._silent + 1 if heard == start else 0
        if self._silent == _MOST_SILENT:
            self._error = (
                f"The program {self.name!r} answered nothing within {self.seconds:g} seconds in "
                f"{_MOST_SILENT} steps in a row."
            )
        return replies

    def _recall(self, recorded: dict[_Key, dict[str, Any]], request: dict[str, Any]) -> _Reply:
        """The reply in a transcript."""
        row = recorded.get(_key(request), {})
        if row.get("request") == request:
            return row["reply"], row["seconds"]
        self._error = self._error or (
            f"Step {request['step']} of game {request['game']!r} is not as in the transcript "
            f"{self.name!r}: play the same games with the same keys."
        )
        return None, 0.0

    def _note(self, request: dict[str, Any], reply: _Reply) -> list[str] | None:
        """Counts a reply, and writes it into the transcript. **Returns:** the chosen actions."""
        text, seconds = reply
        chosen = None if text is None else _chosen(text, request["actions"])
        self.requests += 1
        self.late += text is None
        self.unusable += text is not None and chosen is None
        row = {"request": request, "reply": text, "action": chosen, "seconds": seconds}
        try:
            if self._transcript is not None:
                self._transcript.write(json.dumps(row) + "\n")
                self._transcript.flush()
        except OSError as error:
            self._transcript = None
            warn(f"The transcript of {self.name!r} is incomplete: {reason(error)}.")
        return chosen


def _key(request: dict[str, Any]) -> _Key:
    return request["game"], request["step"]


def _parse(line: str) -> dict[str, Any]:
    """A reply; empty unless it is a JSON object."""
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return reply if isinstance(reply, dict) else {}


def _chosen(reply: str, actions: list[Any]) -> list[str] | None:
    """The action of each choice, or `None` if a reply has no known action."""
    action = _parse(reply).get("action")
    choices = [actions] if all(isinstance(x, str) for x in actions) else actions
    chosen: list[Any] = action if isinstance(action, list) else [action]
    fits = len(chosen) == len(choices) and all(map(operator.contains, choices, chosen))
    return chosen if fits else None


def _request(words: _Words, view: _View, number: int, before: _View | None) -> dict[str, Any]:
    """The request in a step of the game with this number, with the state before the last step."""
    allowed = iter(view.allowed.tolist())
    actions = [[name for name in choice if next(allowed)] for choice in words.actions]
    if words.features is None or view.features is None:
        observation = _describe(words.kinds, view)
    else:
        numbers = (round(x, 6) for x in view.features.tolist())
        observation = dict(zip(words.features, numbers, strict=True))
    return {
        "game": f"{view.seat}-{number}",
        "step": int(view.step),
        "seat": int(view.seat),
        "actions": actions if words.is_list else actions[0],
        "observation": observation,
        "changes": [] if before is None else _changes(words, before, view),
    }


def _describe(kinds: Kinds, view: _View) -> dict[str, Any]:
    """The grid as text with a legend, and all agents and objects in it."""
    looks, (height, width) = view.looks, view.tiles.shape
    characters, legend, objects, agents = [], {}, [], []
    for place, tile in enumerate(kinds.tiles[number] for number in view.tiles.ravel()):
        name, character = tile.name, tile.chars[0]
        if (found := kinds.read(int(looks.lying[place]))) is not None:
            lying, timer = _object(kinds, looks.lying[place]), int(looks.timer[place])
            objects.append(_place(place, width) | {"object": lying, "on": name, "timer": timer})
            if (own := found[0].chars[found[1]]) is not None:
                name, character = lying, own
        characters.append(character)
        legend[character] = name
    for seat, place in enumerate(looks.place.tolist()):
        if place >= 0:
            characters[place] = AGENT_CHARACTERS[seat : seat + 1] or "+"
            legend[characters[place]] = f"seat {seat}"
            facing = Direction(int(looks.direction[seat])).name.lower()
            own = {"facing": facing, "holds": _object(kinds, looks.held[seat])}
            agents.append({"seat": seat} | _place(place, width) | own)
    rows = ["".join(characters[row * width : (row + 1) * width]) for row in range(height)]
    return {"grid": "\n".join(rows), "legend": legend, "agents": agents, "objects": objects}


def _place(place: int, width: int) -> dict[str, Any]:
    return {"row": place // width, "column": place % width}


def _object(kinds: Kinds, code: Any) -> str:
    """The name of an object, with the number of its variant if there are several."""
    kind, variant = kinds.read(int(code)) or (None, 0)
    if kind is None:
        return "nothing"
    return kind.name if kind.variants == 1 else f"{kind.name} {variant}"


def _changes(words: _Words, before: _View, now: _View) -> list[str]:
    """The events since the last step; only the agent's own events if it observes features."""
    kinds, old, new, found = words.kinds, before.looks, now.looks, []
    sees_all = words.features is None
    for seat in range(len(new.place)) if sees_all else [int(now.seat)]:
        if old.held[seat] != new.held[seat]:
            found.append(f"seat {seat} now holds {_object(kinds, new.held[seat])}")
        if now.said is not None and now.said[seat]:
            found.append(f"seat {seat} said {words.spoken[now.said[seat] - 1]}")
    for place in np.flatnonzero(old.lying != new.lying).tolist() if sees_all else ():
        row, column = divmod(place, now.tiles.shape[1])
        found.append(f"row {row}, column {column} now has {_object(kinds, new.lying[place])}")
    return found


def _name(action: Action) -> str:
    match action:
        case Move(direction):
            return direction.name.lower()
        case Rotate(side):
            return f"turn {side}"
        case Strafe(side):
            return f"step {side}"
        case Use(name):
            return name
        case Say(word):
            return f"say {word}"
    return type(action).__name__.lower()  # forward and stay


@final
class ProgramPartner(AbstractPartner):
    """A partner whose actions a `Program` chooses, for grid worlds.

    One program can act in many seats and games at once. Each request contains the allowed actions,
    the observation and the changes since the last step. If the observation of the world is
    `Features`, the program gets these numbers by name; otherwise, and with `text`, it gets the
    whole grid as text.

    The program gets no requests for agents that have terminated or are away, or after the horizon.
    A game must start at time 0. If `OneOf` picks different partners within a batch, the program
    also gets the first request of games in which another partner acts.

    **Arguments:**

    - `program`: the program.
    - `env`: the world of the game. The games themselves may have another observation.
    - `text`: send the grid as text, although the observations have names.

    **Raises:** `UsageError` when the world is not a grid world.
    """

    program: Program = eqx.field(static=True)
    env: AbstractGridWorld | RandomLayouts
    text: bool = eqx.field(static=True)

    def __init__(self, program: Program, env: AbstractEnv, *, text: bool = False):
        world = unwrap(env)
        if not isinstance(world, AbstractGridWorld | RandomLayouts):
            raise UsageError(f"Programs act only in grid worlds, not in {type(world).__name__}.")
        self.program, self.env, self.text = program, world, text

    def initial_carry(self) -> Int[Array, ""]:
        """The number of the game, which is 0 before the first step."""
        return jnp.zeros((), jnp.int32)

    def __call__(
        self, seen: PartnerInput, carry: Int[Array, ""], key: PRNGKeyArray
    ) -> tuple[Int[Array, "*choices"], Int[Array, ""]]:
        grid = self.env if isinstance(self.env, AbstractGridWorld) else self.env.env
        layout, world = grid.layout, seen.state
        if isinstance(world, PlacedWorld):
            layout, world = world.layout, world.world
        words, active = _Words.of(grid, self.text), world.bodies.active
        asks = (world.time < grid.horizon) & ((carry > 0) | (world.time == 0))
        observation, mask = split_mask(self.env.observe(seen.state))
        options = sum(map(len, words.actions))
        view = _View(
            seat=seen.seat,
            game=carry,
            step=world.time,
            asks=asks if active is None else asks & active[seen.seat],
            allowed=jnp.ones(options, bool) if mask is None else mask[seen.seat],
            features=None if words.features is None else observation[seen.seat],
            tiles=layout.tiles,
            looks=look_codes(layout, world),
            said=world.bodies.said,
        )
        shape = (len(words.actions),) if words.is_list else ()
        results = jax.ShapeDtypeStruct(shape, jnp.int32), jax.ShapeDtypeStruct((), jnp.int32)
        act = functools.partial(self.program.act, words)
        return jax.pure_callback(act, results, view, vmap_method="broadcast_all")
