"""Sites for search and rescue: by name, or from a text."""

import dataclasses
from collections.abc import Sequence
from typing import Literal, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ...errors import did_you_mean
from ...grid import Layout, LayoutError, check_named
from ._kinds import KINDS, VICTIMS, Role

RoleName: TypeAlias = Literal["medic", "engineer"]

SITES = {
    "small": """
        #########
        #1  )   #
        #   #  R#
        #  (#   #
        E   ##:##
        E   .  Y#
        #   #   #
        #2 G#  G#
        #########""",
    "large": """
        ###############
        #G    #   #  R#
        #     ]   :   #
        #Y    #  Y#   #
        ###.###.####>##
        #   G #   #   #
        E 1 3 |   .  [#
        E 2 4 #  R#   #
        #     #   # Y #
        ##)######.#####
        #   #  <  #  G#
        # R :     #   #
        #   #   G .  (#
        ###############""",
}
"""Two sites: one for two rescuers with four victims, and one for four rescuers with ten."""


def load_site(layout: str | Layout) -> Layout:
    """Loads a site by name or text.

    **Arguments:**

    - `layout`: a name of `SITES`, a text of more than one line, or a `Layout`. The rescuers of a
        `Layout` without roles are medic and engineer in turn.

    **Raises:** `LayoutError` when there is no such site, or the text is invalid.
    """
    if isinstance(layout, Layout):
        if layout.kinds.objects[: len(KINDS.objects)] != KINDS.objects:
            raise LayoutError(
                "The layout is of another game: its kinds differ from the kinds of a site."
            )
        return layout if layout.start.bodies.extra is not None else with_roles(layout, None)
    check_named(layout, Layout)
    if "\n" in layout.strip():
        return parse_site(layout)
    if layout not in SITES:
        raise LayoutError(
            f"There is no layout {layout!r:.100}{did_you_mean(layout, SITES)} Known are "
            f"{', '.join(SITES)}, and the text of a layout."
        )
    return parse_site(SITES[layout])


def parse_site(
    text: str,
    roles: Sequence[RoleName] | None = None,
    starts: Sequence[tuple[int, int]] | None = None,
) -> Layout:
    """Builds a site from its text.

    **Arguments:**

    - `text`: one row per line: `#` wall, `E` exit, blank floor, `G`, `Y` and `R` green, yellow and
        red victims, `.` rubble and `:` high rubble, `(`, `[` and `<` the purple, blue and orange
        key and `)`, `]` and `>` their doors, `|` an open door, and `1` to `9`, then `a` to `z`, for
        the initial cells of the rescuers.
    - `roles`: the role of every rescuer; by default medic and engineer in turn.
    - `starts`: `(row, col)` of every rescuer, instead of the marks in the text.

    **Raises:** `LayoutError` as in `Layout.parse`, when a rescuer would start on a solid object, or
    when there is no victim; `ValueError` as in `with_roles`.
    """
    layout = Layout.parse(text, KINDS, None, starts)
    check_site(layout)
    return with_roles(layout, roles)


def with_roles(layout: Layout, roles: Sequence[RoleName] | None) -> Layout:
    """The site with the given roles.

    **Arguments:**

    - `layout`: the site.
    - `roles`: `"medic"` or `"engineer"` for every rescuer; medic and engineer in turn if it is
        `None`.

    **Raises:** `ValueError` when there is no such role, or not one role per rescuer.
    """
    names = [role.name.lower() for role in Role]
    agents = layout.num_agents
    chosen = [names[i % len(names)] for i in range(agents)] if roles is None else list(roles)
    if unknown := set(chosen) - set(names):
        raise ValueError(f"There is no role {min(unknown)!r}: choose {' or '.join(names)}.")
    if len(chosen) != agents:
        raise ValueError(f"There are {len(chosen)} roles for {agents} rescuers: give one for each.")
    numbers = jnp.asarray([names.index(name) for name in chosen], jnp.uint8)
    bodies = dataclasses.replace(layout.start.bodies, extra=numbers)
    return dataclasses.replace(layout, start=dataclasses.replace(layout.start, bodies=bodies))


def check_site(layout: Layout) -> None:
    """Checks that there is a victim, and that no rescuer starts on a solid object.

    **Raises:** `LayoutError` if not. Traced arrays are not checked.
    """
    world = layout.start
    arrays = (world.cells.object, world.bodies.held, world.bodies.position)
    if any(isinstance(x, Tracer) for x in arrays):
        return
    objects, held, positions = (np.asarray(x) for x in arrays)
    if not np.isin([*objects.flat, *held.flat], VICTIMS).any():
        raise LayoutError("The layout has no victim: put a G, Y or R on the floor.")
    for row, col in positions.tolist():
        if KINDS.solid_codes[objects[row, col]]:
            raise LayoutError(
                f"A rescuer cannot start in row {row + 1}, column {col + 1}, where something lies."
            )
