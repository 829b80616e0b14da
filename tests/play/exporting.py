"""Worlds to export in tests, and the runtime for browsers, where there is one."""

import importlib
import os
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

from eqgrid_lab import Partners
from eqgrid_play.games import Place
from eqgrid_play.static._rewrite import as_data
from eqgrid_play.static._world import PageWorld

ROOT = Path(__file__).parents[2]
POLICIES = ROOT / "experiments" / "policies"
RUNTIME = os.environ.get("EQGRID_ONNXRUNTIME_WEB")
NO_RUNTIME = (
    "needs ONNX Runtime for browsers: npm install onnxruntime-web in a folder of its own, and set "
    "EQGRID_ONNXRUNTIME_WEB to node_modules/onnxruntime-web/dist from there"
)


@pytest.fixture(scope="module")
def runtime():
    """The folder of the runtime; without one, the test is skipped."""
    if RUNTIME is None:
        pytest.skip(NO_RUNTIME)
    return RUNTIME


def page_world(env, partner: str) -> PageWorld:
    """A world with a partner."""
    place = Place.of(env)
    return PageWorld(place, Partners().build(partner, place).partner)


def leaves_of(tree):
    """The leaves of a tree as models take and return them."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(as_data(tree))]


class Model:
    """An ONNX model that runs in this process, without optimisations, as in the page."""

    def __init__(self, content):
        onnxruntime = importlib.import_module("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = onnxruntime.InferenceSession(content, options)

    def __call__(self, **inputs):
        names = [x.name for x in self.session.get_inputs()]
        found = self.session.run(None, {x: np.asarray(as_data(inputs[x])) for x in names})
        return dict(zip((x.name for x in self.session.get_outputs()), found, strict=True))


def draw_actions(world, rng):
    """Samples an action for every seat, and the seats in which a person acts."""
    pressed, person = (np.array(x) for x in world.nobody)
    actions = [x.action for x in world.place.controls]
    return rng.choice(actions, pressed.shape).astype(pressed.dtype), rng.random(len(person)) < 0.75


def check_step(world, model, after, state, pressed, person):
    """The model takes the step of Python bit for bit, up to the memory of a policy."""
    given = {f"state_{i}": x for i, x in enumerate(leaves_of(state))}
    found = model(**given, pressed=pressed, person=person)
    play = world.play_state(after.state)
    memory = {id(x) for x in jax.tree.leaves(eqx.filter(play.carries, eqx.is_inexact_array))}
    close = [id(x) in memory for x in after.state]
    close += [False] * (len(found) - len(close))
    for name, expected, is_close in zip(found, leaves_of(after), close, strict=True):
        assert expected.dtype == found[name].dtype
        atol = 1e-6 if is_close else 0
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=atol, err_msg=name)


def check_models(world, start, step, steps):
    """Plays random steps with models and in Python, and compares all results."""
    run_start, run_step, rng = Model(start), Model(step), np.random.default_rng(0)
    first, compiled, state = jax.jit(world.start), jax.jit(world.step), None
    for number in range(steps):
        if state is None:
            started = first(jax.random.key(number))
            found = run_start(key=jax.random.key(number)).values()
            for expected, own in zip(leaves_of(started), found, strict=True):
                np.testing.assert_array_equal(own, expected)
            state = started.state
        pressed, person = draw_actions(world, rng)
        after = compiled(state, pressed, person)
        check_step(world, run_step, after, state, pressed, person)
        state = None if bool(after.finished) else after.state
