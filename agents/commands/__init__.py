"""The commands that evaluate policies: in episodes, in cross-play, with partners, and reports."""

from ._crossplay import crossplay_command as crossplay_command
from ._evaluation import evaluate_command as evaluate_command
from ._human_games import human_games_command as human_games_command
from ._partners import partners_command as partners_command
from ._play import play_command as play_command
from ._report import report_command as report_command
