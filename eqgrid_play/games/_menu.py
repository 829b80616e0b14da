"""The menu: the worlds and the partners that people can choose."""

import dataclasses
import functools
import io
import re
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, final

import jax
import numpy as np
from PIL import Image

from eqgrid_lab import partners
from eqgrid import AbstractPartner, unwrap, unwrap_state
from eqgrid.grid import AbstractGridWorld, Layout, RandomLayouts, render
from eqgrid.typing import PyTree
from eqgrid_lab.base import UsageError, as_usage_error
from eqgrid_lab.commands import different_names, short_names
from eqgrid_lab.folders import short_name
from eqgrid_lab.partners import NamedPartner, Partners, changes_of
from eqgrid_lab.worlds import WorldSettings

from ._messages import Control, controls_of, layout_and_world
from ._rule_pictures import draw_rules

PERSON = "person"
"""The value for a person in a list of seats."""
_SMALL = 24
"""The side of a cell in a small picture, in pixels."""
_CHANGES = {"delay": "{0:g} steps late", "noise": "{0:.0%} random"}


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Place(partners.Place):
    """A world in which people can play."""

    @property
    def title(self) -> str:
        """The name of the layout."""
        return short_name(self.settings.title)

    @functools.cached_property
    def optimum(self) -> float | None:
        """The best known mean return of its agents, if it is known for this one layout."""
        is_single = isinstance(unwrap(self.world), AbstractGridWorld)
        return self.settings.optimum if is_single else None

    @functools.cached_property
    def controls(self) -> tuple[Control, ...]:
        """The actions of a person in this world."""
        return controls_of(self.grid.actions)

    @functools.cached_property
    def drawn_layout(self) -> Layout:
        """The layout in NumPy arrays."""
        return jax.tree.map(np.asarray, self.grid.layout)

    @functools.cached_property
    def example(self) -> PyTree:
        """A first state, without wrappers."""
        return unwrap_state(self.env.reset(jax.random.key(0))[1])

    @functools.cached_property
    def small_picture(self) -> bytes:
        """A small picture of the layout without its outer walls, as a PNG file."""
        layout, world = layout_and_world(self.drawn_layout, self.example)
        walls = [i for i, kind in enumerate(layout.kinds.tiles) if kind.char == "#"]
        used = np.argwhere(~np.isin(layout.tiles, walls))
        (top, left), (bottom, right) = _SMALL * used.min(axis=0), _SMALL * (used.max(axis=0) + 1)
        image = render(layout, world, cell_pixels=_SMALL)[top:bottom, left:right]
        file = io.BytesIO()
        Image.fromarray(image).save(file, "PNG")
        return file.getvalue()

    @functools.cached_property
    def rule_pictures(self) -> list[tuple[list[str], str, str]]:
        """The pictures that explain the rules."""
        return draw_rules(self.settings, self.drawn_layout)


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
        known = tuple(dict.fromkeys((settings.title, *settings.known_layouts)))
        self.layouts: tuple[str, ...] = getattr(settings, "mixture", ()) or known
        self._places: dict[str, Place] = {}
        self._offers: dict[str, Mapping[str, Offer]] = {}
        # Pages may ask again before a world or its partners are built.
        self._placing, self._building = threading.Lock(), threading.Lock()

    def check(self) -> None:
        """Builds the first world and its named partners. **Raises:** as `place` and `offers`."""
        self._named(self.place(self.layouts[0]), strict=True)

    def place(self, layout: str) -> Place:
        """The world with one of `layouts`. **Raises:** `UsageError` when it cannot be built."""
        with self._placing:
            if layout not in self._places:
                settings: Any = self._settings
                if layout != settings.title:
                    settings = dataclasses.replace(settings, layout=layout)
                self._places[layout] = place_in(settings)
            return self._places[layout]

    def offers(self, layout: str) -> Mapping[str, Offer]:
        """The partners for one of `layouts`, by the keys that pages send.

        Other layouts than the first one leave out named partners that cannot act in them.

        **Raises:** `UsageError` and `CheckpointError` when one of the named partners cannot act in
        the first layout.
        """
        if (known := self._offers.get(layout)) is not None:
            return known
        with self._building:
            if layout not in self._offers:
                found = self.in_place(self.place(layout), strict=layout == self.layouts[0])
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
        found = self._named(place, strict=strict)
        menu = [*self._partners.menu(place)]
        bundled = {x.saved.file.sha256: x.words for x in menu if x.saved}
        names = [*dict.fromkeys(x.words for x in found)]
        labels = dict(zip(names, short_names(names), strict=True))
        words = different_names([self._words(x, labels[x.words], bundled) for x in found])
        found = [dataclasses.replace(x, words=y) for x, y in zip(found, words, strict=True)] + menu
        return [Offer(x.name, x.words, x.partner, x.saved and x.saved.file.sha256) for x in found]

    def _named(self, place: Place, *, strict: bool) -> list[NamedPartner]:
        found: list[NamedPartner] = []
        for name, partner in self._names.items():
            try:
                found.append(dataclasses.replace(self._partners.build(partner, place), name=name))
            except UsageError:
                if strict:
                    raise
        return found

    def _words(self, built: NamedPartner, label: str, bundled: Mapping[str, str]) -> str:
        """The words of a named partner for people, who should not see paths and code names."""
        words = label.rpartition(":")[2].replace("_", " ")
        if built.saved is not None:
            is_model = built.saved.file.metadata.get("stuck_steps")
            words = f"{'a model of people' if is_model else 'a trained agent'} ({words})"
            words = bundled.get(built.saved.file.sha256, words)
        changes = re.findall(r"\+(delay|noise)=([\d.]+)", changes_of(self._names[built.name]))
        return ", ".join([words, *(_CHANGES[x].format(float(y)) for x, y in changes)])


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
