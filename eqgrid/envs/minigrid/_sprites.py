"""The sprites of MiniGrid: flat shapes in plain colours on a dark floor, drawn by ourselves."""

from collections.abc import Callable

from ...grid import AgentLook, Look, Number, Pen

_FLOOR, _LINE, _WALL = "#16181D", "#33373F", "#6F757F"
_COLOURS = (
    ("#E5484D", "#8E1F24"),
    ("#3DB96B", "#1B6B3A"),
    ("#4C8DF6", "#1F4B99"),
    ("#9A62E0", "#55308A"),
    ("#F2C230", "#8A6B05"),
    ("#9AA1AC", "#565C66"),
)
"""A colour and a dark shade of it, in the order of MiniGrid's colours."""

_STATES = 3


def draw_floor(pen: Pen, look: Look) -> None:
    pen.box(0, 0, 1, 1, fill=_FLOOR, edge=_LINE, width=0.02)


def draw_outside(pen: Pen, look: Look) -> None:
    pen.box(0, 0, 1, 1, fill="#000000")


# Objects. Those that fill their cell are drawn there whatever the place and the radius.


def draw_wall(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    pen.box(0, 0, 1, 1, fill=_WALL)
    pen.line([(0, 0.02), (1, 0.02)], fill="#858B95", width=0.04)
    pen.line([(0, 0.98), (1, 0.98)], fill="#565B64", width=0.04)


def draw_goal(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    fill, dark = _COLOURS[1]
    pen.box(0.03, 0.03, 0.97, 0.97, fill=fill, edge=dark, width=0.03)
    for side in (0.32, 0.16):
        pen.box(0.5 - side, 0.5 - side, 0.5 + side, 0.5 + side, fill=fill, edge=dark, width=0.04)


def draw_lava(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    pen.box(0.02, 0.02, 0.98, 0.98, fill="#E8671B")
    for top in (0.28, 0.52, 0.76):
        wave = [(0.12 + 0.19 * i, top + (0.09 if i % 2 else 0.0)) for i in range(5)]
        pen.line(wave, fill="#7A2A05", width=0.055)


def draw_door(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    """Draws a door: a frame if it is open, a panel with a handle, or one with a keyhole."""
    colour, state = divmod(variant, _STATES)
    fill, dark = _COLOURS[colour]
    if state == 0:
        for left in (0.02, 0.86):
            pen.box(left, 0.02, left + 0.12, 0.98, fill=fill, edge=dark)
        return
    pen.box(0.02, 0.02, 0.98, 0.98, fill=dark, edge=fill, width=0.06)
    if state == 1:
        pen.box(0.16, 0.14, 0.84, 0.86, fill=_FLOOR, edge=fill, width=0.05)
        pen.disc(0.7, 0.5, 0.07, fill=fill)
        return
    pen.disc(0.5, 0.43, 0.13, fill=_FLOOR)
    pen.shape([(0.44, 0.46), (0.56, 0.46), (0.62, 0.76), (0.38, 0.76)], fill=_FLOOR)


def draw_key(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    fill, _ = _COLOURS[variant]
    r = radius
    pen.line([(x, y - 0.3 * r), (x, y + 1.2 * r)], fill=fill, width=0.26 * r)
    for tooth in (0.7, 1.1):
        points = [(x, y + tooth * r), (x + 0.55 * r, y + tooth * r)]
        pen.line(points, fill=fill, width=0.24 * r)
    pen.disc(x, y - 0.65 * r, 0.6 * r, fill=fill)
    pen.disc(x, y - 0.65 * r, 0.25 * r, fill=_FLOOR)


def draw_ball(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    fill, dark = _COLOURS[variant]
    pen.disc(x, y, 1.1 * radius, fill=fill, edge=dark, width=0.12 * radius)
    pen.disc(x - 0.35 * radius, y - 0.4 * radius, 0.2 * radius, fill=(255, 255, 255, 150))


def draw_box(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    fill, dark = _COLOURS[variant]
    r = 1.15 * radius
    pen.box(x - r, y - r, x + r, y + r, fill=dark, edge=fill, width=0.24 * radius)
    pen.box(x - r, y - 0.12 * r, x + r, y + 0.12 * r, fill=fill)


def draw_agent(pen: Pen, agent: AgentLook, draw_held: Callable[..., None]) -> None:
    """Draws a triangle that points to where the agent looks, with its number if there are several,
    and what it holds in front of it.
    """
    colour, dark = agent.colours
    dx, dy = agent.step
    corners = [(0.4, 0.0), (-0.32, 0.32), (-0.2, 0.0), (-0.32, -0.32)]
    points = [(0.5 + a * dx - b * dy, 0.5 + a * dy + b * dx) for a, b in corners]
    pen.shape(points, fill=colour, edge=dark, width=0.03)
    if agent.numbered:
        pen.text(0.5, 0.5, str(agent.number), 0.26, fill="#FFFFFF")
    draw_held(0.5 + 0.28 * dx - 0.26 * dy, 0.5 + 0.28 * dy + 0.26 * dx, 0.13)
