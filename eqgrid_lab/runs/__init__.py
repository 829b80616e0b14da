"""What a training script calls: the folder of a run, evaluations, and trained policies."""

from ._evaluation import Evaluation as Evaluation, mean_totals as mean_totals
from ._run import Run as Run, choose_mesh as choose_mesh
