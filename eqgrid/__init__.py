"""Cooperative grid worlds and wrappers, as Equinox modules."""

from ._check_env import check_env as check_env
from ._env import (
    AbstractEnv as AbstractEnv,
    AbstractVectorEnv as AbstractVectorEnv,
    AbstractVectorWrapper as AbstractVectorWrapper,
    AbstractWrapper as AbstractWrapper,
    AbstractWrapperState as AbstractWrapperState,
    Environment as Environment,
    TimeStep as TimeStep,
    VectorEnvironment as VectorEnvironment,
    is_batch as is_batch,
    replace_innermost as replace_innermost,
    unwrap as unwrap,
    unwrap_state as unwrap_state,
)
from ._env_checks import (
    check_single_env as check_single_env,
    check_vector_env as check_vector_env,
    first_timestep as first_timestep,
    step_env as step_env,
)
from ._files import (
    MAX_FILE_BYTES as MAX_FILE_BYTES,
    MAX_TEXT_BYTES as MAX_TEXT_BYTES,
    read_regular_file as read_regular_file,
    read_regular_text as read_regular_text,
)
from ._functions import (
    Partial as Partial,
    batched_cond as batched_cond,
    sample_uniform as sample_uniform,
)
from ._moments import RunningMoments as RunningMoments
from ._partner import (
    AbstractPartner as AbstractPartner,
    ConstantPartner as ConstantPartner,
    DelayedPartner as DelayedPartner,
    NoisyPartner as NoisyPartner,
    OneOf as OneOf,
    PartnerInput as PartnerInput,
    RandomPartner as RandomPartner,
    RecordedPartner as RecordedPartner,
    act_as_team as act_as_team,
    check_partners as check_partners,
    stack_partners as stack_partners,
)
from ._play import (
    Game as Game,
    PlayState as PlayState,
    Trajectories as Trajectories,
    play as play,
    play_step as play_step,
    record_play as record_play,
    start_play as start_play,
)
from ._spaces import (
    AbstractSpace as AbstractSpace,
    Box as Box,
    Discrete as Discrete,
    Masked as Masked,
    MultiDiscrete as MultiDiscrete,
    ObservationAndState as ObservationAndState,
    map_observation as map_observation,
    sample_allowed as sample_allowed,
    split_mask as split_mask,
)
from .envs import ENVIRONMENTS as ENVIRONMENTS, make as make
from .envs.overcooked import Overcooked as Overcooked
from .wrappers import (
    JOINT_ACTION as JOINT_ACTION,
    PARTNER_MASK as PARTNER_MASK,
    AbstractAutoReset as AbstractAutoReset,
    AppendAgentId as AppendAgentId,
    AppendTimeLeft as AppendTimeLeft,
    AutoReset as AutoReset,
    LinearSchedule as LinearSchedule,
    LogEpisodes as LogEpisodes,
    LogEpisodesState as LogEpisodesState,
    NormalizeObservation as NormalizeObservation,
    NormalizeObservationState as NormalizeObservationState,
    NormalizeReward as NormalizeReward,
    NormalizeRewardState as NormalizeRewardState,
    Scheduled as Scheduled,
    ScheduledState as ScheduledState,
    ShapedReward as ShapedReward,
    ShapedRewardState as ShapedRewardState,
    StepCountState as StepCountState,
    TimeLimit as TimeLimit,
    Vectorize as Vectorize,
    WithPartner as WithPartner,
    WithPartnerState as WithPartnerState,
    contains_wrapper as contains_wrapper,
    iter_wrappers as iter_wrappers,
)
