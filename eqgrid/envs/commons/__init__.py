from ._apples import (
    Eat as Eat,
    GrowByCleanWater as GrowByCleanWater,
    Regrow as Regrow,
    count_near as count_near,
    polluted_share as polluted_share,
)
from ._beams import (
    CLEAN as CLEAN,
    ZAP as ZAP,
    BeamSize as BeamSize,
    Clean as Clean,
    Hit as Hit,
    Shots as Shots,
    Zap as Zap,
    cast as cast,
)
from ._cleanup import CLEANUP_ACTIONS as CLEANUP_ACTIONS, Cleanup as Cleanup
from ._harvest import HARVEST_ACTIONS as HARVEST_ACTIONS, REGROWTH as REGROWTH, Harvest as Harvest
from ._kinds import (
    CLEANING_BEAM as CLEANING_BEAM,
    KINDS as KINDS,
    LEGEND as LEGEND,
    ZAP_BEAM as ZAP_BEAM,
)
from ._layouts import NUM_AGENTS as NUM_AGENTS, ORCHARDS as ORCHARDS, RIVERS as RIVERS
from ._measures import (
    MEASURES as MEASURES,
    efficiency as efficiency,
    equality as equality,
    peace as peace,
    sustainability as sustainability,
)
from ._pollution import Pollute as Pollute
from ._state import Tally as Tally
from ._views import (
    ORCHARD_PLANES as ORCHARD_PLANES,
    RIVER_PLANES as RIVER_PLANES,
    orchard_view as orchard_view,
    river_view as river_view,
)
