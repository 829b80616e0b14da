"""The maps of the two worlds, and the function that reads layouts."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..._checks import check_whole
from ...grid import AGENT_CHARACTERS, Layout, LayoutError, choose_text
from ._kinds import APPLE, KINDS, LEGEND, ORCHARD, RIVER
from ._state import start_tally

NUM_AGENTS = 7
"""The default number of agents in a layout without digits, as in Melting Pot. A layout with fewer
starts has one agent per start.
"""

ORCHARDS = {
    "open": """
        ########################
        #AAA    A      A    AAA#
        #AA    AAA    AAA    AA#
        #A    AAAAA  AAAAA    A#
        #      AAA    AAA      #
        #       A      A       #
        #  A                A  #
        # AAA  P        P  AAA #
        #AAAAA            AAAAA#
        # AAA              AAA #
        #  A                A  #
        #                      #
        #                      #
        #                      #
        #  PPPPPPPPPPPPPPPPPP  #
        # PPPPPPPPPPPPPPPPPPPP #
        #PPPPPPPPPPPPPPPPPPPPPP#
        ########################""",
    "small": """
        #############
        #  A     A  #
        # AAA   AAA #
        #AAAAA AAAAA#
        # AAA   AAA #
        #  A     A  #
        #           #
        #P1PPP2PPP3P#
        #############""",
}
"""The layouts of `Harvest` by name: `"open"` is the map of Melting Pot's `commons_harvest__open`,
in which the first two starts, in reading order, lie between the patches; `"small"` is our own, for
three agents.
"""

RIVERS = {
    "river": """
        ##############################
        #HFFFHFFHFHFHFHFHFHFHHFHFFFHF#
        #HFHFHFFHFHFHFHFHFHFHHFHFFFHF#
        #HFFHFFHHFHFHFHFHFHFHHFHFFFHF#
        #HFHFHFFHFHFHFHFHFHFHHFHFFFHF#
        #HFFFFFFHFHFHFHFHFHFHHFHFFFHF#
        #               SFHHHHHH     #
        #   P    P          SSS      #
        #     P     P   P   SS   P   #
        #             P   P SS       #
        #   P    P          SS    P  #
        #               P   SS P     #
        #     P           P SS       #
        #           P       SS  P    #
        #  P             P  SS       #
        # B B B B B B B B B SS  B B B#
        #BBBBBBBBBBBBBBBBBBB  BBBBBBB#
        #BBBBBBBBBBBBBBBBBBBBBBBBBBBB#
        #BBBBBBBBBBBBBBBBBBBBBBBBBBBB#
        #BBBBBBBBBBBBBBBBBBBBBBBBBBBB#
        ##############################""",
    "small": """
        #############
        #HFHFHHFHFHH#
        #FHHFHFHHFHF#
        #           #
        #           #
        #P1PPP2PPP3P#
        #           #
        # B B B B B #
        #BBBBBBBBBBB#
        #############""",
}
"""The layouts of `Cleanup` by name: `"river"` is the map of Melting Pot's `clean_up`, and `"small"`
is our own, for three agents.
"""


_DIGITS_AS_STARTS = str.maketrans(dict.fromkeys(AGENT_CHARACTERS, "P"))


def load_layout(
    layout: str | Path | Layout, known: Mapping[str, str], num_agents: int | None
) -> Layout:
    """A layout by its name in `known`, its text, or the path of a file; or a `Layout` of `KINDS`.

    **Arguments:**

    - `layout`, `known`: as in `choose_text`.
    - `num_agents`: the number of agents; by default the number of digits in the text. Without
        digits, it is `NUM_AGENTS`, or the number of starts if that is smaller.

    **Raises:** `LayoutError` when the layout cannot be used, or has no room for the agents.
    """
    if isinstance(layout, Layout):
        if layout.kinds != KINDS:
            raise LayoutError(
                "The layout is of another game: parse its text with eqgrid.envs.commons.KINDS."
            )
        if num_agents not in (None, layout.num_agents):
            raise LayoutError(
                f"This Layout has {layout.num_agents} agents, not {num_agents}: leave out "
                "`num_agents`, or give the text of the layout."
            )
        return start_tally(layout)
    text = choose_text(layout, known)
    num_digits = sum(character in AGENT_CHARACTERS for character in text)
    # Digits only give the number of agents: in an episode, agents start in random P cells.
    text = text.translate(_DIGITS_AS_STARTS)
    rows = [row.strip() for row in text.strip().splitlines()]
    starts = [(i, j) for i, row in enumerate(rows) for j, x in enumerate(row) if x in "PQ"]
    if not starts:
        raise LayoutError("The layout has no start: mark the cells in which agents start with P.")
    most = min(len(starts), len(AGENT_CHARACTERS))
    default = num_digits or min(NUM_AGENTS, most)
    wanted = default if num_agents is None else num_agents
    check_whole(num_agents=wanted)
    if not 1 <= wanted <= most:
        raise LayoutError(
            f"This layout has room for 1 to {most} agents, which start in cells marked with P, but "
            f"not for {wanted}."
        )
    return start_tally(Layout.parse(text, KINDS, starts=starts[:wanted], legend=LEGEND))


def check_orchard(layout: Layout) -> None:
    """**Raises:** `LayoutError` when no apple can ever grow in `Harvest`."""
    if not (np.asarray(layout.start.cells.object) == APPLE).any():
        raise LayoutError(
            "The layout has no apples, near which others could grow: mark cells of the orchard "
            "with A."
        )


def check_river(layout: Layout) -> None:
    """**Raises:** `LayoutError` when the layout of `Cleanup` has no river or no orchard."""
    tiles = np.asarray(layout.tiles)
    for tile, what, mark in (
        (RIVER, "river", "H, or F where it is polluted"),
        (ORCHARD, "orchard", "B, or A where there is an apple"),
    ):
        if not (tiles == tile).any():
            raise LayoutError(f"The layout has no {what}: mark its cells with {mark}.")
