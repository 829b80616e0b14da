"""The server of play and studies, and the files that browsers show."""

from ._play_command import play_command as play_command
from ._study_command import study_command as study_command
from ._watch_command import watch_command as watch_command
