"""Behaviour cloning of people: recorded games, the folder of a run, and its results."""

from ._cloning_run import (
    Clones as Clones,
    CloningRun as CloningRun,
    as_clones as as_clones,
    networks_of as networks_of,
)
from ._settings import (
    Cloning as Cloning,
    choose_held_out as choose_held_out,
    read_recorded as read_recorded,
)
