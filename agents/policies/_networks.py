"""Networks of one agent and one step; `SharedParameters` and `IndependentParameters` add the axis
of the agents."""

import abc
import math
from collections.abc import Callable
from typing import Literal, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree, Shaped

from ._types import Arrays, ArraysOverTime

_HIDDEN_SCALE = math.sqrt(2)

Precision: TypeAlias = Literal["float32", "bfloat16"]
"""How many bits hidden layers compute with: 32, or the 16 that accelerators are fastest with."""


class AbstractNetwork(eqx.Module):
    """The network of one agent, for one step. A feed-forward network's carry is `None`."""

    @abc.abstractmethod
    def initial_carry(self) -> Arrays:
        """What the network remembers when an episode starts; `None` when it remembers nothing."""

    @abc.abstractmethod
    def __call__(self, x: Arrays, carry: Arrays) -> tuple[Float[Array, " out"], Arrays]:
        """Reads one input.

        **Arguments:**

        - `x`: what one agent sees.
        - `carry`: what the network remembers.

        **Returns:** the output, and what the network remembers next.
        """

    def unroll(
        self, x: ArraysOverTime, carry: Arrays, start: Bool[Array, " time"]
    ) -> Float[Array, "time out"]:
        """Reads a sequence of inputs, as PPO does with what it learns from.

        A network may do more of it at once than one input after the other, if the outputs are
        the same.

        **Arguments:**

        - `x`: what one agent sees, step by step.
        - `carry`: what the network remembers before the first step.
        - `start`: where an episode starts: there the carry is reset.

        **Returns:** the outputs.
        """
        return unroll(self, self.initial_carry(), x, carry, start)


def unroll(
    step: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]],
    initial_carry: Arrays,
    x: ArraysOverTime,
    carry: Arrays,
    start: Bool[Array, " time"],
) -> ArraysOverTime:
    """The outputs of one step after the other, with the initial carry where an episode starts."""
    if carry is None:
        return jax.vmap(lambda seen: step(seen, None)[0])(x)

    def scan_step(carry: PyTree, now: tuple[PyTree, Bool[Array, ""]]) -> tuple[PyTree, PyTree]:
        seen, starts = now
        output, carry = step(seen, reset_carry(initial_carry, carry, starts))
        return carry, output

    return jax.lax.scan(scan_step, carry, (x, start))[1]


def reset_carry(initial_carry: Arrays, carry: Arrays, start: Bool[Array, "*batch"]) -> Arrays:
    """The carry, with the initial one where an episode starts. Its leaves lead with the axes of
    `start`."""

    def choose(initial: Shaped[Array, "..."], now: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
        mask = start.reshape(start.shape + (1,) * (now.ndim - start.ndim))
        return jnp.where(mask, jnp.broadcast_to(initial, now.shape), now)

    return jax.tree.map(choose, initial_carry, carry)


@final
class Dense(eqx.Module):
    """An affine map with an orthogonal weight and a zero bias.

    Source of the initialisation: Saxe et al. 2014, "Exact solutions to the nonlinear dynamics of
    learning in deep linear neural networks".

    **Arguments:**

    - `in_size`, `out_size`: the lengths of the input and the output.
    - `scale`: the gain of the weight.
    - `key`: the source of randomness.
    """

    weight: Float[Array, "out in"]
    bias: Float[Array, " out"]

    def __init__(self, in_size: int, out_size: int, *, scale: float, key: PRNGKeyArray):
        self.weight = _orthogonal(scale, (out_size, in_size), key)
        self.bias = jnp.zeros(out_size)

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        """It computes with the precision of `x`."""
        # On a CPU and under vmap, this order is up to twice as fast as `weight @ x`.
        return x @ self.weight.T.astype(x.dtype) + self.bias.astype(x.dtype)


@final
class MLP(AbstractNetwork):
    """A multi-layer perceptron over the flattened input.

    **Arguments:**

    - `in_shape`: the shape of what one agent sees.
    - `out_size`: the length of the output.
    - `width`: the length of every hidden layer.
    - `depth`: how many hidden layers there are.
    - `activation`: applied after every hidden layer.
    - `final_scale`: the gain of the last layer's weights; 0.01 starts an actor near uniform.
    - `precision`: in which the hidden layers compute; parameters, and the last layer, always have
        32 bits.
    - `key`: the source of randomness.

    **Raises:** `ValueError` when the width is not positive or the depth is negative.
    """

    layers: tuple[Dense, ...]
    activation: Callable = eqx.field(static=True)
    precision: Precision = eqx.field(static=True)

    def __init__(
        self,
        in_shape: tuple[int, ...],
        out_size: int,
        *,
        width: int = 64,
        depth: int = 2,
        activation: Callable = jnp.tanh,
        final_scale: float = 1.0,
        precision: Precision = "float32",
        key: PRNGKeyArray,
    ):
        if width < 1 or depth < 0:
            raise ValueError(
                f"An MLP needs a width of at least 1 and a depth of at least 0, but got "
                f"width={width} and depth={depth}."
            )
        sizes = [math.prod(in_shape), *[width] * depth, out_size]
        scales = [_HIDDEN_SCALE] * depth + [final_scale]
        keys = jax.random.split(key, depth + 1)
        self.layers = tuple(
            Dense(before, after, scale=scale, key=key)
            for before, after, scale, key in zip(sizes[:-1], sizes[1:], scales, keys, strict=True)
        )
        self.activation, self.precision = activation, precision

    def initial_carry(self) -> None:
        return None

    def __call__(self, x: Shaped[Array, "..."], carry: None) -> tuple[Float[Array, " out"], None]:
        last = self.layers[-1]
        h = x.reshape(-1).astype(_hidden_dtype(self.precision, last.weight))
        for layer in self.layers[:-1]:
            h = self.activation(layer(h))
        return last(h.astype(last.weight.dtype)), carry


@final
class CNN(AbstractNetwork):
    """Convolutions that keep the height and width, then an `MLP` with one hidden layer.

    **Arguments:**

    - `in_shape`: the shape of what one agent sees, `(height, width, channels)`.
    - `out_size`: the length of the output.
    - `features`: how many channels every convolution has.
    - `depth`: how many 3 x 3 convolutions there are.
    - `width`: the length of the hidden dense layer.
    - `activation`: applied after every convolution and after the hidden dense layer.
    - `final_scale`: the gain of the last layer's weights; 0.01 starts an actor near uniform.
    - `precision`: in which all but the last layer compute; parameters always have 32 bits.
    - `key`: the source of randomness.

    **Raises:** `ValueError` when the input is no image, or a count is not positive.
    """

    convolutions: tuple[eqx.nn.Conv2d, ...]
    head: MLP
    activation: Callable = eqx.field(static=True)
    precision: Precision = eqx.field(static=True)

    def __init__(
        self,
        in_shape: tuple[int, ...],
        out_size: int,
        *,
        features: int = 32,
        depth: int = 3,
        width: int = 64,
        activation: Callable = jax.nn.relu,
        final_scale: float = 1.0,
        precision: Precision = "float32",
        key: PRNGKeyArray,
    ):
        if len(in_shape) != 3:
            raise ValueError(
                f"A CNN reads images of shape (height, width, channels), but the observation has "
                f"shape {in_shape}. Use an MLP for it."
            )
        if features < 1 or depth < 1:
            raise ValueError(
                f"A CNN needs at least 1 feature and a depth of at least 1, but got "
                f"features={features} and depth={depth}."
            )
        height, breadth, channels = in_shape
        head_key, *keys = jax.random.split(key, depth + 1)
        sizes = [channels, *[features] * depth]
        self.convolutions = tuple(
            _convolution(before, after, key)
            for before, after, key in zip(sizes[:-1], sizes[1:], keys, strict=True)
        )
        self.head = MLP(
            (features, height, breadth),
            out_size,
            width=width,
            depth=1,
            activation=activation,
            final_scale=final_scale,
            precision=precision,
            key=head_key,
        )
        self.activation, self.precision = activation, precision

    def initial_carry(self) -> None:
        return None

    def __call__(
        self, x: Shaped[Array, "height width channels"], carry: None
    ) -> tuple[Float[Array, " out"], None]:
        dtype = _hidden_dtype(self.precision, self.convolutions[0].weight)
        h = jnp.moveaxis(x, -1, 0).astype(dtype)
        for convolution in self.convolutions:
            convolution = jax.tree.map(lambda weight: weight.astype(dtype), convolution)
            h = self.activation(convolution(h))
        return self.head(h, carry)


def _hidden_dtype(precision: Precision, weight: Float[Array, "..."]) -> jnp.dtype:
    return jnp.dtype(jnp.bfloat16) if precision == "bfloat16" else weight.dtype


@final
class GRU(AbstractNetwork):
    """A network with memory: an encoder, a gated recurrent unit (Cho et al. 2014, "Learning Phrase
    Representations using RNN Encoder-Decoder") and a dense layer.

    The weights start orthogonal, each gate's for itself.

    **Arguments:**

    - `in_shape`: the shape of what one agent sees.
    - `out_size`: the length of the output.
    - `encoder`: makes the network that reads the input, called as
        `encoder(in_shape, width, width=width, final_scale=..., key=...)`: `MLP`, or `CNN`.
    - `width`: the length of the memory, and of the encoder's output and hidden layer.
    - `final_scale`: the gain of the last layer's weights; 0.01 starts an actor near uniform.
    - `key`: the source of randomness.

    **Raises:** `ValueError` when the width is not positive, or the encoder cannot read the input.
    """

    encoder: AbstractNetwork
    cell: eqx.nn.GRUCell
    head: Dense

    def __init__(
        self,
        in_shape: tuple[int, ...],
        out_size: int,
        *,
        encoder: Callable[..., AbstractNetwork] = MLP,
        width: int = 64,
        final_scale: float = 1.0,
        key: PRNGKeyArray,
    ):
        encoder_key, cell_key, head_key = jax.random.split(key, 3)
        self.encoder = encoder(
            in_shape, width, width=width, final_scale=_HIDDEN_SCALE, key=encoder_key
        )
        self.cell = _gated_unit(width, cell_key)
        self.head = Dense(width, out_size, scale=final_scale, key=head_key)

    def initial_carry(self) -> Float[Array, " width"]:
        return jnp.zeros(self.cell.hidden_size, self.head.weight.dtype)

    def __call__(
        self, x: Shaped[Array, "..."], carry: Float[Array, " width"]
    ) -> tuple[Float[Array, " out"], Float[Array, " width"]]:
        carry = self.cell(self._encode(x), carry)
        return self.head(carry), carry

    def unroll(
        self,
        x: Shaped[Array, "time ..."],
        carry: Float[Array, " width"],
        start: Bool[Array, " time"],
    ) -> Float[Array, "time out"]:
        """Encodes all inputs at once: one large product is faster than many small ones."""

        def remember(features: Array, carry: Array) -> tuple[Array, Array]:
            carry = self.cell(features, carry)
            return carry, carry

        features = jax.vmap(self._encode)(x)
        memories = unroll(remember, self.initial_carry(), features, carry, start)
        return jax.vmap(self.head)(memories)

    def _encode(self, x: Shaped[Array, "..."]) -> Float[Array, " width"]:
        features, _ = self.encoder(x, None)
        return jnp.tanh(features)


def _gated_unit(width: int, key: PRNGKeyArray) -> eqx.nn.GRUCell:
    # What the cell draws is replaced by what is drawn below.
    cell = eqx.nn.GRUCell(width, width, key=jax.random.clone(key))
    keys = jax.random.split(key, 6)
    gates = [_orthogonal(1.0, (width, width), key) for key in keys]
    weights = (jnp.concatenate(gates[:3]), jnp.concatenate(gates[3:]))
    biases = (jnp.zeros(3 * width), jnp.zeros(width))
    return eqx.tree_at(
        lambda cell: (cell.weight_ih, cell.weight_hh, cell.bias, cell.bias_n),
        cell,
        (*weights, *biases),
    )


def _convolution(in_channels: int, out_channels: int, key: PRNGKeyArray) -> eqx.nn.Conv2d:
    layer = eqx.nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, key=key)
    flat = (out_channels, in_channels * 9)
    weight = _orthogonal(_HIDDEN_SCALE, flat, key).reshape(layer.weight.shape)
    return eqx.tree_at(
        lambda conv: (conv.weight, conv.bias), layer, (weight, jnp.zeros((out_channels, 1, 1)))
    )


def _orthogonal(
    scale: float, shape: tuple[int, int], key: PRNGKeyArray
) -> Float[Array, "rows columns"]:
    # Under vmap one after another: jaxlib 0.10 factorises a batch in threads of the pool that it
    # runs on itself, and on a CPU of few cores waits for them forever.
    @jax.custom_batching.sequential_vmap
    def draw(key: PRNGKeyArray) -> Array:
        return jax.nn.initializers.orthogonal(scale)(key, shape)

    return draw(key)
