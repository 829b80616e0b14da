"""Pen: the drawing functions for sprites."""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, final

Colour: TypeAlias = str | tuple[int, ...]
"""A name, such as `"white"`, or red, green, blue and optionally the opacity, from 0 to 255."""
Number: TypeAlias = int | float
"""A coordinate or a length; the side of a cell is 1."""
Point: TypeAlias = tuple[Number, Number]
"""The coordinates x and y: from the left, and from the top."""

SMALLEST_NUMBER = 8
"""The smallest height in pixels of a readable text; smaller texts are not drawn."""


@final
class Pen:
    """Draws the picture of one cell. The unit of length is the side of the cell, `(0, 0)` is the
    upper left corner, and y points down. A colour is a name, `"#RRGGBB"` or
    `(red, green, blue, alpha)`.

    - `pixels`: the side of the cell in the final picture, so that sprites can leave out small
        details.
    """

    def __init__(self, draw: Any, font: Callable[[int], Any], unit: int, pixels: int):
        self._draw, self._font, self._unit = draw, font, unit
        self.pixels = pixels

    def _scale(self, points: Iterable[Point]) -> list[Point]:
        return [(x * self._unit, y * self._unit) for x, y in points]

    def _width(self, width: Number) -> int:
        return max(1, round(width * self._unit))

    def disc(
        self,
        x: Number,
        y: Number,
        rx: Number,
        ry: Number | None = None,
        *,
        fill: Colour | None,
        edge: Colour | None = None,
        width: Number = 0.02,
    ) -> None:
        """Draws an ellipse around `(x, y)` with the radii `rx` and `ry`; a disc by default."""
        ry = rx if ry is None else ry
        box = self._scale([(x - rx, y - ry), (x + rx, y + ry)])
        self._draw.ellipse(box, fill=fill, outline=edge, width=self._width(width) if edge else 0)

    def box(
        self,
        x0: Number,
        y0: Number,
        x1: Number,
        y1: Number,
        *,
        fill: Colour,
        edge: Colour | None = None,
        width: Number = 0.02,
        round_by: Number = 0.0,
    ) -> None:
        """Draws a rectangle with opposite corners `(x0, y0)` and `(x1, y1)`; `round_by` is the
        radius of its corners.
        """
        box = self._scale([(x0, y0), (x1, y1)])
        edge_width = self._width(width) if edge else 0
        self._draw.rounded_rectangle(box, round_by * self._unit, fill, edge, edge_width)

    def shape(
        self,
        points: Iterable[Point],
        *,
        fill: Colour,
        edge: Colour | None = None,
        width: Number = 0.02,
    ) -> None:
        """Draws a filled polygon with these corners."""
        scaled = self._scale(points)
        self._draw.polygon(scaled, fill=fill)
        if edge:
            closed = [*scaled, scaled[0], scaled[1]]
            self._draw.line(closed, fill=edge, width=self._width(width), joint="curve")

    def line(self, points: Iterable[Point], *, fill: Colour, width: Number) -> None:
        """Draws a line through these points."""
        self._draw.line(self._scale(points), fill=fill, width=self._width(width), joint="curve")

    def arc(
        self,
        x: Number,
        y: Number,
        r: Number,
        start: Number,
        end: Number,
        *,
        fill: Colour,
        width: Number,
    ) -> None:
        """Draws an arc from `start` to `end`, in degrees clockwise from the right."""
        box = self._scale([(x - r, y - r), (x + r, y + r)])
        self._draw.arc(box, start, end, fill=fill, width=self._width(width))

    def pointer(self, dx: int, dy: int, colour: str) -> None:
        """Draws a disc on the floor with a tip towards the faced cell; `colour` is `"#RRGGBB"`."""
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        self.disc(0.5, 0.5, 0.4, fill=(red, green, blue, 120))
        tip = [(0.3, -0.265), (0.485, 0.0), (0.3, 0.265)]
        points = [(0.5 + a * dx - b * dy, 0.5 + a * dy + b * dx) for a, b in tip]
        self.shape(points, fill=colour)

    def can_write(self, height: Number) -> bool:
        """Whether a text of this height, in cells, is large enough to read."""
        return height * self.pixels >= SMALLEST_NUMBER

    def text(self, x: Number, y: Number, text: str, height: Number, *, fill: Colour) -> None:
        """Draws a text centred at `(x, y)`, unless it would be too small to read."""
        if self.can_write(height):
            font = self._font(round(height * self._unit))
            place = (x * self._unit, y * self._unit)
            self._draw.text(place, text, fill=fill, font=font, anchor="mm")
