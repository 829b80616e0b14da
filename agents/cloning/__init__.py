"""Behaviour cloning: policies that imitate recorded actions, such as the actions of people."""

from ._cloning import (
    BehaviorCloning as BehaviorCloning,
    CloningScore as CloningScore,
    CloningState as CloningState,
    Demonstrations as Demonstrations,
    clone_epoch as clone_epoch,
    cross_entropy as cross_entropy,
    demonstrations as demonstrations,
    logits as logits,
    score as score,
)
