"""Behaviour cloning: policies that imitate recorded actions, such as the actions of people."""

from ._cloning import (
    BehaviorCloning as BehaviorCloning,
    Clones as Clones,
    CloningScore as CloningScore,
    Demonstrations as Demonstrations,
    Epoch as Epoch,
    clone as clone,
    cross_entropy as cross_entropy,
    demonstrations as demonstrations,
    logits as logits,
    score as score,
)
