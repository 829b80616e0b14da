"""Runs: training with folders, checkpoints, evaluation and many seeds."""

from ._curriculum import (
    Gate as Gate,
    Stage as Stage,
    StageCount as StageCount,
    stages as stages,
    with_curriculum as with_curriculum,
)
from ._display import (
    LogDisplay as LogDisplay,
    is_live as is_live,
    open_console as open_console,
    progress_bar as progress_bar,
)
from ._evaluator import Evaluator as Evaluator, mean_totals as mean_totals
from ._policies import (
    SavedPolicy as SavedPolicy,
    digest as digest,
    marks as marks,
    portable as portable,
    read_policy as read_policy,
    run_digest as run_digest,
)
from ._program import run_command_line as run_command_line, run_experiment as run_experiment
from ._run import default_mesh as default_mesh
