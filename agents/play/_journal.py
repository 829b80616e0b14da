"""Journals: live games on disk, a line for every step, written as it is played.

The first line says which world it is, who had which seat, and the seed of all randomness. Every
further line has the actions of one step. These determine the game: `replay` plays it again, bit for
bit, with the program that trains.
"""

import os
from pathlib import Path
from typing import Any, final

import msgspec
import numpy as np
from jaxtyping import Float, Int

from agents.files._checkpoint import NEWER
from agents.runs.display._errors import UsageError
from eqgrid import read_regular_file

SUFFIX = ".jsonl"
_LARGEST = 2**28
_FORMAT = 1


@final
class SeatRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who had a seat.

    - `name`: the name of the partner, or of the person.
    - `human`: whether it was a person.
    - `sha256`: the hash of the policy's file, if it came from one.
    """

    name: str
    human: bool
    sha256: str | None = None


class _Version(msgspec.Struct, frozen=True):
    format: int = 1


@final
class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a journal.

    - `world`: the settings of the world, as a settings file has them.
    - `layout`: the name of its layout.
    - `seed`: the seed of the game.
    - `seats`: who had each seat.
    - `ticks_per_second`: the rate of the clock.
    - `started`: when the game began, in UTC and ISO 8601.
    - `eqgrid`: the version of eqgrid.
    - `delay`, `noise`: how late partners reacted, and how often they acted at random.
    - `files`: the hashes of the layout files that `world` names.
    - `format`: the version of the format of journals.
    """

    world: dict[str, Any]
    layout: str
    seed: int
    seats: tuple[SeatRecord, ...]
    ticks_per_second: float
    started: str
    eqgrid: str = ""
    delay: int = 0
    noise: float = 0.0
    files: dict[str, str] = {}
    format: int = _FORMAT


@final
class StepLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A step: the action and the reward of each agent, and the seconds since the game began."""

    action: list[Any]
    reward: list[float]
    time: float


@final
class EndLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line of a journal: why the game ended, `finished` or `left`."""

    end: str


@final
class Journal:
    """The journal of a game that is being played.

    Each line is handed to the operating system before the next step, so that a process that dies
    loses no step.
    """

    def __init__(self, path: Path, header: Header):
        """**Arguments:**

        - `path`: a new file.
        - `header`: the first line.

        **Raises:** `OSError` when it cannot be written, or exists.
        """
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._file = os.open(path, flags, 0o644)
        self._write(header)

    def step(self, line: StepLine) -> None:
        """Appends a step. **Raises:** `OSError` when it cannot be written."""
        self._write(line)

    def close(self, end: str) -> None:
        """Appends the last line, and closes the file."""
        try:
            self._write(EndLine(end))
            os.fsync(self._file)
        finally:
            os.close(self._file)

    def _write(self, line: msgspec.Struct) -> None:
        content = msgspec.json.encode(line) + b"\n"
        while content:
            content = content[os.write(self._file, content) :]


@final
class Recording(msgspec.Struct, frozen=True):
    """A game that was read from its journal.

    - `header`: the first line.
    - `action`: the actions of all agents in every step.
    - `reward`: their rewards.
    - `time`: the seconds since the game began.
    - `end`: why it ended; `None` if the program was ended before the game.
    """

    header: Header
    action: Int[np.ndarray, "steps agents ..."]
    reward: Float[np.ndarray, "steps agents"]
    time: Float[np.ndarray, " steps"]
    end: str | None


def read_journal(path: Path) -> Recording:
    """Reads a journal. A last line that was not written completely is left out.

    **Raises:** `UsageError` when it is damaged, and `OSError` when it cannot be read.
    """
    first, *lines = read_regular_file(path, _LARGEST).split(b"\n")
    complete = lines[:-1]  # what follows the last line break is empty, or no complete line
    try:
        if msgspec.json.decode(first, type=_Version).format > _FORMAT:
            raise UsageError(f"The journal {str(path)!r} {NEWER}.")
        header = msgspec.json.decode(first, type=Header)
        last = complete.pop() if complete and complete[-1].startswith(b'{"end"') else None
        steps = [msgspec.json.decode(line, type=StepLine) for line in complete]
        end = None if last is None else msgspec.json.decode(last, type=EndLine).end
        action = np.asarray([step.action for step in steps], np.int32)
        reward = np.asarray([step.reward for step in steps], np.float32)
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise UsageError(f"The journal {str(path)!r} is damaged: {error}.") from error
    agents = len(header.seats)
    if steps and (action.shape[:2] != (len(steps), agents) or reward.shape != (len(steps), agents)):
        raise UsageError(f"The journal {str(path)!r} is damaged: a step is not of {agents} agents.")
    time = np.asarray([step.time for step in steps], np.float32)
    return Recording(header, action, reward, time, end)
