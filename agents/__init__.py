from .cloning._behavior_cloning import BehaviorCloning as BehaviorCloning
from .cloning._demonstrations import (
    Demonstrations as Demonstrations,
    demonstrations as demonstrations,
)
from .evaluation._evaluate import Evaluation as Evaluation, evaluate as evaluate
from .evaluation._record import record_episodes as record_episodes
from .files._checkpoint import (
    CheckpointError as CheckpointError,
    checksum as checksum,
    read_metadata as read_metadata,
    restore as restore,
    save as save,
)
from .files._files import write_whole as write_whole
from .files._policy_file import (
    describe_policy as describe_policy,
    find_policy as find_policy,
    load_policy as load_policy,
    save_policy as save_policy,
)
from .files._trajectory_files import (
    load_trajectories as load_trajectories,
    read_table as read_table,
    save_trajectories as save_trajectories,
    write_table as write_table,
)
from .policies._actor import AbstractActor as AbstractActor
from .policies._heads import (
    AbstractActionHead as AbstractActionHead,
    ActionDistribution as ActionDistribution,
    CategoricalHead as CategoricalHead,
    ClippedNormalHead as ClippedNormalHead,
    DiagonalNormal as DiagonalNormal,
    MultiCategorical as MultiCategorical,
    MultiCategoricalHead as MultiCategoricalHead,
    entropy as entropy,
    head_for as head_for,
    mask_logits as mask_logits,
    sample_action as sample_action,
)
from .policies._mixed_team import mixed_team as mixed_team
from .policies._networks import (
    CNN as CNN,
    GRU as GRU,
    MLP as MLP,
    AbstractNetwork as AbstractNetwork,
    Activation as Activation,
    Dense as Dense,
    Precision as Precision,
)
from .policies._partner_team import PartnerTeam as PartnerTeam
from .policies._policy import ActorCritic as ActorCritic, actor_critic as actor_critic
from .policies._policy_partner import PolicyPartner as PolicyPartner
from .policies._predicting_gru import PredictingGRU as PredictingGRU
from .policies._stuck_rule import StuckMemory as StuckMemory, StuckRule as StuckRule
from .policies._team import (
    AbstractMultiAgentNetwork as AbstractMultiAgentNetwork,
    IndependentParameters as IndependentParameters,
    SharedParameters as SharedParameters,
)
from .policies._trained_policy import (
    Normalization as Normalization,
    TrainedPolicy as TrainedPolicy,
    trained_policy as trained_policy,
)
from .policies._views import (
    AbstractCriticInput as AbstractCriticInput,
    GlobalState as GlobalState,
    JointObservation as JointObservation,
    LocalObservation as LocalObservation,
)
from .ppo._algorithm import (
    AbstractAlgorithm as AbstractAlgorithm,
    AbstractTrainState as AbstractTrainState,
    Metrics as Metrics,
    mean_over as mean_over,
)
from .ppo._batch import Minibatch as Minibatch, of_agent as of_agent
from .ppo._gae import AdvantageEstimator as AdvantageEstimator, gae as gae
from .ppo._ppo import (
    PPO as PPO,
    Hyperparameter as Hyperparameter,
    Loss as Loss,
    TrainState as TrainState,
    loss_of_choices as loss_of_choices,
    ppo_loss as ppo_loss,
    replay as replay,
)
from .ppo._rollout import Rollout as Rollout, collect_rollout as collect_rollout
from .ppo._runner import (
    Decision as Decision,
    RunnerState as RunnerState,
    act as act,
    init_runner as init_runner,
    step_runner as step_runner,
)
from .training._memory import OutOfMemory as OutOfMemory, check_memory as check_memory
from .training._processes import (
    ProcessFailed as ProcessFailed,
    fail as fail,
    from_first as from_first,
    gather as gather,
    is_first as is_first,
)
from .training._runs import num_runs as num_runs, pick_run as pick_run
from .training._sharding import check_even as check_even, device_mesh as device_mesh
from .training._train import (
    Hook as Hook,
    NonFiniteLoss as NonFiniteLoss,
    StopTraining as StopTraining,
    TrainProgress as TrainProgress,
    init_train_state as init_train_state,
    scan_updates as scan_updates,
    train as train,
)
from .training._transfer import PARTS as PARTS, Part as Part, transfer as transfer
