"""Makes the notebooks from their scripts: python docs/make_notebooks.py start

The committed notebook `start.ipynb` contains its outputs, with smaller pictures. Other notebooks
have none. It needs the extra `[notebook]`, and trains for one to two minutes on two CPU cores.
"""

import base64
import dataclasses
import io
import re
import tempfile
from pathlib import Path
from typing import Annotated, Any

import jupytext
import nbformat
import tyro
from nbclient import NotebookClient
from PIL import Image, ImageSequence

FOLDER = Path(__file__).parent / "notebooks"
WITH_OUTPUTS = ("start",)
"""The notebooks that are run."""
GIF_WIDTH, GIF_FRAMES = 200, 50
PNG_WIDTH = 600


@dataclasses.dataclass(frozen=True)
class Notebooks:
    """Makes notebooks from the scripts in docs/notebooks."""

    names: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = (
        "start",
        "biped",
        "human_games",
    )
    """Names of scripts."""


def smaller_gif(data: bytes) -> bytes:
    """The first frames of a video, small."""
    with Image.open(io.BytesIO(data)) as opened:
        size = GIF_WIDTH, round(opened.height * GIF_WIDTH / opened.width)
        frames = [x.convert("RGB").resize(size) for x in ImageSequence.Iterator(opened)]
        duration = opened.info.get("duration", 100)
    frames = frames[:GIF_FRAMES]
    palette = frames[-1].quantize(64)
    frames = [x.quantize(palette=palette, dither=Image.Dither.NONE) for x in frames]
    kind: dict[str, Any] = {"save_all": True, "append_images": frames[1:], "loop": 0}
    frames[0].save(buffer := io.BytesIO(), "GIF", duration=duration, **kind)
    return buffer.getvalue()


def smaller_png(data: bytes) -> bytes:
    """A picture of at most `PNG_WIDTH` with few colours."""
    with Image.open(io.BytesIO(data)) as opened:
        scale = min(1, PNG_WIDTH / opened.width)
        picture = opened.convert("RGB").resize(
            (round(opened.width * scale), round(opened.height * scale)), Image.Resampling.LANCZOS
        )
    picture.quantize(64).save(buffer := io.BytesIO(), "PNG", optimize=True)
    return buffer.getvalue()


SMALLER = {"image/gif": smaller_gif, "image/png": smaller_png}


def joined(outputs: list[Any]) -> list[Any]:
    """The outputs of a cell: texts in one, without paths of this machine, and smaller pictures."""
    texts = [x for x in outputs if x.output_type == "stream"]
    pictures = [x for x in outputs if x.output_type != "stream"]
    for output in pictures:
        output.metadata.clear()  # it has the width of the larger picture
        for kind in SMALLER.keys() & output.data.keys():
            picture = SMALLER[kind](base64.b64decode(output.data[kind]))
            output.data[kind] = base64.b64encode(picture).decode()
    if not texts:
        return pictures
    text = re.sub(r"\S*/(?=\.cache/)", "~/", "".join(x.text for x in texts))
    text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    return [nbformat.v4.new_output("stream", name="stdout", text=text), *pictures]


def make(name: str) -> None:
    """Writes a notebook, with outputs if it is one of `WITH_OUTPUTS`."""
    notebook: Any = jupytext.read(FOLDER / f"{name}.py")
    if name in WITH_OUTPUTS:
        with tempfile.TemporaryDirectory() as folder:
            place = {"metadata": {"path": folder}}
            NotebookClient(notebook, timeout=1200, resources=place, record_timing=False).execute()
        for cell in notebook.cells:
            if "outputs" in cell:
                cell.outputs = joined(cell.outputs)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"{name}-{number}"
        cell.metadata.clear()
    notebook.metadata.pop("language_info", None)
    nbformat.write(notebook, FOLDER / f"{name}.ipynb")


if __name__ == "__main__":
    for chosen in tyro.cli(Notebooks).names:
        make(chosen)
