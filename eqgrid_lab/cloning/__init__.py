"""The command line of behaviour cloning: games of people, a model of them, and its results."""

from ._program import run_cloning as run_cloning
from ._settings import (
    Cloning as Cloning,
    choose_held_out as choose_held_out,
    read_recorded as read_recorded,
)
