"""Level-based foraging: agents load food together."""

from ._field import (
    KINDS as KINDS,
    MAX_LEVEL as MAX_LEVEL,
    Levels as Levels,
    Spawn as Spawn,
)
from ._foraging import ACTIONS as ACTIONS, Foraging as Foraging, from_id as from_id
from ._rules import (
    LOAD as LOAD,
    Attempts as Attempts,
    Load as Load,
    LoadEvents as LoadEvents,
    LoadReward as LoadReward,
    LoneClaim as LoneClaim,
    NothingLeft as NothingLeft,
    find_attempts as find_attempts,
)
from ._views import GridView as GridView, VectorView as VectorView
