"""The worlds that the command lines offer, and their settings."""

from ._foreign import LIBRARIES as LIBRARIES
from ._generated import GENERATED as GENERATED, AbstractDrawnWorld as AbstractDrawnWorld
from ._kitchens import (
    Kitchen as Kitchen,
    KitchenV2 as KitchenV2,
    build_one_kitchen as build_one_kitchen,
    kitchen_layout as kitchen_layout,
    read_counters as read_counters,
    reference_name as reference_name,
)
from ._other_worlds import BodyWorld as BodyWorld, HarvestWorld as HarvestWorld
from ._world_config import (
    AbstractWorldConfig as AbstractWorldConfig,
    Share as Share,
    check_same_game as check_same_game,
    check_same_world as check_same_world,
    columns_of as columns_of,
)
from ._worlds import (
    WORLDS as WORLDS,
    ForagingWorld as ForagingWorld,
    GoalsWorld as GoalsWorld,
    RescueWorld as RescueWorld,
    WarehouseWorld as WarehouseWorld,
    default_world as default_world,
)
