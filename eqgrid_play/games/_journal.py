"""Journals: files of live games, to which each step is appended as a line when it is played.

The first line contains the world, the players in its seats, and the seed of all randomness. Each
further line contains the actions of one step or an event between two steps, such as a key press,
and a checksum of all lines up to this one, which reveals changes. The seed and the actions
determine the game: `replay` plays it again bit for bit, and `write_recording` writes it as an
episode.
"""

import contextlib
import errno
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from agents import PolicyWorld, save_trajectories
from eqgrid import (
    AbstractEnv,
    ConstantPartner,
    Trajectories,
    play_step,
    read_regular_file,
    start_play,
    unwrap_state,
)
from eqgrid.typing import PyTree
from eqgrid_lab.base import UsageError

from ._menu import Place

SUFFIX, EPISODE_SUFFIX = ".jsonl", ".npz"
"""The suffixes of a journal, and of the episode that is written after the game."""
_LARGEST = 2**28
_FORMAT = 4
_CHECK = b',"check":'


@final
class SeatRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The player in a seat.

    - `name`: the name of the partner or person.
    - `human`: whether the player was a person.
    - `sha256`: the hash of the policy file, for a policy from a file.
    """

    name: str
    human: bool
    sha256: str | None = None


class _Version(msgspec.Struct, frozen=True):
    format: int = 1


@final
class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a journal.

    - `world`: the world, as in a policy file.
    - `layout`: the name of its layout.
    - `seed`: the seed of the game.
    - `seats`: the player in each seat.
    - `ticks_per_second`: the rate of the clock.
    - `started`: the time at which the game was opened, in UTC and ISO 8601.
    - `eqgrid`: the version of eqgrid.
    - `format`: the version of the format of journals.
    """

    world: PolicyWorld
    layout: str
    seed: int
    seats: tuple[SeatRecord, ...]
    ticks_per_second: float
    started: str
    eqgrid: str = ""
    format: int = _FORMAT


@final
class StepLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A step.

    - `action`, `reward`: of each agent.
    - `time`: the seconds since the game began.
    - `source`: the source of each person's action, and an empty string for agents: `press`, a press
        that came since the last step; `queue`, a press that came before the last step, and waited;
        `hold`, a key that is held down; `none`, no key; `silence` if no message of the page came
        since the last step. The first step of a silence repeats the key that was held down, and all
        further steps are idle. In a world with several choices, `queue` if one of the presses
        waited.
    - `keys`: the numbers of the key presses that the step used, from 0 in the order of their lines.
    """

    action: list[int | list[int]]
    reward: list[float]
    time: float
    source: list[str] = []
    keys: list[int] = []


@final
class EventLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A running game began or stopped waiting for a person.

    - `event`: `paused` or `resumed`.
    - `seat`: the seat of the person.
    - `why`: `pause` if the person paused the game, `away` if the page was disconnected, `silent` if
        the page sent no messages.
    - `time`: the seconds since the game began.
    """

    event: str
    seat: int
    why: str
    time: float


@final
class KeyLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A person pressed or released a key.

    - `key`: the key, as `KeyboardEvent.code` of browsers names it, or the button of the page.
    - `down`: whether the key was pressed; `False` if it was released.
    - `seat`: the seat of the person.
    - `page_ms`: the time by the clock of the page, in milliseconds since 1970 (UTC).
    - `time`: when the server received it, in seconds since the game began; `None` before the game.
    """

    key: str
    down: bool
    seat: int
    page_ms: float
    time: float | None


@final
class FrameLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page has shown the frame after a step, or has received it while it was hidden. The frame
    after the last step has no line, since the game is then over.

    - `frame`: the number of the step, from 1; 0 for the frame before the first step.
    - `seat`: the seat of the page.
    - `time`: when the server sent the frame, in seconds since the game began; `None` before the
        game. After a reload, the last frame is sent again.
    - `latency_ms`: the milliseconds from sending the frame to the message of the page that it was
        shown, by the clock of the server.
    - `shown_ms`: the milliseconds from the arrival of the frame to its display, as the page claims;
        `None` if this is longer than `latency_ms`, or the page was hidden.
    - `focus`: whether the page was visible and had the focus of the keyboard, as the page claims;
        `None` if it did not say.
    """

    frame: int
    seat: int
    time: float | None
    latency_ms: float
    shown_ms: float | None
    focus: bool | None = None


@final
class EndLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The last line of a journal.

    - `end`: why the game ended, `finished` or `left`.
    - `left`: the seats of the people who left the game.
    """

    end: str
    left: tuple[int, ...] = ()


_Line: TypeAlias = StepLine | EventLine | KeyLine | FrameLine | EndLine


@final
class Journal:
    """The journal of a running game.

    Each line is written before the next step, without buffering, so a crash of the process loses no
    step.
    """

    def __init__(self, path: Path, header: Header):
        """**Arguments:**

        - `path`: a new file.
        - `header`: the first line.

        **Raises:** `OSError` when the file exists or cannot be written.
        """
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._file, self._size, self._check = os.open(path, flags, 0o644), 0, 0
        self._is_cut = False  # whether the last line is incomplete
        try:
            self.add(header)
        except OSError:
            os.close(self._file)
            path.unlink()  # without a first line, it is not a journal
            raise

    def add(self, line: msgspec.Struct) -> None:
        """Appends a line. If this fails, as on a full disk, a partly written line is removed.

        **Raises:** `OSError` when the line cannot be written.
        """
        if self._is_cut:
            raise OSError(errno.EIO, "a line before it was cut")
        content = msgspec.json.encode(line)
        check, written = zlib.crc32(content, self._check), 0
        if self._size:  # the first line has no checksum
            content = content[:-1] + _CHECK + b"%d}" % check
        content += b"\n"
        try:
            while written < len(content):
                written += os.write(self._file, content[written:])
        except OSError:
            self._is_cut = True
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
                self._is_cut = False
            raise
        self._size += len(content)
        self._check = check

    def close(self, end: str, left: Sequence[int] = ()) -> None:
        """Appends the last line, see `EndLine`, and closes the file.

        **Raises:** `OSError` when the line cannot be written.
        """
        try:
            self.add(EndLine(end, tuple(left)))
            os.fsync(self._file)
        finally:
            os.close(self._file)


@final
class Recording(msgspec.Struct, frozen=True):
    """A game that was read from its journal.

    - `path`: the file of the journal.
    - `header`: the first line.
    - `action`: the actions of all agents in every step.
    - `reward`: their rewards.
    - `time`: the time of every step, in seconds since the game began.
    - `source`: the source of the action of each agent in every step, as in `StepLine`; empty
        strings if the journal does not contain it.
    - `keys`: the key presses and releases, and the number of the step that used each, from 1;
        `None` if no step did.
    - `frames`: the frames that pages have shown.
    - `events`: the pauses between the steps.
    - `end`: why the game ended; `None` if the last line is missing, as after a crash.
    - `left`: the seats of the people who left the game before its end.
    """

    path: Path
    header: Header
    action: Int[np.ndarray, "steps agents ..."]
    reward: Float[np.ndarray, "steps agents"]
    time: Float[np.ndarray, " steps"]
    source: tuple[list[str], ...]
    keys: tuple[tuple[KeyLine, int | None], ...]
    frames: tuple[FrameLine, ...]
    events: tuple[EventLine, ...]
    end: str | None
    left: tuple[int, ...]


def read_journal(path: Path) -> Recording:
    """Reads a journal, up to a last line that was cut by the end of its program.

    **Raises:** `UsageError` when the journal is damaged, and `OSError` when it cannot be read.
    """
    # Bytes after the last line break are not a complete line.
    first, *lines = read_regular_file(path, _LARGEST).split(b"\n")
    try:
        if msgspec.json.decode(first, type=_Version).format != _FORMAT:
            raise UsageError(f"The journal {str(path)!r} is of another version of eqgrid.")
        header = msgspec.json.decode(first, type=Header)
        found = _read_lines(lines[:-1], zlib.crc32(first))
        last = [line for line in found[-1:] if isinstance(line, EndLine)]
        steps = [line for line in found if isinstance(line, StepLine)]
        action = np.asarray([step.action for step in steps], np.int32)
        reward = np.asarray([step.reward for step in steps], np.float32)
        agents = len(header.seats)
        if steps and not action.shape[:2] == reward.shape == (len(steps), agents):
            raise ValueError(f"a step does not have {agents} actions and {agents} rewards")
        source = tuple(step.source or [""] * agents for step in steps)
        if any(len(own) != agents for own in source):
            raise ValueError(f"a step does not have {agents} sources")
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise UsageError(f"The journal {str(path)!r} is damaged: {error}.") from error
    time = np.asarray([step.time for step in steps], np.float32)
    end, left = (last[0].end, last[0].left) if last else (None, ())
    used = {key: number for number, step in enumerate(steps, 1) for key in step.keys}
    pressed = enumerate(line for line in found if isinstance(line, KeyLine))
    keys = tuple((key, used.get(number)) for number, key in pressed)
    frames = tuple(line for line in found if isinstance(line, FrameLine))
    events = tuple(line for line in found if isinstance(line, EventLine))
    return Recording(path, header, action, reward, time, source, keys, frames, events, end, left)


def _read_lines(lines: Sequence[bytes], check: int) -> list[_Line]:
    """All lines but the first one, which has the checksum `check`.

    **Raises:** `msgspec.MsgspecError` and `ValueError` when a line is damaged.
    """
    types = {b'{"ev': EventLine, b'{"ke': KeyLine, b'{"fr': FrameLine, b'{"en': EndLine}
    found: list[_Line] = []
    for number, line in enumerate(lines, 2):
        content = line.rpartition(_CHECK)[0] + b"}"
        check = zlib.crc32(content, check)
        if line != content[:-1] + _CHECK + b"%d}" % check:
            raise ValueError(f"line {number} or a line before it was changed")
        found.append(msgspec.json.decode(content, type=types.get(line[:4], StepLine)))
    return found


def replay(place: Place, recording: Recording) -> tuple[Trajectories, PyTree]:
    """Replays a recorded game from its seed and its actions.

    **Arguments:**

    - `place`: the world of the game.
    - `recording`: the game.

    **Returns:** the game as one episode, possibly unfinished, and the state after its last step.

    **Raises:** `UsageError` when the game has no steps, or its rewards differ from the recorded
    rewards, as in another version of the world.
    """
    if not len(recording.action):
        raise UsageError(f"The game in {str(recording.path)!r} has no steps.")
    key = jax.random.key(recording.header.seed)
    joined, last = _replay(place.env, jnp.asarray(recording.action), key)
    if not np.array_equal(np.asarray(joined["reward"]), recording.reward):
        raise UsageError(
            f"The game in {str(recording.path)!r} does not replay: it was recorded with other "
            "rules or settings."
        )
    length = jnp.asarray([len(recording.action)], jnp.int32)
    return Trajectories(**joined, length=length), last


@eqx.filter_jit
def _replay(
    env: AbstractEnv, action: Int[Array, "steps agents ..."], key: PRNGKeyArray
) -> tuple[dict[str, PyTree], PyTree]:
    """Plays the recorded actions. **Returns:** the fields of `Trajectories`, and the last state."""

    def team(own: Int[Array, "agents ..."]) -> tuple[ConstantPartner, ...]:
        return tuple(ConstantPartner(own[seat]) for seat in range(env.num_agents))

    arrays, rest = eqx.partition(start_play(env, team(action[0]), key), eqx.is_array)

    def step(arrays: PyTree, own: Int[Array, "agents ..."]) -> tuple[PyTree, dict[str, PyTree]]:
        state, row = play_step(env, team(own), eqx.combine(arrays, rest))
        return eqx.filter(state, eqx.is_array), row

    arrays, rows = jax.lax.scan(step, arrays, action)
    return rows, unwrap_state(eqx.combine(arrays, rest).env_state)


def write_recording(place: Place, recording: Recording, name: str, folder: Path) -> Path:
    """Writes a recorded game as an episode, which `load_trajectories` reads.

    **Arguments:**

    - `place`, `recording`: as for `replay`.
    - `name`: the name of the game and of the file, without suffix.
    - `folder`: the folder of the file.

    **Returns:** the file.

    **Raises:** as `replay`, and `OSError` when the file cannot be written.
    """
    episode, _ = replay(place, recording)
    path = folder / f"{name}{EPISODE_SUFFIX}"
    save_trajectories(path, episode)
    return path
