"""Exporting a page: draws without keys, casts, pictures, models, and what is refused."""

import functools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exporting import POLICIES, page_world
from hypothesis import given, settings, strategies as st
from playing import menu_of

from eqgrid_lab import Kitchen
from agents import CNN, GRU, PolicyPartner, actor_critic, trained_policy
from eqgrid import DelayedPartner, NoisyPartner, Vectorize, make, unwrap_state
from eqgrid.grid import draw_look, looks
from eqgrid_lab.base import UsageError
from eqgrid_lab.runs import read_policy
from eqgrid_lab.worlds import world_settings
from eqgrid_play.static import _export_page
from eqgrid_play.static._random import as_data, on_key_data, threefry
from eqgrid_play.static._sheet import draw_sheet
from eqgrid_play.static._world import PageWorld

onnx = pytest.importorskip("onnx", reason="needs the extra [onnx]")
pytest.importorskip("jax2onnx", reason="needs the extra [onnx]")
pytest.importorskip("onnxruntime", reason="needs the extra [onnx]")

from eqgrid_play.static import _export, _models  # noqa: E402
from eqgrid_play.static._onnx import Model, add_casts, to_model  # noqa: E402

pytestmark = pytest.mark.slow

WORDS = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=50)
@given(WORDS, WORDS, st.lists(WORDS, min_size=2, max_size=6).filter(lambda x: len(x) % 2 == 0))
def test_the_hash_is_that_of_jax(key1, key2, counts):
    first, second = np.split(np.asarray(counts, np.uint32), 2)
    keys = np.uint32(key1), np.uint32(key2)
    expected = jax.extend.random.threefry_2x32(
        jnp.asarray(keys), jnp.concatenate([jnp.asarray(first), jnp.asarray(second)])
    )
    found = threefry(*map(jnp.asarray, keys), jnp.asarray(first), jnp.asarray(second))
    np.testing.assert_array_equal(np.concatenate(found), expected)


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
    flat, _ = on_key_data(draw, jax.random.key(0))
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


def test_a_comparison_of_keys_is_refused():
    with pytest.raises(ValueError, match="cannot be exported"):
        on_key_data(lambda key: key == jax.random.split(key)[0], jax.random.key(0))


NARROW = [np.int8, np.uint8, np.int16, np.uint16, np.uint32]
TRUTHS = [True, False, True, False]
OPERATIONS = {
    "sum": (np.add, ["Add x y z"]),
    "difference": (np.subtract, ["Sub x y z"]),
    "maximum": (np.maximum, ["Max x y z"]),
    "less": (np.less, ["Less x y z"]),
    "at least": (np.greater_equal, ["GreaterOrEqual x y z"]),
    "equal": (np.equal, ["Equal x y z"]),
    "choice": (lambda x, y: np.where(TRUTHS, x, y), ["Where c x y z"]),
    "sums": (lambda x, y: (x + y) - y + x, ["Add x y a", "Sub a y b", "Add b x z"]),
    "less after a sum": (lambda x, y: (x + y) < y, ["Add x y a", "Less a y z"]),
    "maximum after a choice": (
        lambda x, y: np.maximum(np.where(TRUTHS, x, y), y),
        ["Where c x y a", "Max a y z"],
    ),
}
"""Operations in NumPy, and as nodes of ONNX: the operator, its inputs and its output."""


def model_of(lines, dtype, out_dtype):
    """A small model with these nodes, of `x`, `y` and the condition `c`, whose result is `z`."""
    nodes = []
    for line in lines:
        operator, *inputs, output = line.split()
        nodes.append(onnx.helper.make_node(operator, inputs, [output]))
    kinds = {"x": dtype, "y": dtype, "z": out_dtype}
    x, y, z = (
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)), [4]
        )
        for name, kind in kinds.items()
    )
    condition = onnx.numpy_helper.from_array(np.array(TRUTHS), "c")
    graph = onnx.helper.make_graph(nodes, "small", [x, y], [z], [condition])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])


@pytest.mark.parametrize("dtype", NARROW, ids=lambda x: x.__name__)
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_on_narrow_numbers_run(name, dtype):
    high = np.iinfo(dtype).max
    x, y = np.array([high, 1, 0, 5], dtype), np.array([3, high, 0, 9], dtype)
    operation, lines = OPERATIONS[name]
    expected = operation(x, y)
    model = Model(add_casts(model_of(lines, dtype, expected.dtype)).SerializeToString())
    np.testing.assert_array_equal(model(x=x, y=y)["z"], expected)


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
            layers.append(sheet.agents[i][int(shown.direction[i]) + 4 * code])
        picture = np.zeros((side, side, 3))
        for number in layers:
            row, col = divmod(number, columns)
            layer = image[row * side : (row + 1) * side, col * side : (col + 1) * side]
            share = layer[..., 3:] / 255
            picture = picture * (1 - share) + layer[..., :3] * share
        yield picture


@pytest.mark.parametrize("name", ["overcooked", "overcooked_v2"])
def test_pictures_of_a_game_are_those_of_python(name):
    world = page_world(world_settings(name), "random agent")
    place = world.place
    state = world.start(jax.random.key(0)).state
    first = unwrap_state(place.env.reset(jax.random.key(0))[1])
    sheet, image = draw_sheet(place.drawn_layout, first.bodies.extra)
    step, chooser, checked = eqx.filter_jit(world.step), np.random.default_rng(0), set()
    for _ in range(60):
        pressed, person = _models.draw_actions(world, chooser)
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
    world = page_world(world_settings("rescue"), "random agent")
    state = unwrap_state(world.place.env.reset(jax.random.key(0))[1])
    with pytest.raises(UsageError, match="cannot draw the agents"):
        draw_sheet(world.place.drawn_layout, state.bodies.extra)


@pytest.fixture
def npm(tmp_path):
    """A folder that looks like that of the runtime."""
    folder = tmp_path / "dist"
    folder.mkdir()
    for name in ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"):
        (folder / name).write_text("x")
    return str(folder)


CRAMPED = str(POLICIES / "cramped.safetensors")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ([], "Name a policy"),
        ([CRAMPED, "--env.layout", "generated"], "one layout"),
        ([CRAMPED, "--env.name", "rescue"], "cannot act in"),
        ([CRAMPED, "--seat", "2"], "--seat must be below 2"),
        ([CRAMPED, "--runtime", "nothing"], "There is no ort.wasm.bundle.min.mjs in 'nothing'"),
        (["nothing.safetensors"], "nothing.safetensors"),
    ],
)
def test_bad_input_gets_a_sentence(flags, says, tmp_path, npm):
    out = tmp_path / "page"
    given_flags = [*flags, "--out", str(out)]
    with pytest.raises(Exception, match=re.escape(says)) as raised:
        _export_page.run(given_flags if "--runtime" in flags else [*given_flags, "--runtime", npm])
    assert raised.type.__name__ in ("UsageError", "CheckpointError")
    assert not out.exists()


def test_without_a_runtime_or_with_a_folder_that_exists_it_says_so(tmp_path, npm):
    with pytest.raises(UsageError, match="npm install onnxruntime-web"):
        _export_page.run([CRAMPED, "--out", str(tmp_path / "page")])
    with pytest.raises(UsageError, match="exists"):
        _export_page.run([CRAMPED, "--runtime", npm, "--out", str(tmp_path)])


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path, npm, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_export.shutil, "move", full)
    files = {"index.html": b"<!-- style --><!-- scripts -->", "policy.onnx": b""}
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OSError, match="No space"):
        _export.write_page(files, _export.Path(npm), tmp_path / "page", False)
    assert sorted(tmp_path.iterdir()) == before


def models(world):
    return _models.start_model(world), _models.step_model(world)


@pytest.mark.parametrize(
    ("layout", "steps"),
    [("cramped", 10_000), *((x, 1_000) for x in ("asymmetric", "ring", "forced", "circuit"))],
)
def test_random_steps_are_those_of_python(layout, steps):
    world = page_world(Kitchen(layout=layout), "a trained agent")
    _models.check_models(world, *models(world), steps=steps)


def test_random_orders_are_those_of_python():
    """Cooks get soups into their hands again and again, so that orders are drawn inside steps."""
    env = world_settings("overcooked_v2", sample_recipe_on_delivery=True, random_positions=True)
    world = page_world(env, "random agent")
    start, step = models(world)
    _models.check_models(world, start, step, steps=10_000)
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
        pressed, person = _models.draw_actions(world, chooser)
        after = compiled(state, jnp.asarray(pressed), jnp.asarray(person))
        leaves = {f"state_{i}": x for i, x in enumerate(state)}
        found = go_on(**leaves, pressed=pressed, person=person)
        for i, leaf in enumerate(jax.tree.leaves(as_data(after.state))):
            np.testing.assert_array_equal(leaf, found[f"next_{i}"])
        np.testing.assert_array_equal(after.reward, found["reward"])
        recipes.append(int(unwrap_state(world.play_state(after.state).env_state).extra.recipe))
        changes += len(recipes) > 1 and recipes[-1] != recipes[-2]
        state = after.state
        if bool(after.finished):
            state = world.start(jax.random.key(len(recipes))).state
            recipes.append(recipes[-1])
    assert changes > 5


def convolutional():
    envs = Vectorize(make("overcooked"), 1)
    network = functools.partial(CNN, features=4, depth=2, width=8)
    return trained_policy(actor_critic(envs, jax.random.key(0), network=network), envs)


def trained():
    return read_policy(POLICIES / "cramped.safetensors", None).policy


@pytest.mark.parametrize(("build", "most"), [(trained, 1), (convolutional, 9)])
def test_a_policy_alone_acts_as_in_python(build, most):
    policy = build()
    alone = Model(_models.policy_model(_models.PagePolicy(policy)))
    shape = jax.tree.leaves(policy.observation)[0]
    for seed in range(20):
        seen = jax.random.uniform(jax.random.key(seed), shape.shape, maxval=most)
        seen = seen.astype(shape.dtype)
        expected, _ = policy.outputs(seen, policy.initial_carry())
        np.testing.assert_allclose(alone(observation_0=seen)["output"], expected, atol=1e-5)


def test_a_policy_that_remembers_and_is_late_acts_as_in_python():
    """Its memory, and the actions that wait, are a part of the state."""
    kitchen = Kitchen(layout="cramped", horizon=60)
    place = menu_of(kitchen).place("cramped")
    envs = Vectorize(place.env, 1)
    network = functools.partial(GRU, width=8)
    policy = trained_policy(actor_critic(envs, jax.random.key(0), network=network), envs)
    alone = Model(_models.policy_model(_models.PagePolicy(policy)))
    shape = jax.tree.leaves(policy.observation)[0]
    carry = policy.initial_carry()
    found = {f"next_carry_{i}": x for i, x in enumerate(jax.tree.leaves(carry))}
    for seed in range(10):
        seen = jax.random.uniform(jax.random.key(seed), shape.shape).astype(shape.dtype)
        expected, carry = policy.outputs(seen, carry)
        memory = {name.removeprefix("next_"): x for name, x in found.items() if "carry" in name}
        found = alone(observation_0=seen, **memory)
        np.testing.assert_allclose(found["output"], expected, atol=1e-5)
    noisy = NoisyPartner(PolicyPartner(policy), 0.3, place.env.action_space)
    world = PageWorld(place, DelayedPartner(noisy, 2, place.idle), place.env)
    _models.check_models(world, _models.start_model(world), _models.step_model(world), steps=200)
