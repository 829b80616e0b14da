from ._biped import (
    AtGoal as AtGoal,
    Balanced as Balanced,
    Biped as Biped,
    BipedTask as BipedTask,
    BodyAndGoal as BodyAndGoal,
    Reached as Reached,
    Walked as Walked,
)
from ._cart_pole import (
    CartAndPole as CartAndPole,
    CartPole as CartPole,
    CartPoleTask as CartPoleTask,
    NotFallen as NotFallen,
    SwungUp as SwungUp,
)
