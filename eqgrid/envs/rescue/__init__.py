from ._contents import Role as Role, Thing as Thing, Tile as Tile, victims_left as victims_left
from ._events import (
    EVENT_NAMES as EVENT_NAMES,
    AllRescued as AllRescued,
    RescueEvents as RescueEvents,
    SharedRescueReward as SharedRescueReward,
)
from ._features import Roles as Roles, rescue_features as rescue_features
from ._generated import GeneratedSites as GeneratedSites
from ._interactions import (
    CarryOut as CarryOut,
    Clear as Clear,
    Heal as Heal,
    Open as Open,
    PickUp as PickUp,
    PutDown as PutDown,
)
from ._kinds import KINDS as KINDS
from ._lift import Lift as Lift
from ._planes import PLANE_NAMES as PLANE_NAMES, RolePlanes as RolePlanes
from ._rescuable import can_rescue as can_rescue
from ._rescue import (
    ACTIONS as ACTIONS,
    PHASES as PHASES,
    RULES as RULES,
    SHAPING as SHAPING,
    Rescue as Rescue,
)
from ._sites import (
    SITES as SITES,
    load_site as load_site,
    parse_site as parse_site,
    with_roles as with_roles,
)
from ._solvable import find_obstacle as find_obstacle
