"""`make`: environments by name. For an id of CoGrid's registry, it builds the most similar one."""

import importlib
import inspect
import warnings
from typing import Any

from ..errors import did_you_mean
from ..grid import AbstractGridWorld, Layout
from .overcooked import KITCHENS, Recipes, parse_kitchen

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


_CLASSIC = {
    "Overcooked-CrampedRoom-V0": "cramped",
    "Overcooked-AsymmetricAdvantages-V0": "asymmetric",
    "Overcooked-CoordinationRing-V0": "ring",
    "Overcooked-ForcedCoordination-V0": "forced",
    "Overcooked-CounterCircuit-V0": "circuit",
    "Overcooked-CrampedRoom-LocalView-V0": "cramped",
    "Overcooked-CrampedRoom-SingleAgent-V0": "cramped",
}
"""The layout of `Overcooked` for each id."""

_V2 = {
    "OvercookedV2-CrampedRoomIndicator-V0": """
        XXPXX
        O1 2T
        D   R
        XXXSX""",
    "OvercookedV2-GroundedCoordSimple-V0": "grounded_coord_simple",
    "OvercookedV2-GroundedCoordRing-V0": "grounded_coord_ring",
    "OvercookedV2-TestTimeSimple-V0": "test_time_simple",
    "OvercookedV2-TestTimeWide-V0": "test_time_wide",
    "OvercookedV2-DemoCookSimple-V0": "demo_cook_simple",
    "OvercookedV2-DemoCookWide-V0": "demo_cook_wide",
}
"""The layout of `OvercookedV2` for each id."""

_MIXED = "Overcooked-CrampedMixedKitchen-V0"
_MIXED_LAYOUT = """
    XPXPX
    O1 2T
    X   X
    XDSXX"""
_PARTIAL = "Overcooked-AsymmetricAdvantages-PartialObs-V0"
_RESCUE = "SearchRescue-Test-V0"

COGRID_IDS = (*_CLASSIC, _PARTIAL, _MIXED, *_V2, _RESCUE)
"""The ids in the registry of CoGrid 0.3.2."""

_COOK_TIME = 30
_ONIONS, _TOMATOES = ("onion",) * 3, ("tomato",) * 3

# The differences from CoGrid, as parts of the sentence that `make` prints.
_ACTIONS = "(in CoGrid: up, down, left, right, pick up or drop, toggle, no-op)"
_CLASSIC_DIFFERS = (
    f"actions are north, south, east, west, stay, interact {_ACTIONS}; "
    "the reward is 20 for a soup, and info['shaped_reward'] has the rewards of each cook for "
    "potting, plating and useful dishes (in CoGrid, those for potting and plating are in the "
    "reward); if two cooks collide, no cook moves (in CoGrid, one of them does); cooks start at "
    "the marks of the layout, facing north (in CoGrid, directions and, in some kitchens, positions "
    "are random); observations are the planes of Overcooked-AI"
)
_V2_DIFFERS = (
    f"actions are right, down, left, up, stay, interact {_ACTIONS}; "
    "rules, rewards and planes are those of JaxMARL's OvercookedV2, and the shaping reward is in "
    "info['shaped_reward'] (in CoGrid, it is part of the reward)"
)
_RESCUE_DIFFERS = (
    "sites, rules and rewards are those of eqgrid; actions are turn left, turn right, go "
    f"forward, stay, pick up or put down, toggle {_ACTIONS}"
)


def from_cogrid(name: str) -> tuple[str, dict[str, object], str]:
    """The environment of eqgrid that is most similar to one of `COGRID_IDS`.

    **Returns:** its name, its options, and a description of the differences from CoGrid's.
    """
    options: dict[str, object]
    if name in _CLASSIC:
        text = KITCHENS[_CLASSIC[name]]
        text = text.replace("2", " ") if "SingleAgent" in name else text
        options = {"layout": _kitchen(text, [_ONIONS]), "horizon": 1000}
        return "overcooked", options, _CLASSIC_DIFFERS
    if name == _MIXED:
        options = {"layout": _kitchen(_MIXED_LAYOUT, [_ONIONS, _TOMATOES]), "horizon": 4000}
        orders = (
            "both soups are always ordered (in CoGrid, orders appear and expire, with a penalty)"
        )
        return "overcooked", options, f"{orders}; {_CLASSIC_DIFFERS}"
    if name == _PARTIAL:
        options = {"layout": "asymm_advantages", "view_radius": 1, "horizon": 1000}
        cook_time = f"a soup cooks for 20 steps (CoGrid: {_COOK_TIME})"
        return "overcooked_v2", options, f"{_V2_DIFFERS}; {cook_time}"
    if name in _V2:
        options = {
            "layout": _V2[name],
            "negative_rewards": True,
            "recipes": (_ONIONS, _TOMATOES),
            "sample_recipe_on_delivery": True,
        }
        if "CrampedRoomIndicator" not in name:
            options["view_radius"] = 2
        return "overcooked_v2", options, _V2_DIFFERS
    return "rescue", {"horizon": 1000}, _RESCUE_DIFFERS


def _kitchen(text: str, orders: list[tuple[str, ...]]) -> Layout:
    return parse_kitchen(text, Recipes(orders=orders, cook_times=_COOK_TIME))
