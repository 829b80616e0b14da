"""Exporting a page: draws without keys, pictures, models, and wrong input."""

import functools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exporting import POLICIES, Model, check_models, check_step, draw_actions, page_world

from eqgrid_lab import Kitchen
from agents import GRU, CheckpointError, PolicyPartner, actor_critic, trained_policy
from eqgrid import DelayedPartner, NoisyPartner, Vectorize, unwrap_state
from eqgrid.grid import draw_look, looks
from eqgrid_lab.base import UsageError
from eqgrid_lab.worlds import world_settings
from eqgrid_play.games import Place
from eqgrid_play.static import _export_page
from eqgrid_play.static._rewrite import as_data, rewrite
from eqgrid_play.static._sheet import draw_sheet
from eqgrid_play.static._world import PageWorld

pytest.importorskip("jax2onnx", reason="needs the extra [onnx]")
pytest.importorskip("onnxruntime", reason="needs the extra [onnx]")

from eqgrid_play.static._models import start_model, step_model, to_model

pytestmark = pytest.mark.slow


def in_control_flow(key):
    def body(key, x):
        key, own = jax.random.split(key)
        drawn = jax.lax.cond(x > 1, lambda: jax.random.uniform(own), lambda: jax.random.normal(own))
        return key, drawn

    key, rows = jax.lax.scan(body, key, jnp.arange(4))
    last = jax.lax.while_loop(
        lambda x: jax.random.bits(x) % 3 != 0, lambda x: jax.random.fold_in(x, 7), key
    )
    return rows, last


DRAWS = {
    "split": lambda key: jax.random.split(key, (2, 3)),
    "bits": lambda key: [jax.random.bits(key, (3,), x) for x in (jnp.uint8, jnp.uint16)],
    "uniform": lambda key: jax.random.uniform(key, (5,), minval=-2, maxval=3),
    "randint": lambda key: jax.random.randint(key, (6,), -4, 11),
    "categorical": lambda key: jax.random.categorical(key, jnp.arange(5.0)),
    "bernoulli": lambda key: jax.random.bernoulli(key, 0.3, (7,)),
    "permutation": lambda key: jax.random.permutation(key, 9),
    "many keys": lambda key: jax.vmap(jax.random.uniform)(jax.random.split(key, 4)[1:]),
    "a chosen key": lambda key: jnp.where(jax.random.bernoulli(key), key, jax.random.split(key)[0]),
    "control flow": in_control_flow,
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_those_of_jax(name):
    draw = DRAWS[name]
    flat, _ = rewrite(draw, jax.random.key(0))
    flat = jax.jit(flat)
    for seed in range(5):
        key = jax.random.key(seed)
        expected = jax.tree.leaves(as_data(jax.jit(draw)(key)))
        for own, other in zip(flat(jax.random.key_data(key)), expected, strict=True):
            np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("name", ["split", "uniform", "randint", "categorical", "bernoulli"])
def test_draws_in_a_model_are_those_of_jax(name):
    draw = DRAWS[name]
    outputs = [f"drawn_{i}" for i in range(len(jax.tree.leaves(draw(jax.random.key(0)))))]
    model = Model(to_model(draw, [jax.random.key(0)], ["key"], outputs))
    for seed in (0, 1, 2**31 - 1):
        key = jax.random.key(seed)
        expected = jax.tree.leaves(as_data(jax.jit(draw)(key)))
        for own, other in zip(model(key=key).values(), expected, strict=True):
            np.testing.assert_array_equal(own, other)


def test_several_truths_for_one_place_are_combined():
    made = to_model(
        lambda x, where: x.at[where].max(jnp.array([True, False, True])),
        [jnp.zeros(4, bool), jnp.zeros(3, jnp.int32)],
        ["x", "where"],
        ["y"],
    )
    found = Model(made)(x=np.zeros(4, bool), where=np.array([1, 1, 3], np.int32))["y"]
    assert found.tolist() == [False, True, False, True]


def put_together(sheet, image, shown):
    """The picture of each cell, as the page draws it."""
    side, columns = sheet.side, sheet.columns
    agents = {place: i for i, place in enumerate(shown.place.tolist()) if place >= 0}
    for place, kind in enumerate(sheet.tiles):
        timer = int(shown.timer[place])
        layers = list(sheet.looks[kind][int(shown.lying[place]) + sheet.codes * (timer + 1)])
        if place in agents:
            i = agents[place]
            code = int(shown.held[i]) + sheet.codes * int(shown.extra[i])
            layers.append(sheet.agents[0][i][int(shown.direction[i]) + 4 * code])
        picture = np.zeros((side, side, 3))
        for number in layers:
            row, col = divmod(number, columns)
            layer = image[row * side : (row + 1) * side, col * side : (col + 1) * side]
            share = layer[..., 3:] / 255
            picture = picture * (1 - share) + layer[..., :3] * share
        yield picture


@pytest.mark.parametrize("name", ["overcooked", "overcooked_v2"])
def test_pictures_of_a_game_are_those_of_python(name):
    world = page_world(world_settings(name), "random")
    place = world.place
    state = world.start(jax.random.key(0)).state
    first = unwrap_state(place.env.reset(jax.random.key(0))[1])
    sheet, image = draw_sheet(place.drawn_layout, first.bodies.extra)
    step, chooser, checked = eqx.filter_jit(world.step), np.random.default_rng(0), set()
    for _ in range(60):
        pressed, person = draw_actions(world, chooser)
        after = step(state, jnp.asarray(pressed), jnp.asarray(person))
        state = after.state
        inner = unwrap_state(world.play_state(state).env_state)
        pictures = put_together(sheet, image, after.shown)
        for look, picture in zip(looks(place.drawn_layout, inner), pictures, strict=True):
            if look not in checked:
                checked.add(look)
                whole = draw_look(place.drawn_layout.kinds, look, sheet.side)
                assert np.abs(whole - picture).mean() < 1.5
    assert len(checked) > 30


def test_worlds_that_cannot_be_drawn_are_refused():
    world = page_world(world_settings("rescue"), "random")
    state = unwrap_state(world.place.env.reset(jax.random.key(0))[1])
    with pytest.raises(UsageError, match="cannot draw the agents"):
        draw_sheet(world.place.drawn_layout, state.bodies.extra)


CRAMPED = str(POLICIES / "cramped.safetensors")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ([], "Name one partner"),
        ([CRAMPED, CRAMPED], "Name one partner"),
        ([CRAMPED, "--env.layout", "generated"], "one layout"),
        ([CRAMPED, "--env.name", "rescue"], "it was trained in overcooked"),
        ([CRAMPED, "--runtime", "nothing"], "nothing/ort.wasm.bundle.min.mjs"),
        ([CRAMPED, "--out", "nothing/page.html"], "There is no folder"),
        (["nothing.safetensors"], "nothing.safetensors"),
    ],
)
def test_bad_input_gets_a_sentence(flags, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((UsageError, CheckpointError, OSError), match=re.escape(says)):
        _export_page.run(flags)
    assert not list(tmp_path.iterdir())


def models(world):
    return start_model(world), step_model(world)


@pytest.mark.parametrize(
    ("layout", "steps"),
    [("cramped", 10_000), *((x, 1_000) for x in ("asymmetric", "ring", "forced", "circuit"))],
)
def test_random_steps_are_those_of_python(layout, steps):
    world = page_world(Kitchen(layout=layout), "agent")
    check_models(world, *models(world), steps)


def test_random_orders_are_those_of_python():
    """Cooks get soups into their hands again and again, so that orders are drawn inside steps."""
    env = world_settings("overcooked_v2", sample_recipe_on_delivery=True, random_positions=True)
    world = page_world(env, "random")
    start, step = models(world)
    check_models(world, start, step, 10_000)
    go_on, compiled, chooser = Model(step), eqx.filter_jit(world.step), np.random.default_rng(1)
    state = world.start(jax.random.key(5)).state
    soups = range(
        world.place.grid.layout.kinds.code("soup"), world.place.grid.layout.kinds.num_codes
    )
    recipes, changes = [], 0
    for _ in range(1500):
        before = world.play_state(state)
        held = jnp.asarray(chooser.choice(soups, world.place.env.num_agents), jnp.uint8)
        before = eqx.tree_at(lambda x: unwrap_state(x.env_state).bodies.held, before, held)
        state = jax.tree.leaves(eqx.filter(before, eqx.is_array))
        pressed, person = draw_actions(world, chooser)
        after = compiled(state, jnp.asarray(pressed), jnp.asarray(person))
        check_step(world, go_on, after, state, pressed, person)
        recipes.append(int(unwrap_state(world.play_state(after.state).env_state).extra.recipe))
        changes += len(recipes) > 1 and recipes[-1] != recipes[-2]
        state = after.state
        if bool(after.finished):
            state = world.start(jax.random.key(len(recipes))).state
            recipes.append(recipes[-1])
    assert changes > 5


def test_a_policy_that_remembers_and_is_late_acts_as_in_python():
    """Its memory, and the actions that wait, are a part of the state."""
    kitchen = Kitchen(layout="cramped", horizon=60)
    place = Place.of(kitchen)
    envs = Vectorize(place.env, 1)
    network = functools.partial(GRU, width=8)
    policy = trained_policy(actor_critic(envs, jax.random.key(0), network=network), envs)
    noisy = NoisyPartner(PolicyPartner(policy), 0.3, place.env.action_space)
    world = PageWorld(place, DelayedPartner(noisy, 2, place.idle))
    check_models(world, *models(world), 200)
