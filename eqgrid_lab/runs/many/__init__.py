"""Several runs trained together: seeds, and the points of a sweep."""

from ._points import (
    Point as Point,
    groups_of as groups_of,
    read_sweep as read_sweep,
    settings_of as settings_of,
)
from ._report import (
    draw_sweep as draw_sweep,
    print_points as print_points,
    table_row as table_row,
    write_table as write_table,
)
from ._seeds import resume_seeds as resume_seeds, run_seeds as run_seeds
from ._sweep import run_sweep as run_sweep
