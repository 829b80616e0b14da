"""`make`: environments by name."""

import inspect
import warnings
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from .._checks import did_you_mean
from ..grid import GridWorld
from ._cogrid import COGRID_IDS, from_cogrid
from .commons import Cleanup, Harvest
from .foraging import Foraging
from .goals import Goals
from .minigrid import MiniGrid
from .overcooked import Overcooked
from .overcooked_v2 import OvercookedV2
from .rescue import Rescue
from .warehouse import Warehouse

EnvName: TypeAlias = Literal[
    "overcooked",
    "overcooked_v2",
    "foraging",
    "warehouse",
    "rescue",
    "minigrid",
    "goals",
    "harvest",
    "cleanup",
]

ENVIRONMENTS: dict[EnvName, Callable[..., GridWorld]] = {
    "overcooked": Overcooked,
    "overcooked_v2": OvercookedV2,
    "foraging": Foraging,
    "warehouse": Warehouse,
    "rescue": Rescue,
    "minigrid": MiniGrid,
    "goals": Goals,
    "harvest": Harvest,
    "cleanup": Cleanup,
}
"""The environments of `make`: the constructor for each name."""


def make(name: EnvName | str, **options: Any) -> GridWorld:
    """Builds an environment by name: `make("overcooked", layout="ring")`.

    ```python
    import jax

    import eqgrid

    env = eqgrid.make("overcooked", layout="cramped", observation="planes")
    observation, state = env.reset(jax.random.key(0))  # uint8[agents, rows, columns, planes]
    ```

    **Arguments:**

    - `name`: a key of `ENVIRONMENTS`; or an id of CoGrid's registry, which gives the most similar
        environment, and a warning that lists the differences.
    - `options`: the options of the environment's constructor.

    **Raises:** `ValueError` when there is no such environment or option, or the constructor rejects
    an option.
    """
    if name in COGRID_IDS:
        world, nearest, differs = from_cogrid(name)
        warnings.warn(f"{name} of CoGrid is {world!r} here, but {differs}.", stacklevel=2)
        return make(world, **{**nearest, **options})
    if name not in ENVIRONMENTS:
        raise ValueError(
            f"There is no environment {name!r}{did_you_mean(name, ENVIRONMENTS)} Known are "
            f"{', '.join(ENVIRONMENTS)}."
        )
    known = list(inspect.signature(ENVIRONMENTS[name]).parameters)
    for option in options:
        if option not in known:
            raise ValueError(
                f"The environment {name!r} has no option {option!r}{did_you_mean(option, known)} "
                f"Known are {', '.join(known)}."
            )
    return ENVIRONMENTS[name](**options)
