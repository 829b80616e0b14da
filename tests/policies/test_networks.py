import functools
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from kitchen_checks import unchecked
from learners import clocks

from agents import CNN, GRU, MLP, AbstractNetwork, PredictingGRU, actor_critic


def test_an_mlp_equals_its_formula(key):
    network = MLP((2, 3), 4, width=5, depth=1, key=key)
    biases = [jnp.arange(5.0), jnp.arange(4.0)]
    network = eqx.tree_at(lambda x: [layer.bias for layer in x.layers], network, biases)
    out, carry = network(jnp.arange(6.0).reshape(2, 3), None)
    first, last = (np.asarray(layer.weight) for layer in network.layers)
    hidden = np.tanh(first @ np.arange(6.0) + np.arange(5.0))
    assert carry is None
    np.testing.assert_allclose(out, last @ hidden + np.arange(4.0), rtol=1e-5)


def test_an_mlp_reads_bytes_as_numbers(key):
    network = MLP((3,), 2, key=key)
    x = jnp.array([0, 1, 255], dtype=jnp.uint8)
    np.testing.assert_array_equal(network(x, None)[0], network(x.astype(float), None)[0])


@pytest.mark.parametrize("make", [MLP, CNN])
def test_hidden_layers_compute_with_16_bits_where_that_is_asked(make, key):
    network, half = (make((4, 5, 3), 6, precision=x, key=key) for x in ("float32", "bfloat16"))
    assert eqx.tree_equal(*(jax.tree.leaves(eqx.filter(x, eqx.is_array)) for x in (network, half)))
    x = jax.random.normal(key, (4, 5, 3))
    (out, _), (near, _) = (eqx.filter_jit(net)(x, None) for net in (network, half))
    assert near.dtype == jnp.float32
    np.testing.assert_allclose(near, out, atol=0.05)
    assert not np.array_equal(near, out)
    words = str(jax.make_jaxpr(lambda x: half(x, None)[0])(x))
    assert "bf16[64] = tanh" in words or "bf16[64] = custom_jvp_call" in words
    loss = eqx.filter_grad(lambda network: network(x, None)[0].sum())
    gradient = eqx.filter_eval_shape(loss, half)
    assert {leaf.dtype for leaf in jax.tree.leaves(gradient)} == {jnp.dtype("float32")}


def test_a_gru_equals_its_formula(key):
    network = GRU((3,), 2, width=4, encoder=functools.partial(MLP, depth=0), key=key)
    cell, x = network.cell, jnp.array([1.0, -2.0, 0.5])
    carry = jnp.array([0.1, -0.2, 0.3, -0.4])
    out, after = network(x, carry)
    features = np.tanh(np.asarray(network.encoder.layers[0].weight) @ np.asarray(x))
    reset, update, new = np.split(np.asarray(cell.weight_ih) @ features, 3)
    old_reset, old_update, old_new = np.split(np.asarray(cell.weight_hh) @ np.asarray(carry), 3)
    reset, update = (1 / (1 + np.exp(-x)) for x in (reset + old_reset, update + old_update))
    new = np.tanh(new + reset * old_new)
    expected = new + update * (np.asarray(carry) - new)
    np.testing.assert_allclose(after, expected, rtol=1e-4)
    np.testing.assert_allclose(out, np.asarray(network.head.weight) @ expected, rtol=1e-4)
    assert not np.any(network.initial_carry())
    for weight in (cell.weight_ih, cell.weight_hh):
        for gate in jnp.split(weight, 3):
            np.testing.assert_allclose(gate @ gate.T, np.eye(4), atol=1e-5)
    assert all(not np.any(bias) for bias in (cell.bias, cell.bias_n))


def test_a_gru_reads_images_through_a_cnn(key):
    network = GRU((4, 5, 3), 6, width=8, encoder=CNN, key=key)
    out, carry = network(jnp.ones((4, 5, 3)), network.initial_carry())
    assert (out.shape, carry.shape) == ((6,), (8,))


def test_a_gru_that_predicts_chooses_by_its_memory_and_its_prediction(key):
    network = PredictingGRU((3,), 5, width=4, key=key)
    xs = jax.random.normal(key, (6, 3))
    start = jnp.array([False, False, True, False, False, False])
    outputs, predictions = network.unroll_both(xs, jnp.ones(4), start)
    carry = jnp.ones(4)
    for i in range(6):
        carry = network.initial_carry() if start[i] else carry
        prediction, memory = network.memory(xs[i], carry)
        output, carry = network(xs[i], carry)
        shares = np.exp(prediction) / np.exp(prediction).sum()
        expected = np.asarray(network.head.weight) @ np.concatenate([memory, shares])
        np.testing.assert_allclose(output, expected, rtol=1e-4)
        np.testing.assert_allclose(outputs[i], output, rtol=1e-4, atol=1e-7)
        np.testing.assert_allclose(predictions[i], prediction, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(network.unroll(xs, jnp.ones(4), start), outputs)
    gradient = eqx.filter_grad(lambda x: x.unroll(xs, jnp.ones(4), start).sum())(network)
    assert not np.any(gradient.memory.head.weight), "choices do not teach the prediction"
    assert np.any(gradient.memory.cell.weight_hh)


def test_layers_start_orthogonal_and_without_bias(key):
    network = MLP((100,), 6, final_scale=0.01, key=key)
    hidden, middle, last = network.layers
    np.testing.assert_allclose(hidden.weight @ hidden.weight.T, 2 * np.eye(64), atol=1e-5)
    np.testing.assert_allclose(middle.weight @ middle.weight.T, 2 * np.eye(64), atol=1e-5)
    np.testing.assert_allclose(last.weight @ last.weight.T, 1e-4 * np.eye(6), atol=1e-8)
    assert all((layer.bias == 0).all() for layer in network.layers)
    assert not np.allclose(hidden.weight[:, :64], middle.weight)


# Drawn as a batch, they wait for each other forever on a CPU of two cores: within 300 draws always.
MANY = """
import equinox as eqx, jax
from agents import MLP

def draw(key):
    return [MLP((26, 4, 5), 6, key=key) for key in jax.random.split(key, 2)]

keys = jax.random.split(jax.random.key(0), 4)
many = eqx.filter_jit(eqx.filter_vmap(draw))
for _ in range(30):
    jax.block_until_ready(jax.tree.leaves(eqx.filter(many(keys), eqx.is_array)))
"""


@pytest.mark.slow
def test_many_networks_can_be_drawn_at_once():
    subprocess.run([sys.executable, "-c", MANY], check=True, timeout=400)


def test_many_networks_are_what_each_is_alone(key):
    keys = jax.random.split(key, 3)
    draw = functools.partial(MLP, (7,), 3)
    many = eqx.filter_jit(eqx.filter_vmap(lambda key: draw(key=key)))(keys)
    for i in range(3):
        one = eqx.filter_jit(draw)(key=keys[i])
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(many), strict=True):
            np.testing.assert_allclose(a, b[i], atol=1e-6)


def test_the_gradient_of_a_cnn_is_that_of_its_convolutions(key):
    network = CNN((4, 5, 3), 2, features=4, depth=2, width=8, key=key)
    x = jax.random.normal(key, (4, 5, 3))

    def by_layers(network: CNN) -> jax.Array:
        h = jnp.moveaxis(x, -1, 0)
        for layer in network.convolutions:
            h = jax.nn.relu(layer(h))
        return network.head(h, None)[0].sum()

    expected = eqx.filter_jit(eqx.filter_grad(by_layers))(network)
    found = eqx.filter_jit(eqx.filter_grad(lambda network: network(x, None)[0].sum()))(network)
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), found, expected)


@pytest.mark.slow
def test_a_cnn_starts_orthogonal_and_without_bias(key):
    network = CNN((4, 5, 26), 6, depth=2, key=key)
    for layer in network.convolutions:
        flat = layer.weight.reshape(32, -1)
        np.testing.assert_allclose(flat @ flat.T, 2 * np.eye(32), atol=1e-4)
        assert (layer.bias == 0).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (functools.partial(GRU, (4,), 6, encoder=CNN), "reads images"),
        (functools.partial(GRU, (4,), 6, width=0), "width of at least 1"),
        (functools.partial(CNN, (7,), 2), "Use an MLP"),
        (functools.partial(CNN, (4, 5, 1), 2, depth=0), "depth=0"),
        (functools.partial(MLP, (7,), 2, width=0), "width=0"),
        (functools.partial(MLP, (7,), 2, depth=-1), "depth=-1"),
    ],
)
def test_what_has_no_meaning_is_refused(key, build, message):
    with pytest.raises(ValueError, match=message):
        build(key=key)


class Odd(AbstractNetwork):
    """A network with a fault."""

    bias: Array
    fault: str = eqx.field(static=True)
    out_size: int = eqx.field(static=True)

    def __init__(self, in_shape, out_size, *, fault, final_scale, key):
        self.bias, self.fault, self.out_size = jnp.zeros(()), fault, out_size

    def initial_carry(self):
        return jnp.zeros(2)

    def __call__(self, x, carry):
        output = jnp.full(self.out_size + (self.fault == "size"), self.bias)
        match self.fault:
            case "alone":
                return output
            case "carry":
                return output, jnp.zeros(3)
        return output, carry


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("size", r"Odd of the actor must have an output of shape \(3,\), .* has \(4,\)"),
        ("alone", "The network Odd must return a pair"),
        ("carry", "The next carry that the network Odd returns must have"),
    ],
)
def test_what_does_not_keep_the_contract_is_one_sentence(key, shared, fault, message):
    network = functools.partial(Odd, fault=fault)
    with unchecked(), pytest.raises(ValueError, match=message):
        actor_critic(clocks(2), key, network=network, shared=shared)
