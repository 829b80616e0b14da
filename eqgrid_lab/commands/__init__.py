"""The commands that evaluate policies: in episodes, in cross-play, with partners, and reports;
and the command that starts jobs.
"""

from ._best_responses import BestResponses as BestResponses
from ._crossplay import crossplay_command as crossplay_command
from ._evaluation import (
    check_file as check_file,
    evaluate_command as evaluate_command,
    write_episodes as write_episodes,
)
from ._heldout import (
    HELD_OUT as HELD_OUT,
    PEOPLE as PEOPLE,
    build_held_out as build_held_out,
    read_held_out as read_held_out,
)
from ._partners import partners_command as partners_command
from ._policies import (
    Game as Game,
    PolicyFlags as PolicyFlags,
    different_names as different_names,
    judging_env as judging_env,
    lineups as lineups,
    play_all as play_all,
    short_names as short_names,
)
from ._report import report_command as report_command
from ._submit import submit_command as submit_command
