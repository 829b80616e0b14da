"""Episodes of a policy: evaluation and recording."""

from ._evaluate import (
    Evaluation as Evaluation,
    Players as Players,
    evaluate as evaluate,
    record_episodes as record_episodes,
    record_steps as record_steps,
)
