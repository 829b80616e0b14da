"""The menu: the worlds and the partners that people can choose."""

import dataclasses
import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, final

import jax
import numpy as np

from eqgrid_lab import partners
from eqgrid import AbstractPartner, unwrap
from eqgrid.grid import AbstractGridWorld, Layout, RandomLayouts, agent_colours
from eqgrid_lab.base import UsageError, as_usage_error
from eqgrid_lab.commands import short_names
from eqgrid_lab.folders import short_name
from eqgrid_lab.partners import NamedPartner, Partners, changes_of
from eqgrid_lab.worlds import WorldSettings

from ._messages import Control, controls_of

PERSON = "person"
"""The value for a person in a list of seats."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Place(partners.Place):
    """A world in which people can play."""

    @property
    def title(self) -> str:
        """The name of the layout."""
        return short_name(self.settings.title)

    @functools.cached_property
    def controls(self) -> tuple[Control, ...]:
        """The actions of a person in this world."""
        return controls_of(self.grid.actions)

    @functools.cached_property
    def drawn_layout(self) -> Layout:
        """The layout in NumPy arrays."""
        return jax.tree.map(np.asarray, self.grid.layout)

    @functools.cached_property
    def colours(self) -> list[str]:
        """The colour of each seat."""
        return [agent_colours(seat + 1)[0] for seat in range(self.env.num_agents)]


@final
@dataclasses.dataclass(frozen=True)
class Offer:
    """A partner that people can choose.

    **Arguments:**

    - `name`: its name in the table of partners.
    - `words`: its name for people.
    - `partner`: the partner.
    - `sha256`: the checksum of the policy file, for a policy.
    """

    name: str
    words: str
    partner: AbstractPartner
    sha256: str | None


@final
class Menu:
    """The worlds and partners that people can choose: partners that the command line or the plan of
    a study names, and all partners of `eqgrid_lab.PARTNERS` that can act in the world.

    Each world and its partners are built on first use and then kept.
    """

    def __init__(
        self,
        settings: WorldSettings,
        names: Mapping[str, str] = MappingProxyType({}),
        partners: Partners | None = None,
    ):
        """**Arguments:**

        - `settings`: the settings of the world, whose layout is the first choice.
        - `names`: the partners to offer first: for each name, the partner to build.
        - `partners`: builds the partners.
        """
        self._settings, self._names = settings, names
        self._partners = Partners() if partners is None else partners
        self.layouts = tuple(dict.fromkeys((settings.title, *settings.known_layouts)))
        self._places: dict[str, Place] = {}
        self._offers: dict[str, Mapping[str, Offer]] = {}

    def place(self, layout: str) -> Place:
        """The world with one of `layouts`. **Raises:** `UsageError` when it cannot be built."""
        if layout not in self._places:
            settings: Any = self._settings
            if layout != settings.title:
                settings = dataclasses.replace(settings, layout=layout)
            self._places[layout] = place_in(settings)
        return self._places[layout]

    def offers(self, layout: str) -> Mapping[str, Offer]:
        """The partners for one of `layouts`, by the keys that pages send.

        Other layouts than the layout of the settings leave out named partners that cannot act in
        them.

        **Raises:** `UsageError` and `CheckpointError` when one of the named partners cannot act in
        the layout of the settings.
        """
        if layout not in self._offers:
            strict = layout == self._settings.title
            found = self.in_place(self.place(layout), strict=strict)
            self._offers[layout] = {f"partner-{i}": offer for i, offer in enumerate(found)}
        return self._offers[layout]

    def in_place(self, place: Place, *, strict: bool = False) -> list[Offer]:
        """The partners for a world.

        **Arguments:**

        - `place`: the world.
        - `strict`: raise an error for a named partner that cannot act in the world, instead of
            leaving it out.

        **Raises:** `UsageError` and `CheckpointError` if `strict`.
        """
        found: list[NamedPartner] = []
        for name, partner in self._names.items():
            try:
                built = self._partners.build(partner, place)
                words = built.words + changes_of(partner)
                found.append(dataclasses.replace(built, name=name, words=words))
            except UsageError:
                if strict:
                    raise
        # People should not see paths of the server.
        words = short_names([x.words for x in found])
        found = [dataclasses.replace(x, words=y) for x, y in zip(found, words, strict=True)]
        found += self._partners.menu(place)
        return [Offer(x.name, x.words, x.partner, x.saved and x.saved.file.sha256) for x in found]


def place_in(settings: WorldSettings) -> Place:
    """Builds the world of some settings.

    **Raises:** `UsageError` when the world cannot be built, or is not a grid world.
    """
    with as_usage_error(f"The layout {settings.title!r:.60} cannot be built: "):
        place = Place.of(settings)
    if not isinstance(unwrap(place.world), AbstractGridWorld | RandomLayouts):
        raise UsageError(
            f"People cannot play in the world {settings.name!r:.60}, which is not a grid world."
        )
    return place
