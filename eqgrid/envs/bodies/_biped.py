"""A planar biped with three tasks: to stand, to walk, and to stop at a goal."""

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
)

_MODEL = Path(__file__).parent / "biped.xml"
_X, _Z, _PITCH = 0, 1, 2
_FULL_SPEED, _GOAL_RADIUS = 1.0, 0.4


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
            _MODEL,
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
