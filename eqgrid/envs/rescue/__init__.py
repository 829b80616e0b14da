"""Search and rescue: a team of engineers and medics."""

from ._kinds import (
    KINDS as KINDS,
    Role as Role,
    Thing as Thing,
    Tile as Tile,
    victims_left as victims_left,
)
from ._observations import (
    PLANE_NAMES as PLANE_NAMES,
    RolePlanes as RolePlanes,
    Roles as Roles,
    rescue_features as rescue_features,
)
from ._rescue import (
    ACTIONS as ACTIONS,
    PHASES as PHASES,
    RULES as RULES,
    SHAPING as SHAPING,
    Rescue as Rescue,
)
from ._rules import (
    EVENT_NAMES as EVENT_NAMES,
    AllRescued as AllRescued,
    CarryOut as CarryOut,
    Clear as Clear,
    Heal as Heal,
    Lift as Lift,
    Open as Open,
    PickUp as PickUp,
    PutDown as PutDown,
    RescueEvents as RescueEvents,
    SharedRescueReward as SharedRescueReward,
)
from ._sites import (
    SITES as SITES,
    load_site as load_site,
    parse_site as parse_site,
    with_roles as with_roles,
)
