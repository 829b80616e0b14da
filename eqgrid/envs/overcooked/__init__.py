"""Overcooked: cooks that prepare and deliver soups."""

from ._contents import (
    ALL_RECIPES as ALL_RECIPES,
    MAX_INGREDIENTS as MAX_INGREDIENTS,
    Ingredient as Ingredient,
    Item as Item,
    Recipe as Recipe,
    Recipes as Recipes,
    Tile as Tile,
    encode as encode,
    is_soup as is_soup,
    item_of as item_of,
    soup_contents as soup_contents,
)
from ._cooks import (
    CookMemory as CookMemory,
    CookRole as CookRole,
    HandsOff as HandsOff,
    ScriptedCook as ScriptedCook,
)
from ._kinds import KINDS as KINDS
from ._observations import (
    LAST_STEPS as LAST_STEPS,
    LOSSLESS_COLUMNS as LOSSLESS_COLUMNS,
    kitchen_features as kitchen_features,
    lossless_planes as lossless_planes,
    timed_features as timed_features,
)
from ._overcooked import (
    ACTIONS as ACTIONS,
    DYNAMICS as DYNAMICS,
    INTERACT as INTERACT,
    REFERENCE_SHAPING as REFERENCE_SHAPING,
    RULES as RULES,
    STAY as STAY,
    TRAINING_SHAPING as TRAINING_SHAPING,
    Overcooked as Overcooked,
)
from ._rules import (
    EVENT_NAMES as EVENT_NAMES,
    AddIngredient as AddIngredient,
    Cook as Cook,
    Deliver as Deliver,
    KitchenEvents as KitchenEvents,
    PickUp as PickUp,
    Plate as Plate,
    PutDown as PutDown,
    SharedDeliveryReward as SharedDeliveryReward,
    StartCooking as StartCooking,
    StartWhenFull as StartWhenFull,
    Take as Take,
)
from ._starts import (
    RandomCounters as RandomCounters,
    RandomHeld as RandomHeld,
    RandomPots as RandomPots,
    random_starts as random_starts,
)
from ._ways import label_regions as label_regions
from .layouts import (
    KITCHENS as KITCHENS,
    REFERENCE_NAMES as REFERENCE_NAMES,
    GeneratedKitchens as GeneratedKitchens,
    can_deliver as can_deliver,
    can_deliver_alone as can_deliver_alone,
    find_obstacle as find_obstacle,
    load_layout as load_layout,
    parse_kitchen as parse_kitchen,
    parse_reference as parse_reference,
    reference_layouts as reference_layouts,
)
