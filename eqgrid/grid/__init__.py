from ._features import Features as Features
from ._interactions import (
    AbstractInteraction as AbstractInteraction,
    AddIngredient as AddIngredient,
    Deliver as Deliver,
    Events as Events,
    Outcome as Outcome,
    PickUp as PickUp,
    Plate as Plate,
    PutDown as PutDown,
    StartCooking as StartCooking,
    Take as Take,
    empty_cell as empty_cell,
    hand_with as hand_with,
    interact as interact,
)
from ._layout import (
    CHARACTERS as CHARACTERS,
    Layout as Layout,
    LayoutError as LayoutError,
    empty_world as empty_world,
)
from ._motion import AbstractMotion as AbstractMotion, AllOrNone as AllOrNone
from ._observation import AbstractObservation as AbstractObservation, Planes as Planes
from ._recipes import (
    ALL_RECIPES as ALL_RECIPES,
    Recipe as Recipe,
    Recipes as Recipes,
)
from ._render import render as render, render_episode as render_episode
from ._rewards import (
    EVENT_NAMES as EVENT_NAMES,
    AbstractReward as AbstractReward,
    EventWeights as EventWeights,
    TeamDelivery as TeamDelivery,
    count_events as count_events,
)
from ._start import (
    AbstractStart as AbstractStart,
    RandomCells as RandomCells,
    RandomHeadings as RandomHeadings,
    RandomHeld as RandomHeld,
    RandomPots as RandomPots,
    Sometimes as Sometimes,
    apply_starts as apply_starts,
    random_starts as random_starts,
)
from ._ticks import (
    AbstractTick as AbstractTick,
    Cook as Cook,
    StartWhenFull as StartWhenFull,
    tick as tick,
)
from ._world import (
    IDLE as IDLE,
    MAX_INGREDIENTS as MAX_INGREDIENTS,
    Action as Action,
    Bodies as Bodies,
    Cell as Cell,
    Fixture as Fixture,
    Hand as Hand,
    Heading as Heading,
    Ingredient as Ingredient,
    Item as Item,
    World as World,
    as_thing as as_thing,
)
