"""A cart that balances a pole, or swings it up first."""

from pathlib import Path
from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Float

from ...interop.mjx import (
    AbstractBodyMeasure,
    AbstractBodyObservation,
    BodyState,
    MjxEnv,
    Model,
    Motion,
    NoisyStart,
    OutOfRange,
    SetJoint,
)

_MODEL = Path(__file__).parent / "cartpole.xml"
_SLIDE, _HINGE = 0, 1


def CartPole(task: str = "balance") -> MjxEnv:
    """A pole on a cart, 50 steps per second. The action is a push, from -1 to 1, of 10 N.

    To `"balance"`, the pole starts near the top, every step pays 1, and the task is over when the
    pole leans by more than 0.2 radians or the cart is further than 1 metre from the middle. To
    `"swing_up"`, it starts hanging, a step pays most where the pole is on top, the cart in the
    middle and nothing turns, and no task is ever over.

    **Arguments:**

    - `task`: what is paid.

    **Raises:** `ValueError` when there is no such task.
    """
    if task not in ("balance", "swing_up"):
        raise ValueError(f"A cart-pole has no task {task!r}: choose balance or swing_up.")
    balances = task == "balance"
    noise = NoisyStart(0.05, 0.05)
    return MjxEnv(
        _MODEL,
        rewards={"upright": NotFallen() if balances else SwungUp()},
        observation=CartAndPole(),
        starts=(noise,) if balances else (SetJoint(_HINGE, jnp.pi), noise),
        endings=(OutOfRange(_SLIDE, -1, 1), OutOfRange(_HINGE, -0.2, 0.2)) if balances else (),
        substeps=2,
    )


@final
class CartAndPole(AbstractBodyObservation):
    """Where the cart is, where the pole points (sine and cosine), and both velocities."""

    def __call__(self, model: Model, state: BodyState) -> Float[Array, " numbers"]:
        angle = state.qpos[_HINGE]
        return jnp.stack([state.qpos[_SLIDE], jnp.sin(angle), jnp.cos(angle), *state.qvel])


@final
class NotFallen(AbstractBodyMeasure):
    """1 for every step, since the task is over when the pole has fallen."""

    def __call__(self, model: Model, motion: Motion) -> Float[Array, ""]:
        return jnp.ones(())


@final
class SwungUp(AbstractBodyMeasure):
    """1 where the pole rests on top in the middle, and 0 where it hangs."""

    def __call__(self, model: Model, motion: Motion) -> Float[Array, ""]:
        place, angle = motion.after.qpos
        height = (1 + jnp.cos(angle)) / 2
        centred = (1 + jnp.exp(-jnp.square(place))) / 2
        calm = (1 + jnp.exp(-jnp.square(motion.after.qvel[_HINGE]) / 4)) / 2
        return height * centred * calm
