"""What makes a task of a body: how it starts, what is seen, what is paid, and when it is over.

Each part reads the model and the state, and is one small Module; another task is another choice
of parts. They are written for one body, and mapped over many.
"""

import abc
import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ._library import Model
from ._state import BodyState, Motion


class AbstractBodyStart(eqx.Module):
    """Draws one thing about the start of an episode."""

    @abc.abstractmethod
    def __call__(self, key: PRNGKeyArray, model: Model, state: BodyState) -> BodyState:
        """The state with that one thing drawn anew."""


class AbstractBodyObservation(eqx.Module):
    """What is seen of a state."""

    @abc.abstractmethod
    def __call__(self, model: Model, state: BodyState) -> Float[Array, " numbers"]:
        """The numbers that are seen."""


class AbstractBodyMeasure(eqx.Module):
    """A number that says something about one step: what is paid for it, or what is counted."""

    @abc.abstractmethod
    def __call__(self, model: Model, motion: Motion) -> Float[Array, ""]:
        """That number."""


class AbstractBodyEnding(eqx.Module):
    """Decides when the task is over, other than by a time limit."""

    @abc.abstractmethod
    def __call__(self, model: Model, state: BodyState) -> Bool[Array, ""]:
        """Whether it is over in this state."""


@final
class NoisyStart(AbstractBodyStart):
    """Adds uniform noise to all joint positions and velocities. It is for joints with one number
    (hinges and slides): the orientation of a free or ball joint would lose its unit length.

    **Arguments:**

    - `position`: the largest change of a position, in radians or metres.
    - `velocity`: the largest change of a velocity, per second.
    """

    position: Float[Array, ""]
    velocity: Float[Array, ""]

    def __init__(self, position: int | float, velocity: int | float):
        self.position, self.velocity = jnp.asarray(position, float), jnp.asarray(velocity, float)

    def __call__(self, key: PRNGKeyArray, model: Model, state: BodyState) -> BodyState:
        position_key, velocity_key = jax.random.split(key)
        return dataclasses.replace(
            state,
            qpos=state.qpos + self.position * _uniform(position_key, state.qpos),
            qvel=state.qvel + self.velocity * _uniform(velocity_key, state.qvel),
        )


@final
class SetJoint(AbstractBodyStart):
    """Starts with one joint elsewhere than the model says.

    **Arguments:**

    - `joint`: which entry of the positions.
    - `position`: where it starts, in radians or metres.
    """

    joint: int = eqx.field(static=True)
    position: Float[Array, ""]

    def __init__(self, joint: int, position: int | float):
        self.joint, self.position = joint, jnp.asarray(position, float)

    def __call__(self, key: PRNGKeyArray, model: Model, state: BodyState) -> BodyState:
        return dataclasses.replace(state, qpos=state.qpos.at[self.joint].set(self.position))


@final
class RandomGoal(AbstractBodyStart):
    """Draws how far along the x axis the first mocap body is, uniformly.

    **Arguments:**

    - `nearest`, `farthest`: the bounds, in metres.
    """

    nearest: Float[Array, ""]
    farthest: Float[Array, ""]

    def __init__(self, nearest: int | float, farthest: int | float):
        self.nearest, self.farthest = jnp.asarray(nearest, float), jnp.asarray(farthest, float)

    def __call__(self, key: PRNGKeyArray, model: Model, state: BodyState) -> BodyState:
        x = jax.random.uniform(key, (), minval=self.nearest, maxval=self.farthest)
        return dataclasses.replace(state, mocap_pos=state.mocap_pos.at[0, 0].set(x))


@final
class Coordinates(AbstractBodyObservation):
    """Positions and velocities of the joints as they are.

    **Arguments:**

    - `skip`: how many of the first positions are left out, as where the body is along a track that
        looks the same everywhere.
    """

    skip: int = eqx.field(static=True, default=0)

    def __call__(self, model: Model, state: BodyState) -> Float[Array, " numbers"]:
        return jnp.concatenate([state.qpos[self.skip :], state.qvel])


@final
class Effort(AbstractBodyMeasure):
    """What the actions cost: their mean square.

    **Arguments:**

    - `weight`: what a mean square of 1 is worth; negative where effort shall cost.
    """

    weight: Float[Array, ""]

    def __init__(self, weight: int | float):
        self.weight = jnp.asarray(weight, float)

    def __call__(self, model: Model, motion: Motion) -> Float[Array, ""]:
        return self.weight * jnp.mean(jnp.square(motion.action))


@final
class Distance(AbstractBodyMeasure):
    """How far one joint moved, with its sign: over an episode, the way from its start.

    **Arguments:**

    - `joint`: which entry of the positions.
    """

    joint: int = eqx.field(static=True, default=0)

    def __call__(self, model: Model, motion: Motion) -> Float[Array, ""]:
        return motion.after.qpos[self.joint] - motion.before.qpos[self.joint]


@final
class OutOfRange(AbstractBodyEnding):
    """The task is over when one joint's position leaves a range.

    **Arguments:**

    - `joint`: which entry of the positions.
    - `low`, `high`: the range, in radians or metres.
    """

    joint: int = eqx.field(static=True)
    low: Float[Array, ""]
    high: Float[Array, ""]

    def __init__(self, joint: int, low: int | float, high: int | float):
        self.joint = joint
        self.low, self.high = jnp.asarray(low, float), jnp.asarray(high, float)

    def __call__(self, model: Model, state: BodyState) -> Bool[Array, ""]:
        position = state.qpos[self.joint]
        return (position < self.low) | (position > self.high)


def _uniform(key: PRNGKeyArray, like: Float[Array, " n"]) -> Float[Array, " n"]:
    return jax.random.uniform(key, like.shape, like.dtype, minval=-1, maxval=1)
