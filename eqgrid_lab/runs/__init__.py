"""What a training script calls: the folder of a run, evaluations, and trained policies."""

from ._evaluation import Evaluation as Evaluation, mean_totals as mean_totals
from ._policies import (
    SavedPolicy as SavedPolicy,
    digest as digest,
    marks as marks,
    policies_of as policies_of,
    portable as portable,
    read_policy as read_policy,
    run_digest as run_digest,
)
from ._run import Run as Run, choose_mesh as choose_mesh
