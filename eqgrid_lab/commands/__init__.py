"""The commands that evaluate policies: in episodes, in cross-play, with partners, and reports."""

from ._best_responses import BestResponses as BestResponses
from ._crossplay import crossplay_command as crossplay_command
from ._evaluation import evaluate_command as evaluate_command
from ._heldout import (
    HELD_OUT as HELD_OUT,
    PEOPLE as PEOPLE,
    HeldOut as HeldOut,
    build_partners as build_partners,
    read_held_out as read_held_out,
)
from ._human_games import human_games_command as human_games_command
from ._partners import partners_command as partners_command
from ._policies import (
    PolicyFlags as PolicyFlags,
    first_world as first_world,
    settings_to_play as settings_to_play,
)
from ._report import report_command as report_command
