"""Exact best responses to partners in a kitchen, from its table of joint states."""

from ._distil import (
    Distillation as Distillation,
    Judged as Judged,
    Played as Played,
    Teacher as Teacher,
    follows as follows,
    judge as judge,
    label as label,
    play_from as play_from,
    recite as recite,
    repeat as repeat,
    sharpened as sharpened,
)
from ._responses import (
    Chances as Chances,
    Found as Found,
    Kept as Kept,
    Progress as Progress,
    respond as respond,
    without_stuck_rule as without_stuck_rule,
)
from ._search import Search as Search
