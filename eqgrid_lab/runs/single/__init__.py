"""Single runs: building, training, evaluation and results."""

from ._build import (
    draw as draw,
    shapes as shapes,
    shapes_together as shapes_together,
    stack_envs as stack_envs,
    stack_learners as stack_learners,
    start_together as start_together,
)
from ._conclusion import Conclusion as Conclusion, finish as finish
from ._curriculum import (
    Gate as Gate,
    Stage as Stage,
    StageEvaluator as StageEvaluator,
    stages as stages,
    with_curriculum as with_curriculum,
)
from ._display import (
    LogDisplay as LogDisplay,
    Summed as Summed,
    is_live as is_live,
    open_console as open_console,
    open_display as open_display,
    print_preparations as print_preparations,
    progress_bar as progress_bar,
)
from ._evaluator import (
    Evaluator as Evaluator,
    EvaluatorOfMany as EvaluatorOfMany,
    evaluated_metrics as evaluated_metrics,
    mean_totals as mean_totals,
)
from ._hooks import (
    SAVE_SECONDS as SAVE_SECONDS,
    EarlyStop as EarlyStop,
    Forget as Forget,
    OutOfTime as OutOfTime,
    profiled as profiled,
    speed as speed,
)
from ._identity import (
    check_same_run as check_same_run,
    check_updates as check_updates,
    digest as digest,
    digests as digests,
    marks as marks,
    run_digest as run_digest,
)
from ._policies import SavedPolicy as SavedPolicy, portable as portable, read_policy as read_policy
from ._run import STOP_CODES as STOP_CODES, Plan as Plan, Run as Run, plan_stages as plan_stages
from ._training import (
    recording_hooks as recording_hooks,
    run_evaluator as run_evaluator,
    run_loggers as run_loggers,
    train_stages as train_stages,
)
