"""Conversion of states and trajectories from and to Overcooked-AI."""

from ._features import ReferenceFeatures as ReferenceFeatures
from ._state import (
    Json as Json,
    world_from_reference as world_from_reference,
    world_to_reference as world_to_reference,
    worlds_from_reference as worlds_from_reference,
    worlds_to_reference as worlds_to_reference,
)
from ._table import (
    Columns as Columns,
    count_steps as count_steps,
    first_rows as first_rows,
    is_of_kitchen as is_of_kitchen,
    parse as parse,
    read_columns as read_columns,
    read_grid as read_grid,
    read_number as read_number,
    read_states as read_states,
    read_steps as read_steps,
    trajectories_from_reference as trajectories_from_reference,
    trajectories_to_reference as trajectories_to_reference,
)
