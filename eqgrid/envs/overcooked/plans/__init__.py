"""Plans of two cooks with the highest known return, and exact best responses to a partner."""

from ._best_plan import (
    Layers as Layers,
    choose_spacing as choose_spacing,
    solve as solve,
    trace as trace,
)
from ._best_response import (
    BestResponse as BestResponse,
    ChanceTable as ChanceTable,
    tabulate as tabulate,
)
from ._joint_model import JointModel as JointModel, reachable_counters as reachable_counters
from ._plans import (
    PLANS_FILE as PLANS_FILE,
    Plan as Plan,
    best_known_return as best_known_return,
    replay as replay,
    stored_plans as stored_plans,
)
