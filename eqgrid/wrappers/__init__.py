"""Wrappers: environments that change the behaviour of another environment."""

from ._append import (
    AppendAgentId as AppendAgentId,
    AppendTimeLeft as AppendTimeLeft,
)
from ._episode_ends import (
    AbstractAutoReset as AbstractAutoReset,
    AutoReset as AutoReset,
    StepCountState as StepCountState,
    TimeLimit as TimeLimit,
)
from ._log_episodes import LogEpisodes as LogEpisodes, LogEpisodesState as LogEpisodesState
from ._nesting import (
    Vectorize as Vectorize,
    contains_wrapper as contains_wrapper,
    iter_wrappers as iter_wrappers,
)
from ._normalize import (
    NormalizeObservation as NormalizeObservation,
    NormalizeObservationState as NormalizeObservationState,
    NormalizeReward as NormalizeReward,
    NormalizeRewardState as NormalizeRewardState,
)
from ._shaped_reward import (
    LinearSchedule as LinearSchedule,
    Scheduled as Scheduled,
    ScheduledState as ScheduledState,
    ShapedReward as ShapedReward,
    ShapedRewardState as ShapedRewardState,
)
from ._with_partner import (
    JOINT_ACTION as JOINT_ACTION,
    PARTNER_MASK as PARTNER_MASK,
    WithPartner as WithPartner,
    WithPartnerState as WithPartnerState,
)
