"""Bodies that MuJoCo MJX simulates, compared with MuJoCo's C simulator."""

import dataclasses
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_lines import call, hear
from jaxtyping import Array, Float
from PIL import Image
from scripts import shipped_script

from eqgrid import AutoReset, LogEpisodes, NormalizeObservation, TimeLimit, Vectorize, check_env
from eqgrid.envs.bodies import Biped, CartPole
from eqgrid.interop import to_gymnasium
from eqgrid.interop.mjx import (
    AbstractBodyMeasure,
    Effort,
    MjxEnv,
    Model,
    Motion,
    NoisyStart,
    OutOfRange,
    body_positions,
)
from eqgrid.interop.mjx._env import load_model
from eqgrid.interop.mjx._state import mujoco
from eqgrid_lab.base import UsageError
from eqgrid_lab.commands import evaluate_command
from eqgrid_lab.settings import parse

pytestmark = pytest.mark.slow

SHAPES = ("sphere", "capsule", "box", "cylinder", "ellipsoid")
ZOO = f"""<mujoco>
  <worldbody>
    <geom type="plane" size="5 5 1" pos="0 0 -1"/>
    <body><joint type="slide" axis="1 0 0"/>
      {"".join(f'<geom type="{x}" pos="{i} 0 0" size=".2 .1 .3"/>' for i, x in enumerate(SHAPES))}
    </body>
  </worldbody>
  <actuator><motor joint="{{}}" gear="1" {{}}/></actuator>
</mujoco>"""
POINT = """<mujoco><option timestep="0.1"/><worldbody><body>
  <joint name="x" type="slide" axis="1 0 0"/><geom size="0.1" mass="2"/></body></worldbody>
  <actuator><motor joint="x" gear="4" ctrlrange="-3 3"/></actuator></mujoco>"""


@final
class Place(AbstractBodyMeasure):
    """Where the first joint is."""

    def __call__(self, model: Model, motion: Motion) -> Float[Array, ""]:
        return motion.after.qpos[0]


def point(**options) -> MjxEnv:
    """A mass of 2 kg that is pushed along a line by up to 12 N."""
    return MjxEnv(POINT, rewards={"place": Place()}, **options)


def test_gymnasium_gets_the_terms_of_the_reward_as_numbers():
    env = LogEpisodes(TimeLimit(point(measures={"effort": Effort(1.0)}), 5), ("place", "effort"))
    adapted = to_gymnasium(env)
    adapted.reset(seed=0)
    info = adapted.step(np.ones(1, np.float32))[-1]
    assert {np.shape(info[name]) for name in ("place", "effort", "episode_place")} == {()}


@pytest.fixture(scope="module")
def cart_pole():
    return CartPole()


@pytest.fixture(scope="module")
def biped():
    return Biped("reach")


@pytest.fixture(scope="module")
def step():
    return eqx.filter_jit(lambda env, state, action: env.step(jax.random.key(0), state, action))


def follow(env: MjxEnv, step, steps: int, **solver: int) -> float:
    """Takes every step in both simulators, and continues with the state that C came to, until the
    task is over and a new episode starts.

    **Arguments:**

    - `solver`: options of C's solver that are not those of the model.

    **Returns:** the largest difference of positions and velocities.
    """
    model = load_model(env.source)
    for name, value in solver.items():
        setattr(model.opt, name, value)
    data, rng, worst = mujoco.MjData(model), np.random.default_rng(0), 0.0
    state = None
    for number in range(steps):
        if state is None:
            state = env.reset(jax.random.key(number))[1]
            mujoco.mj_resetData(model, data)
            data.qpos[:], data.qvel[:] = state.qpos, state.qvel
            data.mocap_pos[:] = state.mocap_pos
        action = rng.uniform(-1, 1, (1, model.nu)).astype(np.float32)
        timestep, state = step(env, state, jnp.asarray(action))
        data.ctrl[:] = action[0]
        mujoco.mj_step(model, data, env.substeps)
        after = {"qpos": data.qpos, "qvel": data.qvel, "warmstart": data.qacc_warmstart}
        for name in ("qpos", "qvel"):
            worst = max(worst, np.abs(after[name] - getattr(state, name)).max())
        floats = {name: jnp.asarray(x, jnp.float32) for name, x in after.items()}
        state = None if timestep.done else dataclasses.replace(state, **floats)
    return worst


def test_a_cart_pole_moves_as_in_c(cart_pole, step):
    assert follow(cart_pole, step, 100) < 1e-5


def test_a_biped_moves_as_in_c(biped, step):
    # It falls, and its feet hit the floor. In C, the solver goes on until nothing changes.
    assert follow(biped, step, 150, iterations=100, ls_iterations=50) < 0.05


def test_controls_are_clipped(cart_pole, step):
    """What is paid for them, too."""
    effort = MjxEnv(cart_pole.source, rewards={"effort": Effort(1.0)})
    state = effort.reset(jax.random.key(1))[1]
    space = effort.action_space
    for bound, beyond in ((space.high, space.high + 5.0), (space.low, space.low - 5.0)):
        ours, theirs = (step(effort, state, action[None]) for action in (beyond, bound))
        assert eqx.tree_equal(ours, theirs)


def test_it_keeps_the_protocol():
    ends = (OutOfRange(0, -0.5, 0.5),)
    check_env(point(starts=(NoisyStart(0.1, 0.1),), endings=ends, substeps=2), steps=30)


def test_a_force_moves_a_mass(step):
    env = point(substeps=3)
    assert (env.action_space.low, env.action_space.high) == (-3, 3)
    timestep, state = step(env, env.reset(jax.random.key(0))[1], jnp.ones((1, 1)))
    # Semi-implicit Euler with 2 metres per second squared: the velocity changes first.
    np.testing.assert_allclose(state.qvel, 3 * 0.2, rtol=1e-5)
    np.testing.assert_allclose(state.qpos, 0.1 * (0.2 + 0.4 + 0.6), rtol=1e-5)
    np.testing.assert_allclose(timestep.reward, 0.12, rtol=1e-5)
    np.testing.assert_allclose(timestep.observation, [[0.12, 0.6]], rtol=1e-5)


def test_falling_terminates_and_a_time_limit_truncates(step):
    env = TimeLimit(point(endings=(OutOfRange(0, -0.1, 0.1),)), 3)
    ends = []
    for push in (3.0, 0.0):
        state = env.reset(jax.random.key(0))[1]
        for _ in range(3):
            timestep, state = step(env, state, jnp.full((1, 1), push))
            ends.append((bool(timestep.terminated[0]), bool(timestep.truncated)))
    # The pushed mass leaves the range with the second step: 0.06 metres, then 0.18.
    assert ends == [(False, False), (True, False), (True, True)] + 2 * [(False, False)] + [
        (False, True)
    ]


def test_what_is_not_finite_ends_the_task(step):
    env = point(measures={"effort": Effort(-1.0)})
    state = env.reset(jax.random.key(0))[1]
    timestep, after = step(env, state, jnp.full((1, 1), jnp.nan))
    assert timestep.terminated.all()
    assert timestep.reward == 0
    assert eqx.tree_equal(state, after)


def test_gravity_may_differ_in_a_batch():
    def fall(gravity: Float[Array, "3"], env: MjxEnv) -> Float[Array, " 1"]:
        env = eqx.tree_at(lambda env: env.model.opt.gravity, env, gravity)
        state = env.reset(jax.random.key(0))[1]
        return env.step(jax.random.key(0), state, jnp.zeros((1, 1)))[1].qvel

    gravity = jnp.array([[1.0, 0.0, 0.0], [-3.0, 0.0, 0.0]])
    velocity = eqx.filter_jit(eqx.filter_vmap(fall, in_axes=(0, None)))(gravity, point())
    np.testing.assert_allclose(velocity, 0.1 * gravity[:, :1], rtol=1e-5)


def test_wrappers_hold_bodies():
    one = AutoReset(LogEpisodes(TimeLimit(point(), 4), ("place",)))
    env = NormalizeObservation(Vectorize(one, 3))
    observation, state = eqx.filter_jit(env.reset)(jax.random.key(0))
    step = eqx.filter_jit(env.step)
    places = 0.02 * np.cumsum(np.cumsum(np.ones(4)))
    for count in range(1, 9):
        timestep, state = step(jax.random.key(count), state, jnp.ones((3, 1, 1)))
        assert timestep.observation.shape == observation.shape == (3, 1, 2)
        assert (timestep.truncated == (count % 4 == 0)).all()
        total = places.sum() if count % 4 == 0 else 0
        np.testing.assert_allclose(timestep.info["episode_place"], total, rtol=1e-5)
    assert not np.allclose(timestep.observation, timestep.final_observation)


def test_tasks_differ_only_in_what_is_paid(biped):
    shapes = [eqx.filter_eval_shape(env.reset, jax.random.key(0)) for env in (Biped("walk"), biped)]
    assert eqx.tree_equal(*shapes)
    goal = biped.reset(jax.random.key(3))[1].mocap_pos[0, 0]
    assert 2 <= goal <= 5


def test_a_biped_is_paid_for_what_its_task_says():
    state = Biped().reset(jax.random.key(0))[1]
    upright = dataclasses.replace(state, qpos=jnp.zeros(9), mocap_pos=jnp.array([[3.0, 0.0, 0.0]]))

    def paid(task: str, start: float, end: float, **changes) -> float:
        before, after = (
            dataclasses.replace(upright, qpos=upright.qpos.at[0].set(x)) for x in (start, end)
        )
        if changes:
            after = dataclasses.replace(after, qpos=after.qpos.at[1].set(changes["sunk"]))
        motion = Motion(before, after, jnp.zeros(6), jnp.asarray(0.02))
        env = Biped(task)
        return float(env.rewards["task"](env.model, motion))

    assert paid("balance", 0, 0) == pytest.approx(1)
    assert paid("balance", 0, 0, sunk=-0.2) == pytest.approx(0.5)
    assert paid("walk", 0, 0) == pytest.approx(0.2)
    assert paid("walk", 0, 0.01) == pytest.approx(0.6)
    assert paid("walk", 0, 0.1) == pytest.approx(1)
    assert paid("walk", 0, -0.1) == pytest.approx(0.2)
    assert paid("reach", 0, 0.01) == pytest.approx(0.6)
    assert paid("reach", 5, 5.01) == pytest.approx(0.2)  # beyond the goal
    assert paid("reach", 5, 4.99) == pytest.approx(0.6, rel=1e-4)
    assert paid("reach", 2.7, 2.7) == pytest.approx(1)  # at the goal


def test_a_hanging_pole_earns_nothing():
    env = CartPole("swing_up")
    state = env.reset(jax.random.key(0))[1]
    for angle, reward in ((jnp.pi, 0), (0.0, 1)):
        there = dataclasses.replace(state, qpos=jnp.array([0.0, angle]), qvel=jnp.zeros(2))
        motion = Motion(there, there, jnp.zeros(1), jnp.asarray(0.02))
        assert env.rewards["upright"](env.model, motion) == pytest.approx(reward, abs=1e-6)


def test_bodies_are_where_c_says(biped):
    state = biped.reset(jax.random.key(2))[1]
    model = load_model(biped.source)
    data = mujoco.MjData(model)
    data.qpos[:], data.mocap_pos[:] = state.qpos, state.mocap_pos
    mujoco.mj_kinematics(model, data)
    positions = eqx.filter_jit(body_positions)(biped.model, state)
    np.testing.assert_allclose(positions, data.xpos, atol=1e-5)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("<mujoco><worldbody><oops/></worldbody></mujoco>", "MuJoCo cannot read the model"),
        ("nowhere.xml", "MuJoCo cannot read the model"),
        (POINT.replace('ctrlrange="-3 3"', ""), "give it a ctrlrange"),
        (POINT.replace("<world", '<option solver="PGS"/><world', 1), "MJX cannot simulate"),
    ],
)
def test_a_wrong_model_is_refused(source, sentence):
    with pytest.raises(ValueError, match=sentence) as refusal:
        MjxEnv(source, rewards={})
    assert "\n" not in str(refusal.value)


def test_names_and_substeps_are_checked():
    with pytest.raises(ValueError, match="'place' is the name of a reward and of a measure"):
        point(measures={"place": Place()})
    with pytest.raises(ValueError, match="at least 1 substep"):
        point(substeps=0)


def test_a_video_shows_what_moves(cart_pole):
    state = cart_pole.reset(jax.random.key(0))[1]
    states = jax.tree.map(lambda x: np.repeat(np.asarray(x)[None], 8, axis=0), state)
    angles = np.stack([np.zeros(8), np.linspace(0, 1, 8)], axis=1)
    turned = eqx.tree_at(lambda states: states.qpos, states, angles)
    for shown, different in ((states, 1), (turned, 4)):
        video = cart_pole.render_episode(shown, renderer="side", captions=["1.0"] * 8)
        pictures, milliseconds = [], 0
        with Image.open(io.BytesIO(video)) as image:
            for frame in range(getattr(image, "n_frames", 1)):
                image.seek(frame)
                milliseconds += image.info["duration"]
                # Without the bar, where the time runs.
                pictures.append(np.asarray(image.convert("RGB"))[:-20].tobytes())
        assert len(set(pictures)) == different
        assert milliseconds == 8 * 20


def test_every_shape_is_drawn():
    env = MjxEnv(
        ZOO.format("", "").replace('<actuator><motor joint="" gear="1" /></actuator>', "")
        .replace('<joint type="slide" axis="1 0 0"/>', '<joint name="x" type="slide"/>')
        .replace("</worldbody>", '</worldbody><actuator><motor joint="x" ctrlrange="-1 1"/>'
                 "</actuator>"),
        rewards={},
    )  # fmt: skip
    picture = env.render(env.reset(jax.random.key(0))[1], renderer="side")
    colours = len(np.unique(picture.reshape(-1, 3), axis=0))
    assert picture.shape[1:] == (480, 3)
    assert colours > 3


def test_without_opengl_it_is_drawn_from_the_side(cart_pole, monkeypatch):
    state = cart_pole.reset(jax.random.key(0))[1]
    monkeypatch.setenv("MUJOCO_GL", "disable")
    side, auto = (cart_pole.render(state, renderer=who) for who in ("side", "auto"))
    assert (side == auto).all()
    with pytest.raises(RuntimeError, match="renderer='side'"):
        cart_pole.render(state, renderer="opengl")


def test_the_command_lines_train_and_evaluate_a_body(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = "--total-steps 256 --num-envs 4 --ppo.rollout-length 32 --env.horizon 40 "
    small += "--eval-every 128 --eval-episodes 4 --out run"
    assert call(*small.split(), algorithm="body") == 0
    capsys.readouterr()
    code, said = hear(
        capsys, evaluate_command, "run", "--episodes", 2, "--no-video", "--out", "judged"
    )
    assert code == 0, said
    assert json.loads(Path("run/result.json").read_text())["world"] == "body"
    assert Path("run/episode.gif").stat().st_size > 0
    found = json.loads(Path("judged/evaluation.json").read_text())["results"][0]
    assert found["events"]["upright"] == [found["return_mean"]]


WITHOUT = """
import sys
sys.modules["mujoco"] = None
try:
    import eqgrid.interop.mjx
except ImportError as error:
    print(error)
"""


def test_without_mujoco_one_sentence_says_what_to_install():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert "pip install 'eqgrid[mjx]'" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--env.task", "walk"], "has no task 'walk': choose balance or swing_up"),
        (["--env.model", "biped", "--env.task", "swing_up"], "choose balance, walk, reach"),
    ],
)
def test_flags_that_do_not_fit_are_refused(flags, sentence):
    with pytest.raises((UsageError, ValueError), match=sentence):
        parse(shipped_script("ippo"), ["--env.name", "body", *flags]).env.build(train=False)
