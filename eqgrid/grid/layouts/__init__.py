"""Random layouts, mazes, and searches in layouts."""

from ._mazes import (
    count_next_to as count_next_to,
    next_to as next_to,
    reach as reach,
    sample_maze as sample_maze,
)
from ._random_layouts import (
    AbstractGenerator as AbstractGenerator,
    AbstractLayouts as AbstractLayouts,
    LayoutPool as LayoutPool,
    PlacedWorld as PlacedWorld,
    RandomLayouts as RandomLayouts,
    SplitLayouts as SplitLayouts,
    check_generator as check_generator,
    check_ranges as check_ranges,
    draw_layouts as draw_layouts,
    stack_layouts as stack_layouts,
)
