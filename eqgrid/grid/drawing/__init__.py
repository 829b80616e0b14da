"""Pictures and videos of grid worlds."""

from ._looks import (
    AgentLook as AgentLook,
    Colour as Colour,
    Look as Look,
    LookCodes as LookCodes,
    Number as Number,
    Pen as Pen,
    Point as Point,
    agent_colours as agent_colours,
    look_codes as look_codes,
    top_of as top_of,
)
from ._render import (
    Video as Video,
    bare_looks as bare_looks,
    draw_look as draw_look,
    draw_over_look as draw_over_look,
    look_png as look_png,
    looks as looks,
    render as render,
    render_episode as render_episode,
    video as video,
)
