"""`make`: environments by name."""

import importlib
import inspect
import warnings
from typing import Any

from ..errors import did_you_mean
from ..grid import AbstractGridWorld, Layout
from .overcooked import KITCHENS, Recipes, parse_kitchen

_COOK_TIME = 30
_ONIONS, _TOMATOES = ("onion",) * 3, ("tomato",) * 3
_THEIRS = "(in CoGrid: up, down, left, right, pick up or drop, toggle, no-op)"
_KITCHEN = (
    f"actions are north, south, east, west, stay, interact {_THEIRS}; "
    "the reward is 20 for a soup, and info['shaped_reward'] has the rewards of each cook for "
    "potting, plating and useful dishes (in CoGrid, those for potting and plating are in the "
    "reward); if two cooks collide, no cook moves (in CoGrid, one of them does); cooks start at "
    "the marks of the layout, facing north (in CoGrid, directions and, in some kitchens, positions "
    "are random); observations are the planes of Overcooked-AI"
)
_V2 = (
    f"actions are right, down, left, up, stay, interact {_THEIRS}; "
    "rules, rewards and planes are those of JaxMARL's OvercookedV2, and the shaping reward is in "
    "info['shaped_reward'] (in CoGrid, it is part of the reward)"
)
_MIXED = """
    XPXPX
    O1 2T
    X   X
    XDSXX"""
_INDICATOR = """
    XXPXX
    O1 2T
    D   R
    XXXSX"""
_CLASSIC = {
    "Overcooked-CrampedRoom-V0": "cramped",
    "Overcooked-AsymmetricAdvantages-V0": "asymmetric",
    "Overcooked-CoordinationRing-V0": "ring",
    "Overcooked-ForcedCoordination-V0": "forced",
    "Overcooked-CounterCircuit-V0": "circuit",
    "Overcooked-CrampedRoom-LocalView-V0": "cramped",
    "Overcooked-CrampedRoom-SingleAgent-V0": "cramped",
}
_BENCHMARK: dict[str, dict[str, object]] = {
    "CrampedRoomIndicator": {"layout": _INDICATOR, "negative_rewards": True},
    "GroundedCoordSimple": {"layout": "grounded_coord_simple", "negative_rewards": True},
    "GroundedCoordRing": {"layout": "grounded_coord_ring", "negative_rewards": True},
    "TestTimeSimple": {"layout": "test_time_simple", "negative_rewards": True},
    "TestTimeWide": {"layout": "test_time_wide", "negative_rewards": True},
    "DemoCookSimple": {"layout": "demo_cook_simple", "negative_rewards": True},
    "DemoCookWide": {"layout": "demo_cook_wide", "negative_rewards": True},
}
COGRID_IDS = (
    *_CLASSIC,
    "Overcooked-AsymmetricAdvantages-PartialObs-V0",
    "Overcooked-CrampedMixedKitchen-V0",
    *(f"OvercookedV2-{name}-V0" for name in _BENCHMARK),
    "SearchRescue-Test-V0",
)
"""The ids in the registry of CoGrid 0.3.2."""


def from_cogrid(name: str) -> tuple[str, dict[str, object], str]:
    """The environment of eqgrid that is most similar to one of `COGRID_IDS`.

    **Returns:** its name, its options, and a description of the differences from CoGrid's.
    """
    kind, short = name.split("-")[:2]
    if name in _CLASSIC:
        text = KITCHENS[_CLASSIC[name]]
        text = text.replace("2", " ") if "SingleAgent" in name else text
        return "overcooked", {"layout": _kitchen(text, [_ONIONS]), "horizon": 1000}, _KITCHEN
    if name == "Overcooked-CrampedMixedKitchen-V0":
        layout = _kitchen(_MIXED, [_ONIONS, _TOMATOES])
        differs = (
            "both soups are always ordered (in CoGrid, orders appear and expire, with a penalty)"
        )
        return "overcooked", {"layout": layout, "horizon": 4000}, f"{differs}; {_KITCHEN}"
    if name == "Overcooked-AsymmetricAdvantages-PartialObs-V0":
        options = {"layout": "asymm_advantages", "view_radius": 1, "horizon": 1000}
        return "overcooked_v2", options, f"{_V2}; a soup cooks for 20 steps (CoGrid: {_COOK_TIME})"
    if kind == "OvercookedV2":
        view = {} if short == "CrampedRoomIndicator" else {"view_radius": 2}
        shared = {"recipes": (_ONIONS, _TOMATOES), "sample_recipe_on_delivery": True}
        return "overcooked_v2", {**_BENCHMARK[short], **view, **shared}, _V2
    differs = (
        "sites, rules and rewards are those of eqgrid; actions are turn left, turn right, go "
        f"forward, stay, pick up or put down, toggle {_THEIRS}"
    )
    return "rescue", {"horizon": 1000}, differs


def _kitchen(text: str, orders: list[tuple[str, ...]]) -> Layout:
    return parse_kitchen(text, Recipes(orders=orders, cook_times=_COOK_TIME))


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
"""The environments of `make`: the constructor of each, which is imported on first use. A new one
needs its own package and a line here; command lines then have it, too."""


def imported(name: str) -> Any:
    """The object with this `MODULE:NAME`, such as a value of `ENVIRONMENTS`, after importing it."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


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
