"""JaxMARL's OvercookedV2 in the same kitchens, with its own, wider observation."""

from typing import Any

import jaxmarl  # pyright: ignore[reportMissingImports]
from with_jaxmarl import LAYOUTS, wrap


def build(spec: dict[str, Any], num_envs: int) -> tuple[Any, Any, Any]:
    return wrap(jaxmarl.make("overcooked_v2", layout=LAYOUTS[spec["layout"]]))
