"""Exact best responses to partners in a kitchen, from its table of joint states."""

from ._responses import (
    Chances as Chances,
    Found as Found,
    Kept as Kept,
    Progress as Progress,
    respond as respond,
    without_stuck_rule as without_stuck_rule,
)
