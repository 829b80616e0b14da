"""Exact solutions of kitchens with two cooks: optimal plans, and best responses to partners."""

from ._best_plan import Layers as Layers, solve as solve, trace as trace
from ._best_response import (
    BestResponse as BestResponse,
    ChanceTable as ChanceTable,
    tabulate as tabulate,
)
from ._joint_model import JointModel as JointModel, reachable_counters as reachable_counters
from ._plans import Plan as Plan, replay as replay, stored_plans as stored_plans
from ._responses import (
    Chances as Chances,
    ChanceTables as ChanceTables,
    Progress as Progress,
    ResponseResult as ResponseResult,
    respond as respond,
    without_stuck_rule as without_stuck_rule,
)
