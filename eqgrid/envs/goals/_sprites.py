"""The sprites of flags."""

from ...grid import Number, Pen, agent_colours


def draw_own_flag(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    """Draws a flag in the colour of the agent that it belongs to."""
    _draw(pen, x, y, radius, *agent_colours(variant + 1))


def draw_shared_flag(pen: Pen, variant: int, x: Number, y: Number, radius: Number) -> None:
    """Draws a grey flag, which any agent can take."""
    _draw(pen, x, y, radius, "#9AA1AC", "#4A515D")


def _draw(pen: Pen, x: Number, y: Number, radius: Number, colour: str, dark: str) -> None:
    pole = x - 0.35 * radius
    pen.disc(pole, y + 1.25 * radius, 0.55 * radius, 0.18 * radius, fill=(60, 40, 20, 90))
    pen.line([(pole, y + 1.25 * radius), (pole, y - 1.25 * radius)], fill=dark, width=0.05)
    cloth = [(-0.35, -1.25), (1.1, -0.75), (-0.35, -0.2)]
    pen.shape([(x + a * radius, y + b * radius) for a, b in cloth], fill=colour, edge=dark)
