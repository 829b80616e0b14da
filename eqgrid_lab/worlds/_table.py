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
from eqgrid.grid import AbstractStart, Kinds, RandomDirections, RandomPositions, WithProbability

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
    - `pictures`: returns `WorldSettings.rule_pictures`, given the settings and the kinds.
    - `rules`: returns the rules that the pictures do not show, given the settings.
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
    pictures: Callable[[Settings, Kinds], str] = lambda settings, kinds: ""
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


def _eat(settings: Settings) -> str:
    return f"1 orchard/apple | Eat apples: +1{' for everybody' * settings.shared}."


def _cook(settings: Settings, kinds: Kinds) -> str:
    is_classic = settings.dynamics == "classic"
    number, start = ("3 ", "W") if is_classic else ("", "Start it with empty hands, and w")
    task = f"Face things and interact: put {number}ingredients into a pot."
    return f"""
        onion_dispenser tomato_dispenser 1/onion pot/soup.8 | {task}
        {"1" * (not is_classic)} pot/soup.12@12 pot/soup.12@0 | {start}ait until the soup is done.
        dish_dispenser 1/dish pot/soup.12@0 | Fill it into a dish.
        1/soup.12 serving | Bring it to the bell.
    """


def _cook_v2(settings: Settings, kinds: Kinds) -> str:
    name = kinds.tiles[-1].name.removesuffix("_pile")
    return f"""
        indicator/soup.-1 | This board shows the soup to cook.
        {name}_pile 1/{name} pot | Face things and interact: put its 3 ingredients into a pot.
        plate_pile 1/plate pot/soup.-1@0 | When the soup is done, fill it into a dish.
        1/soup.-1 serving | Bring it to the bell.
    """


GENERATED = "generated"
"""The value of `--env.layout` for generated layouts."""
_GOAL = "\n1 /goal | Go to the green goal."
_UNLOCK = "1 /key.4 | Pick up the key.\n1/key.4 /door.14 | Open the locked door."
_MISSIONS = {
    "unlock": _UNLOCK,
    "keycorridor": f"{_UNLOCK}\n1 /ball | Drop the key, and pick up the ball.",
    "doorkey": _UNLOCK + _GOAL,
    "lavacrossing": f"{_GOAL}\n1 /lava | Keep out of the lava.",
    "dynamicobstacles": f"{_GOAL}\n1 /ball.2 /wall | Do not run into balls or walls.",
    "multiroom": "1 /door.13 | Open the doors." + _GOAL,
}
_ZAP = "1 *1 2*1 | Your zapping beam takes others out for some time."
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
        pictures=_cook,
        threshold=20,  # the default reward for a soup
        shaped=True,
        ppo={"normalize_values": True, "advantage_std_offset": 1.0, "entropy_coefficient": 0.05},
    ),
    "overcooked_v2": _ours(
        defaults={"layout": "cramped_room_v2"},
        layouts="eqgrid.envs.overcooked_v2:KITCHENS",
        pictures=_cook_v2,
        rules=lambda settings: (
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
        pictures=lambda settings, kinds: (
            """
            1=2 /food.1 | Load food next to you, if your level is high enough.
            1=2 /food.2 2=1 | At the same time, your levels add up.
        """
        ),
        rules=lambda settings: (
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
        pictures=lambda settings, kinds: (
            """
            1 rack/requested_shelf | Turn and drive under a requested shelf, and load it.
            1/requested_shelf goal | Drive it to a goal: +1.
            1/shelf rack | Then bring it back to an empty place.
        """
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
        pictures=lambda settings, kinds: (
            """
            1/green_victim=0 exit | Carry green victims to an exit: +1 for everybody.
            1=0 /yellow_victim | A medic makes yellow victims green.
            1=0 /red_victim 2=1 | Two lift a red victim.
            /rubble 2=1 | An engineer clears rubble.
        """
        ),
        rules=lambda settings: ("A key opens the door of its colour.",),
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
        pictures=lambda settings, kinds: _MISSIONS.get(settings.layout, _GOAL),
        rules=lambda settings: (
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
        pictures=lambda settings, kinds: (
            "1 /flag | Go to any flag: +1, and you are done."
            if settings.shared
            else "1 /own_flag | Go to the flag of your colour: +1, and you are done."
        ),
        optimum=lambda settings: 1.0,
    ),
    "harvest": _ours(
        layouts="eqgrid.envs.commons:ORCHARDS",
        pictures=lambda settings, kinds: (
            f"""
            {_eat(settings)}
            orchard/apple orchard orchard/apple | Apples grow only near other apples.
            orchard orchard orchard | A patch that is eaten up stays empty.
            {_ZAP}
        """
        ),
        **_COMMONS,
    ),
    "cleanup": _ours(
        layouts="eqgrid.envs.commons:RIVERS",
        pictures=lambda settings, kinds: (
            f"""
            {_eat(settings)}
            river river orchard/apple | Apples grow only while the river is clean enough.
            1 river/pollution*2 river/pollution*2 | Your cleaning beam removes pollution.
            {_ZAP}
        """
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
