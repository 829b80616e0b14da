from ._env import (
    AbstractEnv as AbstractEnv,
    AbstractVectorEnv as AbstractVectorEnv,
    AbstractVectorWrapper as AbstractVectorWrapper,
    AbstractWrapper as AbstractWrapper,
    AbstractWrapperState as AbstractWrapperState,
    TimeStep as TimeStep,
    unwrap as unwrap,
    unwrap_state as unwrap_state,
)
from ._spaces import AbstractSpace as AbstractSpace, Box as Box, Discrete as Discrete
