"""PPO: rollouts, advantage estimation, the loss and the update."""

from ._algorithm import (
    AbstractAlgorithm as AbstractAlgorithm,
    AbstractCheckedAlgorithm as AbstractCheckedAlgorithm,
    AbstractTrainState as AbstractTrainState,
    Metrics as Metrics,
    S as S,
    check_algorithm as check_algorithm,
    mean_over as mean_over,
)
from ._batch import (
    Minibatch as Minibatch,
    minibatch as minibatch,
    nearest_divisors as nearest_divisors,
    of_agent as of_agent,
    shuffle as shuffle,
)
from ._gae import AdvantageEstimator as AdvantageEstimator, gae as gae
from ._ppo import (
    PPO as PPO,
    Hyperparameter as Hyperparameter,
    Loss as Loss,
    TrainState as TrainState,
    loss_of_choices as loss_of_choices,
    ppo_loss as ppo_loss,
    replay as replay,
)
from ._rollout import Rollout as Rollout, collect_rollout as collect_rollout
from ._runner import (
    Decision as Decision,
    RunnerState as RunnerState,
    act as act,
    init_runner as init_runner,
    step_runner as step_runner,
)
