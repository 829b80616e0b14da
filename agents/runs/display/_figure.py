"""Pictures with matplotlib, which is imported when the first one is drawn.

Its import takes long; by then the numbers of a run are written.
"""

import importlib
import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents import write_whole

from ._errors import PictureError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> "Figure":
    """Begins a picture.

    **Arguments:**

    - `width`, `height`: in inches.

    **Raises:** `PictureError` when matplotlib cannot be imported.
    """
    return _matplotlib("figure").Figure(figsize=(width, height), layout="constrained")


def label_thousands(axes: "Axes") -> None:
    """Writes thousands and millions below the horizontal axis as `k` and `M`."""
    axes.xaxis.set_major_formatter(_matplotlib("ticker").EngFormatter(sep=""))


def plain_axes(axes: "Axes") -> None:
    """Draws a faint grid, and no frame above and on the right."""
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def write_figure(path: Path, figure: "Figure", dpi: int = 150) -> None:
    """Writes a picture, as a PNG."""
    picture = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # of a name that the font cannot write
        figure.savefig(picture, dpi=dpi, format="png")
    write_whole(path, picture.getvalue())


def _matplotlib(name: str) -> Any:
    """A module of matplotlib.

    Its import also reads settings of the user, so it may raise anything, and that must not end a
    finished run.
    """
    try:
        return importlib.import_module(f"matplotlib.{name}")
    except Exception as error:
        line = next(iter(str(error).splitlines()), "")
        raise PictureError(
            f"matplotlib cannot be imported ({type(error).__name__}: {line:.300}): repair its "
            "installation or its settings."
        ) from error
