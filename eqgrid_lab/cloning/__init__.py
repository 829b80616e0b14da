"""Behaviour cloning of people: recorded games, the folder of a run, and its results."""

from ._cloning_run import (
    CloningRun as CloningRun,
    as_clones as as_clones,
    networks_of as networks_of,
    open_cloning_run as open_cloning_run,
)
from ._settings import (
    Cloning as Cloning,
    choose_held_out as choose_held_out,
    read_recorded as read_recorded,
)
