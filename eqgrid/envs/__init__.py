from ._kitchens import (
    BEST_KNOWN_RETURNS as BEST_KNOWN_RETURNS,
    KITCHENS as KITCHENS,
    REFERENCE_NAMES as REFERENCE_NAMES,
    best_known_return as best_known_return,
    load_layout as load_layout,
    parse_reference as parse_reference,
)
from ._make import make as make
from ._overcooked import (
    DYNAMICS as DYNAMICS,
    REFERENCE_SHAPING as REFERENCE_SHAPING,
    Overcooked as Overcooked,
)
from ._solvable import find_obstacle as find_obstacle
