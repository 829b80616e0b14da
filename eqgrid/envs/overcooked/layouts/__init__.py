"""Kitchens: the layouts of the reference, files, and generated ones."""

from ._generated import GeneratedKitchens as GeneratedKitchens
from ._layouts import (
    KITCHENS as KITCHENS,
    REFERENCE_NAMES as REFERENCE_NAMES,
    load_layout as load_layout,
    parse_kitchen as parse_kitchen,
    parse_reference as parse_reference,
    reference_layouts as reference_layouts,
)
from ._solvable import (
    can_deliver as can_deliver,
    can_deliver_alone as can_deliver_alone,
    find_obstacle as find_obstacle,
)
