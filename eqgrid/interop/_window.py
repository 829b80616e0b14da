"""A window that displays pictures with matplotlib."""

import warnings
from typing import Any, TypeAlias, final

import numpy as np
from jaxtyping import UInt8

from ..errors import import_optional

_Matplotlib: TypeAlias = Any  # modules and objects of matplotlib, which is imported lazily


@final
class Window:
    """A window that displays a sequence of pictures. It opens with the first picture, and does not
    open again after the user has closed it. If matplotlib has no display, the window warns once,
    and shows nothing.

    **Arguments:**

    - `title`: the title of the window.
    - `frames_per_second`: the frame rate; `show` waits `1 / frames_per_second` seconds.
    """

    def __init__(self, title: str, frames_per_second: int):
        self._title, self._seconds = title, 1 / frames_per_second
        self._figure: _Matplotlib = None
        self._image: _Matplotlib = None
        self._has_display = True

    def show(self, picture: UInt8[np.ndarray, "rows columns 3"]) -> None:
        """Shows a picture, and waits for the duration of a frame."""
        pyplot = _pyplot()
        if self._figure is None:
            self._figure = self._open(pyplot, picture)
        if self._has_display and pyplot.fignum_exists(self._figure.number):
            self._image.set_data(picture)
            # `pyplot.pause` would raise the window above all other windows in every frame.
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
        self._has_display = figure.canvas.required_interactive_framework is not None
        if self._has_display:
            figure.show()
        else:
            warnings.warn(
                f"matplotlib's backend {pyplot.get_backend()} has no window here, so nothing is "
                "shown: use render_mode='rgb_array', or choose a backend with MPLBACKEND.",
                stacklevel=4,
            )
        return figure


def _pyplot() -> _Matplotlib:
    """Imports matplotlib's pyplot on first use.

    **Raises:** `ImportError` when matplotlib is not installed.
    """
    return import_optional("matplotlib.pyplot", "A window needs matplotlib", "interop")
