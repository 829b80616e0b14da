"""Imports of MuJoCo and MJX, the state of a body, and one environment step."""

import contextlib
import importlib
import io
from typing import Any, Literal, TypeAlias, final

import equinox as eqx
from jaxtyping import Array, Float

from ...errors import missing_library
from .._foreign import implicit_promotion

try:
    # MJX prints the names of optional parts that are missing. eqgrid does not need them.
    with contextlib.redirect_stdout(io.StringIO()):
        from mujoco import mjx as mjx
        from mujoco.mjx import Model as Model
except ImportError as error:
    raise missing_library(f"MuJoCo bodies need MuJoCo MJX ({error})", "mjx") from error

mujoco: Any = importlib.import_module("mujoco")
"""The C simulator, as `Any`, because type checkers cannot see the names in its compiled module."""

MjModel: TypeAlias = Any
"""A model of the C simulator, `mujoco.MjModel`."""

MjData: TypeAlias = Any
"""The data of the C simulator, `mujoco.MjData`."""

Renderer: TypeAlias = Literal["auto", "opengl", "side"]
"""How to draw: `opengl` renders in 3D, `side` draws a flat side view with Pillow, and `auto` uses
OpenGL where it works.
"""


@final
class BodyState(eqx.Module):
    """The part of MuJoCo's data that the simulator needs to continue. The simulator recomputes all
    other data in each step, so the state does not contain them.

    **Arguments:**

    - `qpos`: the positions of all joints.
    - `qvel`: the velocities of all joints.
    - `act`: the activations of actuators that have an internal state.
    - `warmstart`: the accelerations of the last step, where the solver starts its search
        (`qacc_warmstart` of MuJoCo).
    - `mocap_pos`: the positions of the mocap bodies, in metres. The simulation does not move them,
        so they can mark a goal.
    """

    qpos: Float[Array, " positions"]
    qvel: Float[Array, " velocities"]
    act: Float[Array, " memory"]
    warmstart: Float[Array, " velocities"]
    mocap_pos: Float[Array, "mocap 3"]


@final
class Motion(eqx.Module):
    """One environment step, which may be several simulator steps.

    **Arguments:**

    - `before`, `after`: the states before and after the step.
    - `action`: the controls of the actuators.
    - `seconds`: the simulated duration of the step.
    """

    before: BodyState
    after: BodyState
    action: Float[Array, " actuators"]
    seconds: Float[Array, ""]


def read_state(data: mjx.Data) -> BodyState:
    """Extracts the state from MJX's data."""
    return BodyState(data.qpos, data.qvel, data.act, data.qacc_warmstart, data.mocap_pos)


def write_state(data: mjx.Data, state: BodyState) -> mjx.Data:
    """Writes a state into MJX's data, without recomputing the quantities that depend on it."""
    return data.replace(
        qpos=state.qpos,
        qvel=state.qvel,
        act=state.act,
        qacc_warmstart=state.warmstart,
        mocap_pos=state.mocap_pos,
    )


def body_positions(model: mjx.Model, state: BodyState) -> Float[Array, "bodies 3"]:
    """The positions of the bodies of the model, in metres, for custom observations and rewards.

    **Arguments:**

    - `model`: the model, as it is passed to observations and rewards.
    - `state`: a state of the model.

    **Returns:** the origin of every body, in the order of the model. The first body is the world.
    """
    with implicit_promotion():
        return mjx.kinematics(model, write_state(mjx.make_data(model), state)).xpos
