"""JaxMARL's OvercookedV2, in its own kitchens, and in the five of Overcooked.

There its observation has more planes than that of JaxMARL's Overcooked.
"""

# pyright: reportMissingImports=false

from typing import Any

import jaxmarl
from with_jaxmarl import LAYOUTS, wrap


def build(spec: dict[str, Any], num_envs: int) -> tuple[Any, Any, Any]:
    options = dict(spec["options"])
    if spec["world"] == "overcooked":
        return wrap(jaxmarl.make("overcooked_v2", layout=LAYOUTS[options["layout"]]))
    sight, horizon = options.pop("view_radius"), options.pop("horizon")
    env = jaxmarl.make("overcooked_v2", agent_view_size=sight, max_steps=horizon, **options)
    return wrap(env)
