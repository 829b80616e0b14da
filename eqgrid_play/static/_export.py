"""Exports a world as a static web page: ONNX models, pictures, HTML and scripts."""

import base64
import gzip
import io
import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import jax
import msgspec
import numpy as np
from PIL import Image

from agents import PolicyPartner, TrainedPolicy, write_atomic
from eqgrid import unwrap_state
from eqgrid_lab.base import UsageError
from eqgrid_lab.runs import digest
from eqgrid_lab.settings import to_table

from ..games import Menu, Offer, Place
from ._models import check_models, policy_model, start_model, step_model
from ._sheet import Sheet, draw_sheet
from ._world import PagePolicy, PageWorld

_PAGE = Path(__file__).parents[1] / "web" / "page"
_MODULE, _BINARY = "ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"
_SCRIPTS = ("board.js", "gamepad.js", "game.js", "local.js", "static.js")
_COLOURS = 256
_NOT_A_FILE = """<script>
if (location.protocol === "file:") {
  document.getElementById("loading").textContent = "Browsers load this page only from a web "
    + "server, such as python -m http.server in its folder. A page that eqgrid export-page "
    + "wrote with --single-file needs none.";
}
</script>"""
"""Browsers load no modules from a folder without a server."""
_CHECKED_STEPS = 300


def check_runtime(folder: Path | None) -> None:
    """Checks that a folder contains ONNX Runtime for browsers.

    **Raises:** `UsageError` when it does not, or when no folder is given.
    """
    advice = (
        "run npm install onnxruntime-web in a new folder, and pass its "
        "node_modules/onnxruntime-web/dist to --runtime."
    )
    if folder is None:
        raise UsageError(f"A page needs ONNX Runtime for browsers: {advice}")
    for name in (_MODULE, _BINARY):
        if not (folder / name).is_file():
            raise UsageError(f"There is no {name} in {str(folder)!r}: {advice}")


def page_files(
    place: Place,
    offer: Offer,
    policy: TrainedPolicy,
    menu: Menu,
    *,
    ticks_per_second: float,
    seat: int,
) -> dict[str, bytes]:
    """Builds the files of a page except the runtime, by their names.

    **Arguments:**

    - `place`: the world.
    - `offer`: the partner.
    - `policy`: the policy of the partner.
    - `menu`: the menu of the world and the partner.
    - `ticks_per_second`: the rate of the clock.
    - `seat`: the first seat of the person.

    **Raises:** `UsageError` when the world or the policy cannot be converted to ONNX or drawn, and
    `RunError` when the models do not reproduce the steps in Python.
    """
    own = offer.partner.env if isinstance(offer.partner, PolicyPartner) else None
    world = PageWorld(place, offer.partner, place.env if own is None else own)
    state = unwrap_state(place.env.reset(jax.random.key(0))[1])
    sheet, image = draw_sheet(place.drawn_layout, state.bodies.extra)
    png = io.BytesIO()
    reduced = Image.fromarray(image).quantize(_COLOURS, method=Image.Quantize.FASTOCTREE)
    reduced.save(png, "PNG", optimize=True)
    start, step = start_model(world), step_model(world)
    check_models(world, start, step, steps=_CHECKED_STEPS)
    facts = _facts(world, offer, menu, sheet, ticks_per_second)
    page = (_PAGE / "static.html").read_text(encoding="utf-8")
    data = json.dumps({**facts, "seat": seat}, separators=(",", ":")).replace("<", "\\u003c")
    content = f'<script type="application/json" id="facts">{data}</script>\n<!-- scripts -->'
    return {
        "index.html": page.replace("<!-- content -->", content).encode(),
        "style.css": (_PAGE / "style.css").read_bytes(),
        **{name: (_PAGE / name).read_bytes() for name in _SCRIPTS},
        "sheet.png": png.getvalue(),
        "start.onnx.gz": gzip.compress(start, mtime=0),
        "step.onnx.gz": gzip.compress(step, mtime=0),
        "policy.onnx": policy_model(PagePolicy(policy)),
    }


def write_page(
    files: Mapping[str, bytes], runtime: Path, out: Path, single_file: bool
) -> list[tuple[Path, int]]:
    """Writes a page with its runtime, completely or not at all.

    **Arguments:**

    - `files`: the result of `page_files`.
    - `runtime`: a folder that `check_runtime` accepts.
    - `out`: the folder, or the file with `single_file`; it must not exist.
    - `single_file`: write one HTML file that contains all other files, and the policy in a second
        file next to it.

    **Returns:** the files, and their sizes in bytes.

    **Raises:** `OSError` when a file cannot be written.
    """
    binary = gzip.compress((runtime / _BINARY).read_bytes(), mtime=0)
    whole = {**files, _MODULE: (runtime / _MODULE).read_bytes(), f"{_BINARY}.gz": binary}
    if single_file:
        write_atomic(out, _in_one_file(whole))
        policy = out.with_suffix(".policy.onnx")
        write_atomic(policy, files["policy.onnx"])
        return [(path, path.stat().st_size) for path in (out, policy)]
    page = whole["index.html"].decode()
    page = page.replace("<!-- style -->", '<link rel="stylesheet" href="style.css">')
    scripts = f'{_NOT_A_FILE}\n<script type="module" src="static.js"></script>'
    whole["index.html"] = page.replace("<!-- scripts -->", scripts).encode()
    with tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=f".{out.name}-") as folder:
        inside = Path(folder) / "page"
        inside.mkdir()
        for name, content in whole.items():
            (inside / name).write_bytes(content)
        shutil.move(inside, out)
    return [(out / name, len(content)) for name, content in sorted(whole.items())]


def _in_one_file(files: Mapping[str, bytes]) -> bytes:
    """The HTML page with all other files inside, compressed with gzip and encoded in base64."""
    style = f"<style>\n{files['style.css'].decode()}</style>"
    links = {}
    for name in _SCRIPTS:
        # Data URLs have no relative paths, so scripts import each other by the names of an import
        # map.
        script = re.sub(rb'from "\./(\w+\.js)"', rb'from "eqgrid/\1"', files[name])
        address = f"data:text/javascript;base64,{base64.b64encode(script).decode()}"
        links[f"eqgrid/{name}"] = address
    scripts = [f'<script type="importmap">{json.dumps({"imports": links})}</script>']
    for name in ("sheet.png", "start.onnx.gz", "step.onnx.gz", _MODULE, f"{_BINARY}.gz"):
        is_packed = name.endswith((".gz", ".png"))
        packed = files[name] if is_packed else gzip.compress(files[name], mtime=0)
        text = base64.b64encode(packed).decode()
        scripts.append(f'<script type="text/plain" id="file-{name}">{text}</script>')
    scripts.append('<script type="module">import "eqgrid/static.js";</script>')
    page = files["index.html"].decode().replace("<!-- style -->", style)
    return page.replace("<!-- scripts -->", "\n".join(scripts)).encode()


def _facts(
    world: PageWorld, offer: Offer, menu: Menu, sheet: Sheet, ticks_per_second: float
) -> dict[str, object]:
    """The description of the world for the page, in addition to the models."""
    place = world.place
    kinds, env = place.grid.layout.kinds, place.settings.env
    height, width = place.grid.shape
    held = [kinds.read(code) for code in range(kinds.num_codes)]
    first = world.start(jax.random.key(0)).shown
    idle = np.atleast_1d(np.asarray(place.idle)).tolist()
    opening = {
        "title": place.title,
        "height": height,
        "width": width,
        "colours": place.colours,
        "controls": msgspec.to_builtins(place.controls),
        "horizon": env.horizon,
        "ticks_per_second": ticks_per_second,
        "notes": list(env.how_to_play(place.world)),
        "holds": any(kind.carryable for kind in kinds.objects),
    }
    header = {
        "world": to_table(place.settings)["env"],
        "layout": place.title,
        "ticks_per_second": ticks_per_second,
        "delay": menu.delay,
        "noise": menu.noise,
        "files": {path: digest(Path(path)) for path in env.layout_files},
    }
    return {
        "opening": opening,
        "header": header,
        "first": {name: np.asarray(x).tolist() for name, x in first._asdict().items()},
        "seats": place.env.num_agents,
        "partner": Path(offer.name).stem if offer.sha256 else offer.name,
        "sha256": offer.sha256,
        "version": version("eqgrid"),
        "idle": idle,
        "choices": len(idle) if place.idle.ndim else None,
        "names": ["" if x is None else x[0].name.replace("_", " ") for x in held],
        "sheet": msgspec.to_builtins(sheet, str_keys=True),
        "runtime": {"module": _MODULE, "binary": _BINARY},
    }
