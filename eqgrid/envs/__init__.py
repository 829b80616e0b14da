from ._kitchens import (
    KITCHENS as KITCHENS,
    REFERENCE_NAMES as REFERENCE_NAMES,
    load_layout as load_layout,
    parse_reference as parse_reference,
)
from ._make import make as make
from ._overcooked import (
    DYNAMICS as DYNAMICS,
    REFERENCE_SHAPING as REFERENCE_SHAPING,
    Overcooked as Overcooked,
)
