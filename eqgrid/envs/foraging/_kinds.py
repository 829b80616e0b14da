"""The kinds of tiles and objects of level-based foraging."""

from ...grid import AgentLook, Kind, Kinds, Number, Pen

_SKIN, _SKIN_EDGE = "#E2402F", "#7E150C"
_LEAF, _LEAF_EDGE = "#3E9A45", "#1F5A26"


def draw_food(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    """Draws an apple with its level."""
    r = 1.25 * radius
    pen.line([(x, y - 0.6 * r), (x + 0.1 * r, y - 1.15 * r)], fill="#6B4A2B", width=0.14 * r)
    leaf = [(0.1, -0.85), (0.35, -1.15), (0.7, -1.1), (0.5, -0.85)]
    pen.shape([(x + a * r, y + b * r) for a, b in leaf], fill=_LEAF, edge=_LEAF_EDGE, width=0.01)
    pen.disc(x, y + 0.06 * r, r, 0.92 * r, fill=_SKIN, edge=_SKIN_EDGE, width=0.1 * r)
    pen.text(x, y + 0.08 * r, str(variant + 1), 1.1 * r, fill="#FFFFFF")


def draw_forager(pen: Pen, agent: AgentLook, draw_held: object) -> None:
    """Draws head and shoulders in the agent's colour, with its level."""
    colour, dark = agent.colours
    pen.disc(0.5, 0.3, 0.18, fill=colour, edge=dark, width=0.03)
    pen.box(0.2, 0.42, 0.8, 0.92, fill=colour, edge=dark, width=0.03, round_by=0.22)
    pen.text(0.5, 0.67, str(agent.extra[0]), 0.4, fill="#FFFFFF")


FLOOR, WALL = 0, 1
"""The numbers of the kinds of tiles. The wall is only used as the border of the field."""

MAX_LEVEL = 32
"""The highest level of food and of agents."""


KINDS = Kinds(
    tiles=(
        Kind("floor", " ", holds=True),
        Kind("wall", "#", solid=True),
    ),
    objects=(Kind("food", solid=True, variants=MAX_LEVEL, sprite=draw_food),),
    agent_sprite=draw_forager,
)
"""The kinds of level-based foraging. Food is the only kind of object, so its code is its level:
1, 2, and so on. The level of an agent is the only entry of its `Bodies.extra`.
"""
