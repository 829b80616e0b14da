"""The worlds that `throughput.py` measures, their settings, and the libraries that have them."""

import dataclasses
from typing import Any, Literal, TypeAlias

Peer: TypeAlias = Literal[
    "jaxmarl", "jaxmarl_v2", "cogrid", "jumanji", "navix", "xland_minigrid", "socialjax"
]
PEERS: dict[Peer, str] = {
    "jaxmarl": "JaxMARL overcooked",
    "jaxmarl_v2": "JaxMARL overcooked_v2",
    "cogrid": "CoGrid (JAX)",
    "jumanji": "jumanji",
    "navix": "NAVIX",
    "xland_minigrid": "xland-minigrid",
    "socialjax": "SocialJax",
}
NAMES: dict[str, str] = {"eqgrid": "eqgrid", **PEERS}
"""The name of each library in tables and errors."""
TaskName: TypeAlias = Literal[
    "all",
    "overcooked",
    "overcooked_v2",
    "foraging",
    "foraging_grid",
    "warehouse",
    "rescue",
    "minigrid_empty",
    "minigrid_doorkey",
    "minigrid_fourrooms",
    "goals",
    "harvest",
    "cleanup",
]


@dataclasses.dataclass(frozen=True)
class Task:
    """A world that is measured in every library that has it.

    - `options`: the arguments of eqgrid's constructor; other libraries get the same values.
    - `peers`: the other libraries that have the world.
    """

    world: str
    options: dict[str, Any]
    peers: tuple[Peer, ...] = ()
    num_agents: int = 2
    num_actions: int = 6


_MINIGRID: tuple[Peer, ...] = ("navix", "xland_minigrid")
_COMMONS: tuple[Peer, ...] = ("socialjax",)
_SEEN = {"observation": "symbolic"}
_ALONE = {"num_agents": 1, "num_actions": 7}
_FIELD = {"size": 8, "num_agents": 2, "num_food": 2, "horizon": 50}

TASKS: dict[str, Task] = {
    "overcooked": Task("overcooked", {}, ("jaxmarl", "jaxmarl_v2", "cogrid")),
    "overcooked_v2": Task(
        "overcooked_v2",
        {
            "layout": "grounded_coord_simple",
            "view_radius": 2,
            "horizon": 400,
            "negative_rewards": True,
            "sample_recipe_on_delivery": True,
        },
        ("jaxmarl_v2", "cogrid"),
    ),
    "foraging": Task("foraging", _FIELD | {"observation": "vector"}, ("jumanji",)),
    "foraging_grid": Task("foraging", _FIELD | {"observation": "grid"}, ("jumanji",)),
    "warehouse": Task(
        "warehouse",
        {"size": "tiny", "num_agents": 2, "num_requests": 2, "sensor_range": 1, "horizon": 500},
        ("jumanji",),
        num_actions=5,
    ),
    "rescue": Task("rescue", {"layout": "small", "radius": 3, "horizon": 250}, ("cogrid",)),
    "minigrid_empty": Task("minigrid", {"layout": "empty"} | _SEEN, _MINIGRID, **_ALONE),
    "minigrid_doorkey": Task("minigrid", {"layout": "doorkey"} | _SEEN, _MINIGRID, **_ALONE),
    "minigrid_fourrooms": Task("minigrid", {"layout": "fourrooms"} | _SEEN, _MINIGRID, **_ALONE),
    "goals": Task("goals", {"layout": "room", "num_agents": 2, "horizon": 50}, num_actions=5),
    "harvest": Task("harvest", {"layout": "open"}, _COMMONS, num_agents=7, num_actions=8),
    "cleanup": Task("cleanup", {"layout": "river"}, _COMMONS, num_agents=7, num_actions=9),
}
"""The tasks by name. The options of `overcooked` are flags of `throughput.py`."""
