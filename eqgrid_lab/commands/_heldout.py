"""Held-out partners, described in a TOML file so that other people can evaluate with the same
partners.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import final

from agents import CheckpointError
from agents.files import shipped

from ..base import Table, UsageError, as_usage_error, fill, read_toml
from ..folders import short_name
from ..partners import NamedPartner, Partners, Place, SavedPolicy, changes_of, in_folder
from ..settings import Seed
from ..worlds import Kitchen

HELD_OUT = shipped("heldout/kitchens.toml")
"""The bundled file of partners."""
PEOPLE = shipped("heldout/people.toml")
"""The bundled file of human proxies, which the word `people` on command lines stands for."""


@final
@dataclasses.dataclass(frozen=True)
class HeldOut:
    """An entry of a file of partners.

    **Arguments:**

    - `name`: the name of the partner in results.
    - `partner`: its name in the table of partners, such as `greedy+noise=0.2` or a policy file. A
        path is relative to the folder of the file, and `{layout}` in it stands for the layout.
    """

    name: str = ""
    partner: str = ""

    def found(self, file: Path, layout: str) -> str:
        """The partner for a layout, as `Partners.build` takes it."""
        return in_folder(self.partner.replace("{layout}", layout), file.parent)


@dataclasses.dataclass(frozen=True)
class _File:
    """The contents of a file of partners."""

    seed: Seed = 0
    partner: tuple[Table, ...] = ()


def read_held_out(file: Path) -> tuple[list[HeldOut], int]:
    """Reads a file of partners.

    **Returns:** the partners, and the seed of the episodes with them.

    **Raises:** `UsageError` when the file cannot be used.
    """
    where = f"The file of partners {str(file)!r}"
    with as_usage_error(f"{where} ", UsageError):
        contents = fill(_File(), read_toml(file))
        partners = [fill(HeldOut(), entry) for entry in contents.partner]
        names = [partner.name for partner in partners]
        if not partners or not all(x.name and x.partner for x in partners):
            raise UsageError("needs a `name` and a `partner` in each [[partner]].")
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"has two partners {name!r}.")
    return partners, contents.seed


def build_held_out(
    held_out: Sequence[HeldOut], file: Path, place: Place, partners: Partners
) -> list[NamedPartner]:
    """Builds partners for a world.

    **Arguments:**

    - `held_out`: the partners.
    - `file`: the file of the partners.
    - `place`: the world of the policies that are evaluated.
    - `partners`: builds partners from their names.

    **Returns:** the partners, by the names of the file. Each is wrapped in a `NoisyPartner`, even
    without noise, so that partners have fewer different structures to compile.

    **Raises:** `UsageError` when a policy is missing, does not fit the world or was trained in
    another game, or when a scripted cook or a bundled file is used outside of Overcooked;
    `CheckpointError` when a policy is damaged.
    """
    if file in (HELD_OUT, PEOPLE) and place.settings.name != Kitchen.name:
        raise UsageError(
            f"eqgrid has no held-out partners for the world {place.settings.name}: name a file of "
            "your own partners with --partners."
        )
    layout, built = short_name(place.settings.title), []
    for entry in held_out:
        name = entry.found(file, layout)
        with as_usage_error(f"{entry.name}: ", (UsageError, CheckpointError)):
            found = partners.build(name if changes_of(name) else f"{name}+noise=0", place)
        built.append(dataclasses.replace(found, name=entry.name))
    return built


def known_before(
    policies: Sequence[SavedPolicy], held_out: Sequence[NamedPartner]
) -> dict[str, list[str]]:
    """Finds the partners with which policies were trained, and partners that are one of these
    policies.

    **Arguments:**

    - `policies`: the policies that are evaluated.
    - `held_out`: the partners.

    **Returns:** the names of these partners, by the name of the policy. Policies without such
    partners are left out.
    """
    found = {
        policy.name: [x.name for x in held_out if x.saved and x.saved.marks & policy.known()]
        for policy in policies
    }
    return {policy: names for policy, names in found.items() if names}
