"""Environments from MuJoCo models, simulated by MJX."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, Shaped, UInt8

from ..._checks import as_count
from ..._env import AbstractEnv, TimeStep
from ..._spaces import AbstractSpace, Box
from ...errors import import_optional
from .._foreign import implicit_promotion
from ._parts import (
    AbstractBodyEnding,
    AbstractBodyMeasure,
    AbstractBodyObservation,
    AbstractBodyStart,
    Coordinates,
)
from ._state import (
    BodyState,
    MjModel,
    Motion,
    Renderer,
    mjx,
    mujoco,
    read_state,
    write_state,
)


class AbstractMjxEnv(AbstractEnv):
    """A MuJoCo model that is controlled by one agent.

    The constructor of a subclass chooses the parts of the task, such as rewards and endings. Use
    `MjxEnv` for a task without its own class.

    An action has one number per actuator, clipped to the actuator's `ctrlrange`. `info` has an
    entry for each of `rewards` and `measures`, with one number per agent. `LogEpisodes` can sum
    these entries.

    An episode ends by one of `endings`, or if the simulation diverges: when positions or velocities
    become non-finite, the environment keeps the last finite state, the reward is 0, and the agent
    terminates. Add a time limit with `TimeLimit`.

    The model consists of array leaves (masses, gravity, ...), so environments with different models
    can be batched. Change a leaf with `eqx.tree_at(lambda env: env.model.opt.gravity, env, ...)`.

    **Arguments:**

    - `source`: an MJCF text, or the path of an MJCF file.
    - `rewards`: the terms of the reward, by name; the reward is their sum.
    - `measures`: further entries of `info`, by name.
    - `observation`: the observation; all joint positions and velocities by default.
    - `starts`: changes to the model's initial state, applied in this order.
    - `endings`: conditions that terminate the agent; one of them is enough.
    - `substeps`: the number of simulator steps per environment step.

    **Raises:** `ValueError` when MuJoCo cannot read the model, MJX cannot simulate it, an actuator
    has no `ctrlrange`, or a reward and a measure have the same name.
    """

    num_agents: int = eqx.field(static=True)
    action_space: AbstractSpace
    model: mjx.Model
    data: mjx.Data
    rewards: dict[str, AbstractBodyMeasure]
    measures: dict[str, AbstractBodyMeasure]
    observation: AbstractBodyObservation
    starts: tuple[AbstractBodyStart, ...]
    endings: tuple[AbstractBodyEnding, ...]
    substeps: int = eqx.field(static=True)
    source: str = eqx.field(static=True)

    def __init__(
        self,
        source: str | Path,
        *,
        rewards: Mapping[str, AbstractBodyMeasure],
        measures: Mapping[str, AbstractBodyMeasure] | None = None,
        observation: AbstractBodyObservation | None = None,
        starts: Sequence[AbstractBodyStart] = (),
        endings: Sequence[AbstractBodyEnding] = (),
        substeps: int = 1,
    ):
        self.rewards, self.measures = dict(rewards), dict(measures or {})
        if shared := set(self.rewards) & set(self.measures):
            name = min(shared)
            raise ValueError(f"{name!r} is the name of a reward and of a measure: change it.")
        self.source = str(source)
        compiled = load_model(self.source)
        try:
            self.model = mjx.put_model(compiled, impl="jax")
        except NotImplementedError as error:
            raise ValueError(f"MJX cannot simulate the model: {error}") from error
        self.data = mjx.make_data(compiled, impl="jax")
        self.num_agents = 1
        unlimited = np.flatnonzero(~np.asarray(compiled.actuator_ctrllimited, bool))
        if unlimited.size:
            actuator = compiled.actuator(unlimited[0]).name or str(unlimited[0])
            raise ValueError(f"The actuator {actuator!r} needs limits: give it a ctrlrange.")
        low, high = jnp.asarray(compiled.actuator_ctrlrange.T, float)
        self.action_space = Box(low, high, shape=(compiled.nu,))
        self.observation = Coordinates() if observation is None else observation
        self.starts, self.endings = tuple(starts), tuple(endings)
        self.substeps = as_count(substeps, f"{type(self).__name__} needs at least 1 substep")

    @property
    def seconds_per_step(self) -> Float[Array, ""]:
        """The simulated duration of one environment step, in seconds."""
        return jnp.asarray(self.model.opt.timestep, float) * self.substeps

    @property
    def by_agent(self) -> tuple[str, ...]:
        """The names of the entries of `info` with one number per agent, which are all entries."""
        return (*self.rewards, *self.measures)

    def reset(self, key: PRNGKeyArray) -> tuple[Float[Array, "agents numbers"], BodyState]:
        state = read_state(self.data)
        for i, start in enumerate(self.starts):
            state = start(jax.random.fold_in(key, i), self.model, state)
        return self.observe(state), state

    def step(
        self, key: PRNGKeyArray, state: BodyState, action: Shaped[Array, "agents actuators"]
    ) -> tuple[TimeStep, BodyState]:
        assert isinstance(self.action_space, Box)
        control = jnp.clip(action[0], self.action_space.low, self.action_space.high)
        after = self._simulate(state, control)
        finite = jnp.isfinite(after.qpos).all() & jnp.isfinite(after.qvel).all()
        after = jax.tree.map(lambda new, old: jnp.where(finite, new, old), after, state)
        motion = Motion(state, after, control, self.seconds_per_step)
        rewards = {name: term(self.model, motion) for name, term in self.rewards.items()}
        measures = {name: term(self.model, motion) for name, term in self.measures.items()}
        reward = jnp.where(finite, sum(rewards.values(), jnp.zeros(())), 0.0)
        terminated = ~finite
        for ending in self.endings:
            terminated |= ending(self.model, after)
        info = {name: number[None] for name, number in (rewards | measures).items()}
        truncated = jnp.zeros((), bool)
        timestep = TimeStep(self.observe(after), reward[None], terminated[None], truncated, info)
        return timestep, after

    def observe(self, state: BodyState) -> Float[Array, "agents numbers"]:
        return self.observation(self.model, state)[None]

    def render(
        self, state: BodyState, *, width: int = 480, renderer: Renderer = "auto"
    ) -> UInt8[np.ndarray, "rows columns 3"]:
        """Draws one state.

        **Arguments:**

        - `state`: the state to draw, with concrete arrays.
        - `width`: the width of the picture in pixels.
        - `renderer`: `"opengl"` for a 3D view, `"side"` for a flat side view, or `"auto"` for
            OpenGL with the side view as a fallback.

        **Returns:** the picture, RGB.

        **Raises:** `RuntimeError` when `renderer` is `"opengl"` and OpenGL cannot be used.
        """
        states = jax.tree.map(lambda x: np.asarray(x)[None], state)
        model = load_model(self.source)
        return _pictures().draw_frames(model, states, width=width, renderer=renderer)[0]

    def render_episode(
        self,
        states: BodyState,
        *,
        width: int = 480,
        frames_per_second: int | float = 25,
        captions: Sequence[str] | None = None,
        renderer: Renderer = "auto",
    ) -> bytes:
        """Draws an episode as an animated GIF that loops and plays in real time.

        **Arguments:**

        - `states`: the states to draw; every array has a leading time axis.
        - `width`, `renderer`: as in `render`.
        - `frames_per_second`: the approximate frame rate. The video skips states to reach it.
        - `captions`: a short text for every state, such as the score.

        **Returns:** the bytes of the GIF file.

        **Raises:** `RuntimeError` when `renderer` is `"opengl"` and OpenGL cannot be used.
        """
        seconds = float(self.seconds_per_step)
        stride = max(1, round(1 / (frames_per_second * seconds)))
        drawn = range(0, len(states.qpos), stride)
        states = jax.tree.map(lambda x: np.asarray(x)[::stride], states)
        model, pictures = load_model(self.source), _pictures()
        frames = pictures.draw_frames(model, states, width=width, renderer=renderer)
        texts = [(f"{i * seconds:.1f} s", captions[i] if captions else "") for i in drawn]
        return pictures.write_gif(frames, texts, stride * seconds)

    def _simulate(self, state: BodyState, control: Float[Array, " actuators"]) -> BodyState:
        def step(_: ArrayLike, data: mjx.Data) -> mjx.Data:
            return mjx.step(self.model, data)

        with implicit_promotion():
            data = write_state(self.data, state).replace(ctrl=control)
            return read_state(jax.lax.fori_loop(0, self.substeps, step, data))


@final
class MjxEnv(AbstractMjxEnv):
    """An environment from any MuJoCo model and parts; see `AbstractMjxEnv` for the arguments."""

    # Without this line, type checkers would derive the arguments of `__init__` from the fields.
    __init__ = AbstractMjxEnv.__init__


def load_model(source: str) -> MjModel:
    """Compiles a MuJoCo model from an MJCF text, or from the path of a file.

    **Raises:** `ValueError` when MuJoCo cannot read it.
    """
    try:
        if source.lstrip().startswith("<"):
            return mujoco.MjModel.from_xml_string(source)
        return mujoco.MjModel.from_xml_path(source)
    except ValueError as error:
        message = " ".join(str(error).split())
        raise ValueError(f"MuJoCo cannot read the model: {message}") from error


def _pictures() -> ModuleType:
    """Imports the drawing module on first use, because it needs Pillow and SciPy.

    **Raises:** `ImportError` when Pillow is not installed.
    """
    return import_optional(f"{__package__}._pictures", "Pictures need pillow", "pictures")
