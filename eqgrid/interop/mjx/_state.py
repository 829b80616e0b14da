"""Where a body is, and how it moved in one step."""

import contextlib
from collections.abc import Iterator
from typing import final

import equinox as eqx
import jax
from jaxtyping import Array, Float

from ._library import mjx


@final
class BodyState(eqx.Module):
    """All that the simulator must know to go on, in MuJoCo's own words. Everything else that it
    works out follows from this and the model, so a state stays small.

    **Arguments:**

    - `qpos`: the position of every joint.
    - `qvel`: their velocities.
    - `act`: what actuators with a memory remember.
    - `warmstart`: the accelerations of the last step, from which the solver starts its search.
    - `mocap_pos`: where the mocap bodies are. Nothing moves them during an episode, so they can
        mark a goal.
    """

    qpos: Float[Array, " positions"]
    qvel: Float[Array, " velocities"]
    act: Float[Array, " memory"]
    warmstart: Float[Array, " velocities"]
    mocap_pos: Float[Array, "mocap 3"]


@final
class Motion(eqx.Module):
    """One finished step of an environment, which may be several steps of the simulator.

    **Arguments:**

    - `before`, `after`: the states.
    - `action`: what the actuators were told.
    - `seconds`: how long the step took in the simulated world.
    """

    before: BodyState
    after: BodyState
    action: Float[Array, " actuators"]
    seconds: Float[Array, ""]


def read_state(data: mjx.Data) -> BodyState:
    """The part of MJX's data that the simulator needs to go on."""
    return BodyState(data.qpos, data.qvel, data.act, data.qacc_warmstart, data.mocap_pos)


def write_state(data: mjx.Data, state: BodyState) -> mjx.Data:
    """MJX's data with a state in it. What follows from the state is not worked out yet."""
    return data.replace(
        qpos=state.qpos,
        qvel=state.qvel,
        act=state.act,
        qacc_warmstart=state.warmstart,
        mocap_pos=state.mocap_pos,
    )


def body_positions(model: mjx.Model, state: BodyState) -> Float[Array, "bodies 3"]:
    """Where the bodies of the model are, in metres; for observations and rewards of your own.

    **Arguments:**

    - `model`: the model, as observations and rewards are given it.
    - `state`: a state of it.

    **Returns:** the origin of every body, in the order of the model, the world's own first.
    """
    with any_promotion():
        return mjx.kinematics(model, write_state(mjx.make_data(model), state)).xpos


@contextlib.contextmanager
def any_promotion() -> Iterator[None]:
    """MJX mixes dtypes and ranks, which programs with strict settings would refuse."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
