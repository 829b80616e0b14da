"""The server of play and studies, and the files that browsers show."""

from ._play_command import play_command as play_command
