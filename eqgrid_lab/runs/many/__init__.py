"""Several runs trained together: seeds, and the points of a sweep."""

from ._report import (
    draw_sweep as draw_sweep,
    print_points as print_points,
    write_table as write_table,
)
from ._seeds import resume_seeds as resume_seeds, run_seeds as run_seeds
from ._space import read_sweep as read_sweep, settings_of as settings_of
from ._sweep import run_sweep as run_sweep
