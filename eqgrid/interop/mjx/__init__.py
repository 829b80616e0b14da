"""Environments from MuJoCo models, simulated by MJX."""

from ._env import AbstractMjxEnv as AbstractMjxEnv, MjxEnv as MjxEnv
from ._parts import (
    AbstractBodyEnding as AbstractBodyEnding,
    AbstractBodyMeasure as AbstractBodyMeasure,
    AbstractBodyObservation as AbstractBodyObservation,
    AbstractBodyStart as AbstractBodyStart,
    Coordinates as Coordinates,
    Distance as Distance,
    Effort as Effort,
    NoisyStart as NoisyStart,
    OutOfRange as OutOfRange,
    RandomGoal as RandomGoal,
    SetJoint as SetJoint,
)
from ._state import (
    BodyState as BodyState,
    Model as Model,
    Motion as Motion,
    body_positions as body_positions,
)
