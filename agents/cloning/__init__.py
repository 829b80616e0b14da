"""Behaviour cloning: policies that imitate recorded actions, such as those of people."""

from ._behavior_cloning import (
    BehaviorCloning as BehaviorCloning,
    CloningScore as CloningScore,
    cross_entropy as cross_entropy,
    logits as logits,
    score as score,
)
from ._clone import Clones as Clones, Epoch as Epoch, clone as clone
from ._demonstrations import Demonstrations as Demonstrations, demonstrations as demonstrations
