"""Film: an animation with a slider for notebooks, in one piece of HTML."""

import base64
import hashlib
import json
from typing import final

_PLAYER = """
<div id="{name}" style="display:inline-block;font-family:sans-serif">
<img style="display:block;image-rendering:auto" alt="a film of {count} frames">
<button type="button" style="width:4em">play</button>
<input type="range" min="0" max="{last}" value="0" style="width:16em;vertical-align:middle">
</div>
<script>
(() => {{
  const frames = {frames}, order = {order}, box = document.getElementById("{name}");
  const picture = box.querySelector("img"), slider = box.querySelector("input");
  const button = box.querySelector("button");
  let timer = null;
  const show = () => {{ picture.src = "data:image/png;base64," + frames[order[slider.value]]; }};
  const stop = () => {{ clearInterval(timer); timer = null; button.textContent = "play"; }};
  const next = () => {{
    if (+slider.value >= {last}) return stop();
    slider.value = +slider.value + 1; show();
  }};
  button.onclick = () => {{
    if (timer) return stop();
    if (+slider.value >= {last}) slider.value = 0;
    timer = setInterval(next, {pause}); button.textContent = "stop"; show();
  }};
  slider.oninput = () => {{ stop(); show(); }};
  show();
}})();
</script>
"""


@final
class Film:
    """A sequence of frames, which a notebook displays as a player with a slider. It needs no
    server, and stays in the saved notebook.

    - `frames`: the frames, each as the bytes of a PNG file.
    - `frames_per_second`: the playback speed.
    """

    def __init__(self, frames: list[bytes], frames_per_second: int | float):
        self.frames, self.frames_per_second = frames, frames_per_second

    def __len__(self) -> int:
        return len(self.frames)

    def _repr_html_(self) -> str:
        different = list(dict.fromkeys(self.frames))
        number = {frame: i for i, frame in enumerate(different)}
        order = [number[frame] for frame in self.frames]
        digest = hashlib.sha256(b"".join(different) + bytes(str(order), "ascii")).hexdigest()
        return _PLAYER.format(
            name=f"eqgrid-{digest[:16]}",
            count=len(order),
            last=len(order) - 1,
            frames=json.dumps([base64.b64encode(frame).decode() for frame in different]),
            order=json.dumps(order),
            pause=max(1, round(1000 / self.frames_per_second)),
        )
