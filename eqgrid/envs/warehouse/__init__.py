from ._deliveries import (
    AbstractRequestDraw as AbstractRequestDraw,
    Deliver as Deliver,
    UniformRequestDraw as UniformRequestDraw,
)
from ._driving import ChainCollision as ChainCollision, YieldToShelves as YieldToShelves
from ._events import (
    EVENT_NAMES as EVENT_NAMES,
    CountQuietSteps as CountQuietSteps,
    NoDelivery as NoDelivery,
    WarehouseEvents as WarehouseEvents,
)
from ._kinds import KINDS as KINDS, Load as Load, Tile as Tile
from ._layouts import SIZES as SIZES, parse_warehouse as parse_warehouse, shelf_rows as shelf_rows
from ._loading import ToggleLoad as ToggleLoad
from ._sensors import Sensors as Sensors
from ._starts import RandomCells as RandomCells, RandomRequests as RandomRequests
from ._warehouse import (
    ACTIONS as ACTIONS,
    DIFFICULTIES as DIFFICULTIES,
    REWARDS as REWARDS,
    Warehouse as Warehouse,
)
