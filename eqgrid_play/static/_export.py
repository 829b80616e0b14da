"""Exports a world as a static web page: one HTML file with ONNX models, pictures and scripts."""

import base64
import gzip
import io
import json
import re
from pathlib import Path

import jax
import msgspec
import numpy as np
from PIL import Image

from eqgrid import unwrap_state

from ..games import Offer, Place, can_hold, header_of, opening_of
from ._models import start_model, step_model
from ._sheet import Sheet, draw_sheet
from ._world import PageWorld

_PAGE = Path(__file__).parents[1] / "web" / "page"
_MODULE, _BINARY = "ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"
_SCRIPTS = ("board.js", "gamepad.js", "end.js", "game.js", "local.js", "static.js")
_COLOURS = 256


def page(place: Place, offer: Offer, runtime: Path, ticks_per_second: float) -> bytes:
    """Builds a page, which contains everything that it needs.

    **Arguments:**

    - `place`: the world.
    - `offer`: the partner.
    - `runtime`: the folder `dist` of onnxruntime-web.
    - `ticks_per_second`: the rate of the clock.

    **Raises:** `UsageError` when the world cannot be drawn, and `OSError` when the folder does not
    contain the runtime.
    """
    files = {name: (runtime / name).read_bytes() for name in (_MODULE, _BINARY)}
    world = PageWorld(place, offer.partner)
    state = unwrap_state(place.env.reset(jax.random.key(0))[1])
    sheet, image = draw_sheet(place.drawn_layout, state.bodies.extra)
    png = io.BytesIO()
    reduced = Image.fromarray(image).quantize(_COLOURS, method=Image.Quantize.FASTOCTREE)
    reduced.save(png, "PNG", optimize=True)
    files |= {"sheet.png": png.getvalue(), "start.onnx": start_model(world)}
    files |= {"step.onnx": step_model(world)}
    facts = _facts(world, offer, sheet, ticks_per_second)
    data = json.dumps(facts, separators=(",", ":")).replace("<", "\\u003c")
    links = {}
    for name in _SCRIPTS:
        # Data URLs have no relative paths, so scripts import each other by the names of an import
        # map.
        script = re.sub(rb'from "\./(\w+\.js)"', rb'from "eqgrid/\1"', (_PAGE / name).read_bytes())
        links[f"eqgrid/{name}"] = f"data:text/javascript;base64,{base64.b64encode(script).decode()}"
    scripts = [
        f'<script type="application/json" id="facts">{data}</script>',
        f'<script type="importmap">{json.dumps({"imports": links})}</script>',
    ]
    for name, content in files.items():
        text = base64.b64encode(gzip.compress(content, mtime=0)).decode()
        scripts.append(f'<script type="text/plain" id="file-{name}">{text}</script>')
    scripts.append('<script type="module">import "eqgrid/static.js";</script>')
    html = (_PAGE / "static.html").read_text(encoding="utf-8")
    style = f"<style>\n{(_PAGE / 'style.css').read_text(encoding='utf-8')}</style>"
    html = html.replace("<!-- style -->", style)
    return html.replace("<!-- content -->", "\n".join(scripts)).encode()


def _facts(
    world: PageWorld, offer: Offer, sheet: Sheet, ticks_per_second: float
) -> dict[str, object]:
    """The description of the world for the page, in addition to the models."""
    place = world.place
    kinds = place.grid.layout.kinds
    held = [kinds.read(code) for code in range(kinds.num_codes)]
    first = world.start(jax.random.key(0)).shown
    idle = np.atleast_1d(np.asarray(place.idle)).tolist()
    return {
        "opening": msgspec.to_builtins(opening_of(place, [], 0, ticks_per_second)),
        "header": msgspec.to_builtins(header_of(place, (), 0, ticks_per_second)),
        "first": {name: np.asarray(x).tolist() for name, x in first._asdict().items()},
        "seats": place.env.num_agents,
        "partner": offer.words,
        "sha256": offer.sha256,
        "horizon": place.settings.horizon,
        "holds": can_hold(place),
        "idle": idle,
        "choices": len(idle) if place.idle.ndim else None,
        "names": ["" if x is None else x[0].name.replace("_", " ") for x in held],
        "sheet": msgspec.to_builtins(sheet, str_keys=True),
        "runtime": {"module": _MODULE, "binary": _BINARY},
    }
