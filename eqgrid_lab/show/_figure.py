"""Figures: drawn with eqgrid's own settings of matplotlib, and reported if they cannot be drawn.

Matplotlib is imported only when the first figure is drawn, since the import is slow.
"""

import contextlib
import functools
import importlib
import io
import math
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from agents import write_atomic

from ..base import warn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

P = ParamSpec("P")

_SETTINGS = {
    "savefig.bbox": "tight",  # the picture ends where its content ends, so nothing is cut off
    "text.parse_math": False,  # a name may contain dollar signs
}
"""The settings of all figures, in addition to matplotlib's defaults."""
_LETTER = 0.0088
"""The width of a letter of size 1 in inches, on average over a wide text."""


@contextlib.contextmanager
def drawing(path: Path) -> Iterator[None]:
    """Context manager for code that draws and writes a picture or a video.

    Pictures never fail a run: an error in drawing is printed as a warning.

    **Arguments:**

    - `path`: the file.

    **Raises:** `OSError` when the file cannot be written.
    """
    try:
        yield
    except (Exception, SystemExit) as error:  # code of the user must not end a finished run
        if isinstance(error, OSError) and error.filename == str(path):
            raise
        why = next(iter(str(error).splitlines()), "")
        warn(f"The picture {str(path)!r} cannot be drawn: {type(error).__name__}: {why:.300}")


def draws_figure(
    draw: Callable[Concatenate[Path, P], None],
) -> Callable[Concatenate[Path, P], None]:
    """Decorator of each function that draws a figure into the file of its first argument.

    The function draws with matplotlib's defaults and eqgrid's settings, whatever the user's
    settings are, and its errors are those of `drawing`.
    """

    @functools.wraps(draw)
    def draw_in_context(path: Path, *args: P.args, **kwargs: P.kwargs) -> None:
        with drawing(path):
            style = importlib.import_module("matplotlib.style")
            with style.context(["default", _SETTINGS]):
                draw(path, *args, **kwargs)

    return draw_in_context


def new_figure(width: float, height: float) -> "Figure":
    """Makes an empty figure, in a function with the decorator `draws_figure`.

    **Arguments:**

    - `width`, `height`: the size in inches.
    """
    module = importlib.import_module("matplotlib.figure")
    return module.Figure(figsize=(width, height), layout="constrained")


def write_figure(path: Path, figure: "Figure") -> None:
    """Writes a figure as a PNG.

    **Arguments:**

    - `path`: the file.
    - `figure`: the figure.

    **Raises:** `OSError` when the file cannot be written.
    """
    picture = io.BytesIO()
    figure.savefig(picture, dpi=150, format="png")
    write_atomic(path, picture.getvalue())


def write_title(figure: "Figure", title: str) -> None:
    """Writes a title above the panels of a figure, in as many lines as it needs."""
    width = int(figure.get_figwidth() / (12 * _LETTER))
    figure.suptitle("\n".join(textwrap.wrap(title, width)), x=0.01, ha="left", fontsize=12)


def shortened(name: str, letters: int = 30) -> str:
    """A name for a label: the middle of a long name is replaced by an ellipsis."""
    start = letters // 2
    return name if len(name) <= letters else f"{name[:start]}…{name[start + 1 - letters :]}"


def width_of(letters: int, size: float = 10) -> float:
    """The approximate width of a text in inches.

    **Arguments:**

    - `letters`: the number of its letters.
    - `size`: the size of the font.
    """
    return letters * size * _LETTER


def add_legend(figure: "Figure", title: str | None = None) -> None:
    """Adds a legend of all panels below them, and makes the figure higher by its height."""
    entries = {
        label: line
        for axes in figure.axes
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    labels = [shortened(label, 40) for label in entries]
    width, height = figure.get_size_inches()
    widths = [0.5 + width_of(len(label)) for label in labels]
    columns = len(labels) if sum(widths) <= width else max(1, int(width / max(widths)))
    lines = math.ceil(len(labels) / columns) + (title is not None)
    figure.set_figheight(height + 0.1 + 0.2 * lines)
    place: Any = "outside lower center"
    figure.legend(
        list(entries.values()), labels, loc=place, ncols=columns, frameon=False, title=title
    )


def label_thousands(axis: "Axis") -> None:
    """Labels an axis, such as `axes.xaxis`, with `k` for thousands and `M` for millions."""
    axis.set_major_formatter(importlib.import_module("matplotlib.ticker").EngFormatter(sep=""))
    axis.set_minor_formatter("")


def plain_axes(axes: "Axes") -> None:
    """Adds a faint grid, and removes the top and right spines."""
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
