"""Stored returns of best responses to held-out partners, as reference returns."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NotRequired, TypedDict, final

import msgspec
from msgspec import Meta

from eqgrid import read_regular_text

from ..base import UsageError, reason
from ..folders import MAX_RESULT_BYTES, write_json
from ..partners import NamedPartner, Place


class _Entry(TypedDict):
    """A best response: its return in each of its seats, and a hash of the partner.

    An exact best response also has the counters that cooks could use. The bundled best responses to
    scripts were trained with PPO, and have the steps and the seed of their training.
    """

    returns: Annotated[list[float], Meta(min_length=2, max_length=2)]
    partner: str
    steps: NotRequired[int]
    seed: NotRequired[int]
    counters: NotRequired[list[str]]


@final
class BestResponses:
    """The returns of best responses in one world, stored next to the file of the partners."""

    def __init__(self, file: Path, place: Place):
        """Reads the file of best responses, if there is one.

        **Arguments:**

        - `file`: the file of the partners.
        - `place`: the world.

        **Raises:** `UsageError` when the file of best responses is damaged.
        """
        self.path = file.with_suffix(".best-responses.json")
        # A best response does not depend on the observations of other agents.
        world = place.policy_world
        rules = {name: x for name, x in world.arguments.items() if name != "observation"}
        self.world = f"{world.name} {json.dumps(rules, sort_keys=True)}"
        self._worlds = self._read_file()

    def _read_file(self) -> dict[str, dict[str, _Entry]]:
        """The best responses in the file, by the world and by the name of the partner."""
        try:
            worlds = json.loads(read_regular_text(self.path, MAX_RESULT_BYTES))
            return msgspec.convert(worlds, dict[str, dict[str, _Entry]])
        except FileNotFoundError:
            return {}
        except OSError as error:
            why = f"cannot be read: {reason(error)}"
        except (ValueError, RecursionError, msgspec.ValidationError):
            why = "is damaged"
        raise UsageError(
            f"The file of best responses {str(self.path)!r} {why}: move it away, and compute them "
            "again with eqgrid best-response --keep."
        )

    def returns(self, partner: NamedPartner) -> list[float] | None:
        """The returns of the best response to a partner, in each seat of the best response. `None`
        if the file has no entry, or if the partner has changed since the entry was written.
        """
        entry = self._stored(partner)
        return None if entry is None else entry["returns"]

    def is_exact(self, partner: NamedPartner) -> bool:
        """Whether the best response to a partner was computed exactly, instead of trained."""
        return "counters" in (self._stored(partner) or {})

    def _stored(self, partner: NamedPartner) -> _Entry | None:
        entry = self._worlds.get(self.world, {}).get(partner.name)
        return None if entry is None or entry["partner"] != _digest(partner.identity) else entry

    def keep(self, partner: NamedPartner, returns: list[float], counters: Sequence[str]) -> None:
        """Stores the returns of an exact best response, which replace earlier ones.

        **Arguments:**

        - `partner`: the partner.
        - `returns`: the return of the best response in each of its seats.
        - `counters`: the counters that cooks could use.
        """
        entry = _Entry(returns=returns, partner=_digest(partner.identity), counters=list(counters))
        self._write(partner, entry)

    def _write(self, partner: NamedPartner, entry: _Entry) -> None:
        self._worlds.setdefault(self.world, {})[partner.name] = entry
        write_json(self.path, self._worlds)


def _digest(text: str) -> str:
    """A short hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]
