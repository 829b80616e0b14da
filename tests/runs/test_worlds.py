"""All worlds: each keeps the protocol, has a name, pictures, and settings on the command line."""

import base64
import io
import json
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from eqgrid import ENVIRONMENTS, check_env, make
from eqgrid.grid import AbstractGridWorld, Stay
from eqgrid_lab.worlds import WORLDS, world_settings


@pytest.mark.slow
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_it_keeps_the_protocol(name):
    check_env(make(name), steps=40)


QUICK = ("overcooked", "goals")


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=[pytest.mark.slow] * (x not in QUICK)) for x in ENVIRONMENTS],
)
def test_a_number_that_is_no_action_does_nothing(name, key):
    """All agents but the first do something meanwhile, at many times of an episode."""
    env = make(name, horizon=60)
    stay = env.actions.index(Stay())

    @eqx.filter_jit
    @jax.vmap
    def go(key):
        action_key, step_key = jax.random.split(key)
        _, state = env.reset(key)
        steps = jax.random.randint(action_key, (20, env.num_agents), 0, env.action_space.n)
        state, _ = jax.lax.scan(lambda s, a: (env.step(step_key, s, a)[1], None), state, steps)
        numbers = jnp.asarray(
            [stay, -1, len(env.actions), 127, 128, 256 + stay, 2**31 - 1, -(2**31)]
        )
        actions = jnp.broadcast_to(steps[0], (len(numbers), env.num_agents)).at[:, 0].set(numbers)
        return jax.vmap(lambda action: env.step(step_key, state, action))(actions)

    for leaf in jax.tree.leaves(go(jax.random.split(key, 16))):
        np.testing.assert_array_equal(leaf, np.broadcast_to(leaf[:, :1], leaf.shape))


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_it_has_pictures_and_videos(name):
    env = make(name)
    assert isinstance(env, AbstractGridWorld)
    _, state = eqx.filter_jit(env.reset)(jax.random.key(0))
    action = jnp.zeros(env.num_agents, int)
    _, after = eqx.filter_jit(env.step)(jax.random.key(1), state, action)
    assert env.render(state, cell_pixels=16).ndim == 3
    video = env.render_episode(
        jax.tree.map(lambda *x: jnp.stack(x), state, after), cell_pixels=16, captions=["a", "b"]
    )
    assert Image.open(io.BytesIO(video)).format == "GIF"


@pytest.mark.parametrize("name", ["overcooked", "goals"])
def test_it_shows_itself_in_a_notebook(name):
    html = make(name)._repr_html_()
    (frames,) = re.findall(r"const frames = (\[.*?\]), order", html)
    (order,) = re.findall(r"order = (\[.*?\])", html)
    pictures = [
        Image.open(io.BytesIO(base64.b64decode(frame))).size for frame in json.loads(frames)
    ]
    assert len(json.loads(order)) == 31
    assert set(json.loads(order)) == set(range(len(pictures)))
    assert len(set(pictures)) == 1
    assert 'max="30"' in html
    assert "http" not in html


def test_a_large_world_has_a_video(key):
    config = world_settings("foraging", size=80)
    world = config.build(train=False)
    states = jax.tree.map(lambda x: x[None], eqx.filter_jit(world.reset)(key)[1])
    assert Image.open(io.BytesIO(config.draw(world, states, [0.0]))).size >= (1280, 1280)


def test_every_world_has_settings_of_its_own():
    assert list(WORLDS) == [*ENVIRONMENTS, "body"]
    for name in ENVIRONMENTS:
        config = world_settings(name)
        assert config.name == name
        assert isinstance(config.build(train=True), AbstractGridWorld)
        assert config.title
        assert config.optimum is None or config.optimum > 0
        assert config.facts.threshold > 0
        assert config.obstacle() is None
