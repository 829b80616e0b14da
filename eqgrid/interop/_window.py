"""A window that displays pictures with matplotlib."""

import importlib
import warnings
from typing import Any, TypeAlias, final

import numpy as np
from jaxtyping import UInt8

from ..errors import missing_library

_Matplotlib: TypeAlias = Any  # modules and objects of matplotlib, which is imported lazily


@final
class Window:
    """A window that displays one picture after another. It opens with the first picture, and does
    not open again once it is closed. If matplotlib has no display, nothing is shown, and there is
    one warning.

    **Arguments:**

    - `title`: the title of the window.
    - `frames_per_second`: the frame rate; `show` waits `1 / frames_per_second` seconds.
    """

    def __init__(self, title: str, frames_per_second: int):
        self._title, self._seconds = title, 1 / frames_per_second
        self._figure: _Matplotlib = None
        self._image: _Matplotlib = None
        self._shown = True

    def show(self, picture: UInt8[np.ndarray, "rows columns 3"]) -> None:
        """Shows a picture, and waits for the duration of a frame."""
        pyplot = _pyplot()
        if self._figure is None:
            self._figure = self._open(pyplot, picture)
        if self._shown and pyplot.fignum_exists(self._figure.number):
            self._image.set_data(picture)
            # Not `pyplot.pause`, which raises the window above all others every time.
            self._figure.canvas.draw_idle()
            self._figure.canvas.start_event_loop(self._seconds)

    def close(self) -> None:
        """Closes the window."""
        if self._figure is not None:
            _pyplot().close(self._figure)
            self._figure = None

    def _open(
        self, pyplot: _Matplotlib, picture: UInt8[np.ndarray, "rows columns 3"]
    ) -> _Matplotlib:
        height, width = picture.shape[:2]
        figure = pyplot.figure(self._title, figsize=(width / 100, height / 100), dpi=100)
        self._image = figure.add_axes((0, 0, 1, 1), frameon=False).imshow(picture)
        self._shown = figure.canvas.required_interactive_framework is not None
        if self._shown:
            figure.show()
        else:
            warnings.warn(
                f"matplotlib's backend {pyplot.get_backend()} has no window here, so nothing is "
                "shown: use render_mode='rgb_array', or choose a backend with MPLBACKEND.",
                stacklevel=4,
            )
        return figure


def _pyplot() -> _Matplotlib:
    """matplotlib's pyplot, which is imported only when a window is used.

    **Raises:** `ImportError` when matplotlib is not installed.
    """
    try:
        return importlib.import_module("matplotlib.pyplot")
    except ModuleNotFoundError as error:
        raise missing_library("A window needs matplotlib", "interop") from error
