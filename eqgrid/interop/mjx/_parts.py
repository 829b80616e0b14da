"""The parts of an MJX task: initial states, observations, reward terms and endings.

Each part is a small Module that takes the model and the state of one body. Combine parts in
`MjxEnv` to define a task.
"""

import abc
import dataclasses
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ._state import BodyState, Model, Motion


class AbstractBodyStart(eqx.Module):
    """A random change to one part of the initial state."""

    @abc.abstractmethod
    def __call__(self, key: PRNGKeyArray, model: Model, state: BodyState) -> BodyState:
        """The state with its change."""


class AbstractBodyObservation(eqx.Module):
    """A function from the state to an observation vector."""

    @abc.abstractmethod
    def __call__(self, model: Model, state: BodyState) -> Float[Array, " numbers"]:
        """The observation."""


class AbstractBodyMeasure(eqx.Module):
    """A number computed from one step: a term of the reward, or an entry of `info`."""

    @abc.abstractmethod
    def __call__(self, model: Model, motion: Motion) -> Float[Array, ""]:
        """The number for one step."""


class AbstractBodyEnding(eqx.Module):
    """A condition under which the agent terminates."""

    @abc.abstractmethod
    def __call__(self, model: Model, state: BodyState) -> Bool[Array, ""]:
        """Whether the agent terminates in this state."""


@final
class NoisyStart(AbstractBodyStart):
    """Adds uniform noise to all joint positions and velocities. It is only for hinge and slide
    joints: noise would change the norm of the quaternion of a free or ball joint.

    **Arguments:**

    - `position`: the largest change of a position, in radians or metres.
    - `velocity`: the largest change of a velocity, in radians or metres per second.
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
    """Sets the initial position of one joint.

    **Arguments:**

    - `joint`: the index into `qpos`.
    - `position`: the initial position, in radians or metres.
    """

    joint: int = eqx.field(static=True)
    position: Float[Array, ""]

    def __init__(self, joint: int, position: int | float):
        self.joint, self.position = joint, jnp.asarray(position, float)

    def __call__(self, key: PRNGKeyArray, model: Model, state: BodyState) -> BodyState:
        return dataclasses.replace(state, qpos=state.qpos.at[self.joint].set(self.position))


@final
class RandomGoal(AbstractBodyStart):
    """Samples the x position of the first mocap body uniformly.

    **Arguments:**

    - `nearest`, `farthest`: the smallest and the largest x position, in metres.
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
    """The positions and velocities of all joints, unscaled.

    **Arguments:**

    - `skip`: the number of leading positions to leave out. For example, 1 leaves out the position
        along a track, which does not matter for the task.
    """

    skip: int = eqx.field(static=True, default=0)

    def __call__(self, model: Model, state: BodyState) -> Float[Array, " numbers"]:
        return jnp.concatenate([state.qpos[self.skip :], state.qvel])


@final
class Effort(AbstractBodyMeasure):
    """The mean square of the actions, times a weight.

    **Arguments:**

    - `weight`: the factor. A negative weight penalises large actions.
    """

    weight: Float[Array, ""]

    def __init__(self, weight: int | float):
        self.weight = jnp.asarray(weight, float)

    def __call__(self, model: Model, motion: Motion) -> Float[Array, ""]:
        return self.weight * jnp.mean(jnp.square(motion.action))


@final
class Distance(AbstractBodyMeasure):
    """The signed displacement of one joint in a step. Its sum over an episode is the displacement
    from the initial position.

    **Arguments:**

    - `joint`: the index into `qpos`.
    """

    joint: int = eqx.field(static=True, default=0)

    def __call__(self, model: Model, motion: Motion) -> Float[Array, ""]:
        return motion.after.qpos[self.joint] - motion.before.qpos[self.joint]


@final
class OutOfRange(AbstractBodyEnding):
    """The agent terminates when the position of one joint leaves a range.

    **Arguments:**

    - `joint`: the index into `qpos`.
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
