"""`make`: environments by name."""

import importlib
import inspect
from typing import Any

from ..errors import did_you_mean
from ..grid import AbstractGridWorld

ENVIRONMENTS = {
    "overcooked": "eqgrid.envs.overcooked:Overcooked",
    "overcooked_v2": "eqgrid.envs.overcooked_v2:OvercookedV2",
    "foraging": "eqgrid.envs.foraging:Foraging",
    "warehouse": "eqgrid.envs.warehouse:Warehouse",
    "rescue": "eqgrid.envs.rescue:Rescue",
    "minigrid": "eqgrid.envs.minigrid:MiniGrid",
    "goals": "eqgrid.envs.goals:Goals",
    "harvest": "eqgrid.envs.commons:Harvest",
    "cleanup": "eqgrid.envs.commons:Cleanup",
}
"""The environments of `make`: the constructor of each name, which is imported on first use. A new
environment needs a package of its own and a line here. It then also appears in command lines.
"""


def make(name: str, **options: object) -> AbstractGridWorld:
    """Builds an environment by name: `make("overcooked", layout="ring")`.

    ```python
    import jax

    import eqgrid

    env = eqgrid.make("overcooked", layout="cramped", observation="planes")
    observation, state = env.reset(jax.random.key(0))  # uint8[agents, rows, columns, planes]
    ```

    **Arguments:**

    - `name`: a key of `ENVIRONMENTS`.
    - `options`: the options of the environment's constructor.

    **Raises:** `ValueError` when there is no such environment or option, or the constructor rejects
    an option.
    """
    if name not in ENVIRONMENTS:
        raise ValueError(
            f"There is no environment {name!r}{did_you_mean(name, ENVIRONMENTS)} Known are "
            f"{', '.join(ENVIRONMENTS)}."
        )
    build = imported(ENVIRONMENTS[name])
    known = list(inspect.signature(build).parameters)
    for option in options:
        if option not in known:
            raise ValueError(
                f"The environment {name!r} has no option {option!r}{did_you_mean(option, known)} "
                f"Known are {', '.join(known)}."
            )
    return build(**options)


def imported(name: str) -> Any:
    """Imports and returns the object at `MODULE:NAME`, such as a value of `ENVIRONMENTS`."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
