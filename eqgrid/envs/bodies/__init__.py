"""MuJoCo bodies: a biped and a cart-pole."""

from ._bodies import (
    AtGoal as AtGoal,
    Balanced as Balanced,
    Biped as Biped,
    BodyAndGoal as BodyAndGoal,
    CartAndPole as CartAndPole,
    CartPole as CartPole,
    NotFallen as NotFallen,
    Reached as Reached,
    SwungUp as SwungUp,
    Walked as Walked,
)
