"""A cart-pole with two tasks: to balance the pole, or to swing it up first."""

from pathlib import Path
from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Float

from ...interop.mjx import (
    AbstractBodyMeasure,
    AbstractBodyObservation,
    AbstractMjxEnv,
    BodyState,
    Model,
    Motion,
    NoisyStart,
    OutOfRange,
    SetJoint,
)

_MODEL = Path(__file__).parent / "cartpole.xml"
_SLIDE, _HINGE = 0, 1


@final
class CartPole(AbstractMjxEnv):
    """A cart-pole, with 50 steps per second. The action, a number from -1 to 1, is a force on the
    cart from -10 N to 10 N.

    In `"balance"`, the pole starts near the top, the reward is 1 per step, and the agent terminates
    when the pole leans by more than 0.2 radians or the cart is more than 1 metre from the middle.
    In `"swing_up"`, the pole starts hanging, the reward is largest when the pole is on top and at
    rest with the cart in the middle, and the agent never terminates.
    """

    def __init__(self, task: str = "balance"):
        """**Arguments:**

        - `task`: the name of the task, `"balance"` or `"swing_up"`.

        **Raises:** `ValueError` when there is no such task.
        """
        if task not in ("balance", "swing_up"):
            raise ValueError(f"A cart-pole has no task {task!r}: choose balance or swing_up.")
        balances = task == "balance"
        noise = NoisyStart(0.05, 0.05)
        super().__init__(
            _MODEL,
            rewards={"upright": NotFallen() if balances else SwungUp()},
            observation=CartAndPole(),
            starts=(noise,) if balances else (SetJoint(_HINGE, jnp.pi), noise),
            endings=(OutOfRange(_SLIDE, -1, 1), OutOfRange(_HINGE, -0.2, 0.2)) if balances else (),
            substeps=2,
        )


@final
class CartAndPole(AbstractBodyObservation):
    """The position of the cart, sine and cosine of the pole's angle, and both velocities."""

    def __call__(self, model: Model, state: BodyState) -> Float[Array, " numbers"]:
        angle = state.qpos[_HINGE]
        return jnp.stack([state.qpos[_SLIDE], jnp.sin(angle), jnp.cos(angle), *state.qvel])


@final
class NotFallen(AbstractBodyMeasure):
    """1 in every step, since the agent terminates when the pole has fallen."""

    def __call__(self, model: Model, motion: Motion) -> Float[Array, ""]:
        return jnp.ones(())


@final
class SwungUp(AbstractBodyMeasure):
    """From 0 to 1: 1 when the pole is at rest on top and the cart is in the middle, 0 when the pole
    hangs.
    """

    def __call__(self, model: Model, motion: Motion) -> Float[Array, ""]:
        place, angle = motion.after.qpos
        height = (1 + jnp.cos(angle)) / 2
        centred = (1 + jnp.exp(-jnp.square(place))) / 2
        calm = (1 + jnp.exp(-jnp.square(motion.after.qvel[_HINGE]) / 4)) / 2
        return height * centred * calm
