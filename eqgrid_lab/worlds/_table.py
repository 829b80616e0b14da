"""The worlds of the command lines, and facts about them.

Command lines offer every world of `eqgrid.make`. The parameters of its constructor become flags,
with types and defaults from the signature and help from the docstring. The table contains facts
that the constructor does not contain.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias, final

from eqgrid import AbstractEnv, unwrap
from eqgrid.envs import ENVIRONMENTS, imported
from eqgrid.grid import AbstractStart, RandomDirections, RandomPositions, WithProbability

from ..base import Table

Values: TypeAlias = Mapping[str, object]
"""Values of settings by name."""
Settings: TypeAlias = Any
"""The `WorldSettings` of a run, whose fields are the parameters of its world."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class World:
    """Facts about a world that its constructor does not contain.

    In the functions below, `settings` are the `WorldSettings` of a run. `images`, `shaped` and
    `video` are `None` for custom worlds: these facts are read from the world once it is built.

    **Arguments:**

    - `defaults`: settings whose defaults differ from the constructor's.
    - `without`: parameters of the constructor that are not settings.
    - `layouts`: the mapping with its named layouts, as `MODULE:NAME`, if it has any.
    - `generator`: the generator of layouts for `--env.layout generated`, as `MODULE:NAME`, if there
        is one. Its parameters become `--env.generated.*`.
    - `starts`: returns the argument `starts` of the constructor, given the share of random starts.
        A world with this function has the setting `random_starts`.
    - `title`: returns a short description, which becomes part of run names, given the settings.
    - `rules`: returns instructions for human players, given the settings: the task and its rewards.
    - `optimum`: returns the best known return, given the settings.
    - `threshold`: the distance between the return thresholds in `result.json`.
    - `totals`: returns further entries of `info` to sum over evaluation episodes, given the world.
    - `images`: the values of `observation` that are images for a convolutional network.
    - `shaped`: whether there is a shaped reward.
    - `video`: whether a video of an episode can be drawn.
    - `slow_resets`: the layouts in which resets are slow, or `True` for all.
    - `remarks`: returns sentences to print before a run, given the settings.
    - `ppo`, `run`: defaults of PPO, and of a run, that differ from `Experiment`'s.
    """

    defaults: Values = dataclasses.field(default_factory=dict)
    without: Collection[str] = ()
    layouts: str | None = None
    generator: str | None = None
    starts: Callable[[float], tuple[AbstractStart, ...]] | None = None
    title: Callable[[Settings], str] = lambda settings: settings.layout or settings.name
    rules: Callable[[Settings], tuple[str, ...]] = lambda settings: ()
    optimum: Callable[[Settings], float | None] = lambda settings: None
    threshold: float = 0.1
    totals: Callable[[AbstractEnv], dict[str, tuple[str, ...]]] = lambda world: {}
    images: Collection[str] | None = None
    shaped: bool | None = None
    video: bool | None = None
    slow_resets: Collection[str] | bool = ()
    remarks: Callable[[Settings], tuple[str, ...]] = lambda settings: ()
    ppo: Values = dataclasses.field(default_factory=dict)
    run: Values = dataclasses.field(default_factory=dict)

    @property
    def is_stated(self) -> bool:
        """Whether the table states all facts, so that the world need not be built."""
        return self.shaped is not None


def _ours(**facts: Any) -> World:
    """The facts of a bundled world, none of which is `None`, so that `--help` need not build it."""
    return World(**{"images": ("planes",), "shaped": False, "video": True, **facts})


def _rewarded(settings: Settings) -> str:
    return "everybody" if settings.shared else "you"


GENERATED = "generated"
"""The value of `--env.layout` for generated layouts."""
_MISSIONS = {
    "unlock": "Pick up the key, face the door, and toggle it: opening it ends the game.",
    "keycorridor": "Find the key, open the locked door, drop the key, and pick up the ball.",
    "doorkey": "Pick up the key, open the door, and go to the green goal.",
    "lavacrossing": "Go to the green goal, and not into the lava.",
    "dynamicobstacles": "Go to the green goal, and do not run into balls or walls.",
    "multiroom": "Open the doors, and go to the green goal.",
}
_COMMONS: Table = {
    "totals": lambda world: {
        name: (name,) for name in ("efficiency", "equality", "sustainability", "peace")
    },
    "threshold": 10,
    "ppo": {
        "num_epochs": 2,
        "gamma": 0.997,
        "normalize_values": True,
        "entropy_coefficient": 0.03,
        "advantage_std_offset": 0.1,
    },
}
_FACTS: dict[str, World] = {
    "overcooked": _ours(
        layouts="eqgrid.envs.overcooked:KITCHENS",
        threshold=20,  # the default reward for a soup
        shaped=True,
        ppo={"normalize_values": True, "advantage_std_offset": 1.0, "entropy_coefficient": 0.05},
    ),
    "overcooked_v2": _ours(
        defaults={"layout": "cramped_room_v2"},
        layouts="eqgrid.envs.overcooked_v2:KITCHENS",
        rules=lambda settings: (
            "Cook the soup that the recipe indicator shows: put three ingredients into a pot, "
            "wait until it is done, fill it into a dish, and bring it to the serving hatch.",
            "The right soup scores 20, any other soup scores "
            + ("-20." if settings.negative_rewards else "nothing."),
            "Where there is a button, pressing it costs 5 and shows the recipe for some steps.",
        ),
        threshold=20,
        shaped=True,
        ppo={"advantage_std_offset": 1.0},
    ),
    "foraging": _ours(
        without={"normalize_reward"},
        title=lambda settings: (
            f"{settings.size}x{settings.size}-{settings.num_agents}p-{settings.num_food}f"
            + "-coop" * settings.coop
        ),
        rules=lambda settings: (
            "Go next to food and load it. The levels of the agents that load it at the same time "
            "must add up to the level of the food.",
            "All food together is worth 1, shared by the agents that load it.",
        ),
        optimum=lambda settings: 1 / settings.num_agents,  # returns are means over agents
        threshold=0.05,
        images={"grid"},
        ppo={"advantage_std_offset": 0.1},
        run={"total_steps": 2_000_000},
    ),
    "warehouse": _ours(
        defaults={"normalize_observation": True},
        title=lambda settings: f"{settings.size}-{settings.num_agents}ag-{settings.difficulty}",
        rules=lambda settings: (
            "Turn and drive under a requested shelf, load it, and drive it to a goal. Then bring "
            "it back to an empty place.",
            "Each delivery scores 1.",
        ),
        threshold=1,
        slow_resets=True,
        ppo={"advantage_std_offset": 0.1, "entropy_coefficient": 0.03},
        run={"total_steps": 12_000_000, "agent_id": True},
    ),
    "rescue": _ours(
        defaults={"observation": "features"},
        layouts="eqgrid.envs.rescue:SITES",
        starts=lambda share: (WithProbability(share, (RandomPositions(), RandomDirections())),),
        rules=lambda settings: (
            "Pick up green victims, and carry them to an exit. A medic's toggle makes yellow "
            "victims green, an engineer's clears rubble, and red victims are lifted by two. A key "
            "opens the door of its colour.",
            "Each rescued victim gives every agent a reward of 1.",
        ),
        optimum=lambda settings: float(  # the number of victims
            imported("eqgrid.envs.rescue:victims_left")(
                imported("eqgrid.envs.rescue:load_site")(settings.layout).start
            )
        ),
        shaped=True,
        ppo={"advantage_std_offset": 0.1},
        run={"total_steps": 2_000_000},
    ),
    "minigrid": _ours(
        layouts="eqgrid.envs.minigrid:ROOMS",
        title=lambda settings: (
            settings.layout
            + (f"-{settings.size}" if settings.size else "")
            + f"-{settings.num_agents}p" * (settings.num_agents > 1)
        ),
        rules=lambda settings: (
            _MISSIONS.get(settings.layout, "Go to the green goal."),
            "Success scores between 0.1 and 1, and earlier success scores more.",
        ),
        images={"planes", "symbolic"},
        # In other rooms, episodes are so short that some environment resets in nearly every step.
        # Lazy resets would then save nothing.
        slow_resets={"doorkey", "unlock", "keycorridor", "multiroom"},
        run={"total_steps": 2_000_000},
    ),
    "goals": _ours(
        defaults={"num_agents": 2},
        layouts="eqgrid.envs.goals:ROOMS",
        generator="eqgrid.envs.goals:GeneratedMazes",
        rules=lambda settings: (
            f"Go to {'any flag' if settings.shared else 'the flag of your colour'}.",
            "An agent that reaches a flag scores 1 and is done.",
        ),
        optimum=lambda settings: 1.0,
    ),
    "harvest": _ours(
        layouts="eqgrid.envs.commons:ORCHARDS",
        rules=lambda settings: (
            f"Walk onto an apple to eat it, which pays {_rewarded(settings)} 1. Apples grow only "
            "where others are near: a patch that is eaten up stays empty.",
            "An agent that your beam hits is away for some steps.",
        ),
        **_COMMONS,
    ),
    "cleanup": _ours(
        layouts="eqgrid.envs.commons:RIVERS",
        rules=lambda settings: (
            f"Walk onto an apple to eat it, which pays {_rewarded(settings)} 1. Apples grow only "
            "while the river is clean enough: the cleaning beam removes pollution.",
            "An agent that your zapping beam hits is away for some time.",
        ),
        **_COMMONS,
    ),
    "body": _ours(
        defaults={"normalize_observation": True, "normalize_reward": True},
        title=lambda settings: f"{settings.model}-{settings.task}",
        optimum=lambda settings: (
            float(settings.horizon) if settings.title == "cartpole-balance" else None
        ),
        threshold=50,
        totals=lambda world: {
            name: (f"eval_{name}",)
            for part in ("rewards", "measures")
            for name in getattr(unwrap(world), part)
        },
        images=(),
        ppo={"rollout_length": 64, "learning_rate": 1e-3, "entropy_coefficient": 0.003},
        run={"total_steps": 2_000_000, "num_envs": 128},
    ),
}
CONSTRUCTORS = {**ENVIRONMENTS, "body": "eqgrid_lab.worlds._foreign:body"}
"""The constructors of the worlds, as `MODULE:NAME`. A constructor is imported when its world is
chosen.
"""
WORLDS = {name: _FACTS.get(name, World()) for name in CONSTRUCTORS}
"""The facts of all worlds, by name."""
