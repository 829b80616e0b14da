"""The command line of behaviour cloning: reads games of people, and trains models of people."""

from ._program import run_cloning as run_cloning
from ._settings import (
    Cloning as Cloning,
    choose_held_out as choose_held_out,
    read_recorded as read_recorded,
)
