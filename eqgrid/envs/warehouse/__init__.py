"""The robot warehouse: agents carry shelves."""

from ._kinds import KINDS as KINDS, Load as Load, Tile as Tile
from ._layouts import (
    SIZES as SIZES,
    RandomCells as RandomCells,
    RandomRequests as RandomRequests,
    parse_warehouse as parse_warehouse,
    shelf_rows as shelf_rows,
)
from ._rules import (
    EVENT_NAMES as EVENT_NAMES,
    AbstractRequestSampler as AbstractRequestSampler,
    ChainCollision as ChainCollision,
    CountQuietSteps as CountQuietSteps,
    Deliver as Deliver,
    NoDelivery as NoDelivery,
    ToggleLoad as ToggleLoad,
    UniformRequests as UniformRequests,
    WarehouseEvents as WarehouseEvents,
    YieldToShelves as YieldToShelves,
)
from ._warehouse import (
    ACTIONS as ACTIONS,
    DIFFICULTIES as DIFFICULTIES,
    REWARDS as REWARDS,
    Sensors as Sensors,
    Warehouse as Warehouse,
)
