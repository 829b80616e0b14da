"""Episodes of a policy: evaluation and recording."""

from ..policies import Players as Players
from ._evaluate import (
    Evaluation as Evaluation,
    compile_evaluation as compile_evaluation,
    evaluate as evaluate,
    record_episodes as record_episodes,
    record_steps as record_steps,
)
