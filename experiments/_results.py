"""Results for other programs to read."""

import csv
import io
import json
import math
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from agents import write_whole


def write_json(path: Path, result: dict[str, Any]) -> None:
    """Writes a result; a number that is not finite becomes `null`, as JSON knows none."""
    finite = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in result.items()
    }
    write_whole(path, (json.dumps(finite, indent=2) + "\n").encode())


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Writes a table; numbers are not rounded."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([header, *rows])
    write_whole(path, text.getvalue().encode())


def write_figure(path: Path, figure: Figure, dpi: int = 150) -> None:
    """Writes a picture, as a PNG."""
    picture = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # of a name that the font cannot write
        figure.savefig(picture, dpi=dpi, format="png")
    write_whole(path, picture.getvalue())
