"""Conversion of states from and to Overcooked-AI, and its features."""

from ._features import ReferenceFeatures as ReferenceFeatures
from ._state import (
    world_from_reference as world_from_reference,
    world_to_reference as world_to_reference,
    worlds_from_reference as worlds_from_reference,
    worlds_to_reference as worlds_to_reference,
)
