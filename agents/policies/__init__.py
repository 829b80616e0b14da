"""Policies: networks, action distributions, critic inputs, and networks of several agents."""

from ._checks import check_acts as check_acts, describe as describe
from ._heads import (
    AbstractActionHead as AbstractActionHead,
    ActionDistribution as ActionDistribution,
    CategoricalHead as CategoricalHead,
    ClippedNormalHead as ClippedNormalHead,
    DiagonalNormal as DiagonalNormal,
    MultiCategorical as MultiCategorical,
    MultiCategoricalHead as MultiCategoricalHead,
    check_mask as check_mask,
    entropy as entropy,
    head_for as head_for,
    mask_logits as mask_logits,
    sample_action as sample_action,
)
from ._networks import (
    CNN as CNN,
    GRU as GRU,
    MLP as MLP,
    AbstractNetwork as AbstractNetwork,
    AbstractSequenceNetwork as AbstractSequenceNetwork,
    Activation as Activation,
    Dense as Dense,
    Precision as Precision,
    PredictingGRU as PredictingGRU,
    reset_carry as reset_carry,
    unroll_network as unroll_network,
)
from ._partners import (
    PartnerTeam as PartnerTeam,
    Players as Players,
    PolicyPartner as PolicyPartner,
    StuckMemory as StuckMemory,
    StuckRule as StuckRule,
    check_players as check_players,
)
from ._policy import (
    AbstractActor as AbstractActor,
    ActorCritic as ActorCritic,
    actor_critic as actor_critic,
)
from ._team import (
    AbstractCriticInput as AbstractCriticInput,
    AbstractMultiAgentNetwork as AbstractMultiAgentNetwork,
    AgentArrays as AgentArrays,
    EnvArrays as EnvArrays,
    GlobalState as GlobalState,
    IndependentParameters as IndependentParameters,
    JointObservation as JointObservation,
    LocalObservation as LocalObservation,
    Shapes as Shapes,
    SharedParameters as SharedParameters,
)
from ._trained_policy import (
    Normalization as Normalization,
    TrainedPolicy as TrainedPolicy,
    trained_policy as trained_policy,
)
