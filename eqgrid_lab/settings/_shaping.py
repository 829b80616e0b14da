"""Checking the settings of a shaped reward."""

from typing import Any


def check_shaping(config: Any) -> None:
    """Checks the settings `shaping` and `shaping_steps` of a page.

    **Arguments:**

    - `config`: the settings of the page, an `Experiment` with these fields.

    **Raises:** `ValueError` when the world has no shaped reward, or there are too many steps.
    """
    for name in ("shaping", "shaping_steps"):
        changed = getattr(config, name) != getattr(type(config), name)
        if changed and not config.env.has_shaped_reward:
            raise ValueError(
                f"--{name.replace('_', '-')} weighs a shaped reward, and --env.name "
                f"{config.env.name} has none: leave it out."
            )
    if config.shaping_steps // config.num_envs > 2**31 - 1:
        raise ValueError("--shaping-steps is too large to be counted: lower it.")
