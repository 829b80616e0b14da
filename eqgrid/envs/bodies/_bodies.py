"""Two bodies: a planar biped that stands, walks, and stops at a goal; and a cart-pole."""

from pathlib import Path
from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ...interop.mjx import (
    AbstractBodyMeasure,
    AbstractBodyObservation,
    AbstractMjxEnv,
    BodyState,
    Distance,
    Effort,
    Model,
    Motion,
    NoisyStart,
    OutOfRange,
    RandomGoal,
    SetJoint,
)

_BIPED = Path(__file__).with_name("biped.xml")
_X, _Z, _PITCH = 0, 1, 2
_FULL_SPEED, _GOAL_RADIUS = 1.0, 0.4

_CART_POLE = Path(__file__).with_name("cartpole.xml")
_SLIDE, _HINGE = 0, 1


@final
class Biped(AbstractMjxEnv):
    """A biped with six motors (hips, knees, ankles) that moves in a vertical plane, with 50 steps
    per second. All tasks have the same observations and actions, so a policy can be transferred
    from one task to the next.

    The task reward of a step is from 0 to 1; a small cost of effort is subtracted.

    - `"balance"`: how upright the body is.
    - `"walk"`: how upright the body is, times `0.2 + 0.8 * speed`, with the forward speed in metres
        per second, from 0 to 1.
    - `"reach"`: as in `"walk"`, with the speed towards a flag 2 to 5 metres ahead. Within 0.4
        metres of the flag, the speed counts as 1.

    The agent terminates when the torso has sunk by more than 0.3 metres or leans by more than 1
    radian. The measures in `info` are `"distance"`, the distance walked in the step in metres, and
    `"at_goal"`, 1 at the flag and 0 elsewhere.
    """

    def __init__(self, task: str = "balance"):
        """**Arguments:**

        - `task`: `"balance"`, `"walk"` or `"reach"`. Only the reward of `"reach"` depends on
            the flag.

        **Raises:** `ValueError` when there is no such task.
        """
        if task not in _REWARDS:
            raise ValueError(f"A biped has no task {task!r}: choose {', '.join(_REWARDS)}.")
        super().__init__(
            _BIPED,
            rewards={"task": _REWARDS[task](), "effort": Effort(-0.05)},
            measures={"distance": Distance(_X), "at_goal": AtGoal()},
            observation=BodyAndGoal(),
            starts=(NoisyStart(0.05, 0.1), RandomGoal(2.0, 5.0)),
            endings=(OutOfRange(_Z, -0.3, 1.0), OutOfRange(_PITCH, -1.0, 1.0)),
            substeps=2,
        )


@final
class BodyAndGoal(AbstractBodyObservation):
    """The height, the pitch, the angles of six joints, all velocities, and the offset to the goal
    along x in metres, clipped to the range from -1 to 1.
    """

    def __call__(self, model: Model, state: BodyState) -> Float[Array, " numbers"]:
        ahead = jnp.clip(_ahead(state), -1, 1)
        return jnp.concatenate([state.qpos[_Z:], state.qvel, ahead[None]])


@final
class Balanced(AbstractBodyMeasure):
    """How upright the body is, from 0 to 1."""

    def __call__(self, model: Model, motion: Motion) -> Float[Array, ""]:
        return _upright(motion.after)


@final
class Walked(AbstractBodyMeasure):
    """How upright the body is, times a factor from 0.2 to 1 for its forward speed."""

    def __call__(self, model: Model, motion: Motion) -> Float[Array, ""]:
        share = jnp.clip(_velocity(motion) / _FULL_SPEED, 0, 1)
        return _upright(motion.after) * (0.2 + 0.8 * share)


@final
class Reached(AbstractBodyMeasure):
    """How upright the body is, times a factor from 0.2 to 1 for its speed towards the goal; the
    factor is 1 at the goal.
    """

    def __call__(self, model: Model, motion: Motion) -> Float[Array, ""]:
        towards = _velocity(motion) * jnp.sign(_ahead(motion.before))
        share = jnp.where(_is_at_goal(motion), 1.0, jnp.clip(towards / _FULL_SPEED, 0, 1))
        return _upright(motion.after) * (0.2 + 0.8 * share)


@final
class AtGoal(AbstractBodyMeasure):
    """1 at the goal, else 0; the sum over an episode is the number of steps at the goal."""

    def __call__(self, model: Model, motion: Motion) -> Float[Array, ""]:
        return _is_at_goal(motion).astype(float)


_REWARDS: dict[str, type[AbstractBodyMeasure]] = {
    "balance": Balanced,
    "walk": Walked,
    "reach": Reached,
}


def _upright(state: BodyState) -> Float[Array, ""]:
    """1 for an upright body; less if it leans, or if it has sunk by more than 0.1 metres."""
    height = jnp.clip((state.qpos[_Z] + 0.3) / 0.2, 0, 1)
    return height * jnp.cos(state.qpos[_PITCH])


def _velocity(motion: Motion) -> Float[Array, ""]:
    return (motion.after.qpos[_X] - motion.before.qpos[_X]) / motion.seconds


def _ahead(state: BodyState) -> Float[Array, ""]:
    return state.mocap_pos[0, 0] - state.qpos[_X]


def _is_at_goal(motion: Motion) -> Bool[Array, ""]:
    return jnp.abs(_ahead(motion.after)) < _GOAL_RADIUS


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
            _CART_POLE,
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
