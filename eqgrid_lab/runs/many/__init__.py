"""Several runs trained together: seeds, sweeps, and candidates."""

from ._candidates import (
    candidates_of as candidates_of,
    choose as choose,
    forget as forget,
    still_learn as still_learn,
    stopped_early as stopped_early,
)
from ._seeds import resume_seeds as resume_seeds, run_seeds as run_seeds
from ._sweep import run_sweep as run_sweep
