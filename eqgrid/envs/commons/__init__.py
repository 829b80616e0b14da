"""Harvest and Cleanup: worlds in which agents share a resource."""

from ._kinds import (
    CLEANING_BEAM as CLEANING_BEAM,
    KINDS as KINDS,
    LEGEND as LEGEND,
    ZAP_BEAM as ZAP_BEAM,
)
from ._layouts import NUM_AGENTS as NUM_AGENTS, ORCHARDS as ORCHARDS, RIVERS as RIVERS
from ._rules import (
    CLEAN as CLEAN,
    ZAP as ZAP,
    BeamSize as BeamSize,
    Clean as Clean,
    Eat as Eat,
    GrowByCleanWater as GrowByCleanWater,
    Hit as Hit,
    Pollute as Pollute,
    Regrow as Regrow,
    Shots as Shots,
    Zap as Zap,
    cast as cast,
    count_near as count_near,
    polluted_share as polluted_share,
)
from ._state import (
    MEASURES as MEASURES,
    Tally as Tally,
    efficiency as efficiency,
    equality as equality,
    peace as peace,
    sustainability as sustainability,
)
from ._worlds import (
    CLEANUP_ACTIONS as CLEANUP_ACTIONS,
    HARVEST_ACTIONS as HARVEST_ACTIONS,
    ORCHARD_PLANES as ORCHARD_PLANES,
    REGROWTH as REGROWTH,
    RIVER_PLANES as RIVER_PLANES,
    Cleanup as Cleanup,
    Harvest as Harvest,
    orchard_view as orchard_view,
    river_view as river_view,
)
