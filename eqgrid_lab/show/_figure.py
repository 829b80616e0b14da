"""Figures with matplotlib, which is imported only when the first one is drawn.

The import is slow. By then, the numerical results of a run have been written.
"""

import importlib
import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents import write_whole

from ..base import PictureError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> "Figure":
    """Makes an empty figure.

    **Arguments:**

    - `width`, `height`: its size in inches.

    **Raises:** `PictureError` when matplotlib cannot be imported.
    """
    return _matplotlib("figure").Figure(figsize=(width, height), layout="constrained")


def label_thousands(axes: "Axes") -> None:
    """Labels the horizontal axis with `k` for thousands and `M` for millions."""
    axes.xaxis.set_major_formatter(_matplotlib("ticker").EngFormatter(sep=""))


def plain_axes(axes: "Axes") -> None:
    """Adds a faint grid, and removes the top and right spines."""
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def write_figure(path: Path, figure: "Figure", dpi: int = 150) -> None:
    """Writes a figure as a PNG.

    **Arguments:**

    - `path`: the file.
    - `figure`: the figure.
    - `dpi`: the resolution, in pixels per inch.

    **Raises:** `OSError` when the file cannot be written.
    """
    picture = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # the font may lack characters of a name
        figure.savefig(picture, dpi=dpi, format="png")
    write_whole(path, picture.getvalue())


def _matplotlib(name: str) -> Any:
    """Imports a module of matplotlib.

    The import also reads the user's settings, so it may raise any exception, which must not end a
    finished run.

    **Raises:** `PictureError` when the import raises an exception.
    """
    try:
        return importlib.import_module(f"matplotlib.{name}")
    except Exception as error:
        line = next(iter(str(error).splitlines()), "")
        raise PictureError(
            f"matplotlib cannot be imported ({type(error).__name__}: {line:.300}): repair its "
            "installation or its settings."
        ) from error
