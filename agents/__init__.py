from ._checkpoint import (
    CheckpointError as CheckpointError,
    read_metadata as read_metadata,
    restore as restore,
    save as save,
)
from ._evaluate import Evaluation as Evaluation, evaluate as evaluate
from ._files import write_whole as write_whole
from ._gae import gae as gae
from ._memory import OutOfMemory as OutOfMemory, check_memory as check_memory
from ._networks import CNN as CNN, MLP as MLP, AbstractNetwork as AbstractNetwork, Dense as Dense
from ._policy import (
    ActorCritic as ActorCritic,
    actor_critic as actor_critic,
    draw as draw,
    entropy as entropy,
)
from ._ppo import PPO as PPO, Metrics as Metrics, RunState as RunState
from ._rollout import Rollout as Rollout, Scene as Scene, collect as collect, enter as enter
from ._team import AbstractTeam as AbstractTeam, Separate as Separate, Shared as Shared
from ._train import (
    Hook as Hook,
    NonFiniteLoss as NonFiniteLoss,
    Progress as Progress,
    StopTraining as StopTraining,
    run_updates as run_updates,
    start_run as start_run,
    train as train,
)
from ._views import AbstractView as AbstractView, JointView as JointView, OwnView as OwnView
