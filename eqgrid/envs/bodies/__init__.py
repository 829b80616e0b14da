"""MuJoCo bodies: a biped and a cart-pole."""

from ._biped import (
    AtGoal as AtGoal,
    Balanced as Balanced,
    Biped as Biped,
    BodyAndGoal as BodyAndGoal,
    Reached as Reached,
    Walked as Walked,
)
from ._cart_pole import (
    CartAndPole as CartAndPole,
    CartPole as CartPole,
    NotFallen as NotFallen,
    SwungUp as SwungUp,
)
