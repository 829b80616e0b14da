"""Networks for one agent and one step: `MLP`, `CNN`, `GRU` and `PredictingGRU`."""

import abc
import math
from collections.abc import Callable
from typing import Literal, TypeAlias, final, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from eqgrid.typing import PyTree

_HIDDEN_SCALE = math.sqrt(2)

Precision: TypeAlias = Literal["float32", "bfloat16"]
"""The dtype in which hidden layers compute; accelerators are fastest with `"bfloat16"`."""

Activation: TypeAlias = Literal[
    "tanh", "relu", "gelu", "silu", "elu", "softplus", "leaky_relu", "sigmoid"
]
"""The name of an activation function of `jax.nn`."""

Arrays: TypeAlias = PyTree[Shaped[Array, "..."]]
"""Arrays of any shape, such as the observation or the carry of one agent."""

ArraysOverTime: TypeAlias = PyTree[Shaped[Array, "time ..."]]
"""`Arrays` of consecutive steps."""


class AbstractNetwork(eqx.Module):
    """The network of one agent, for one step.

    The carry is the recurrent state of the network; it is `None` for a feed-forward network.

    Apart from `final_scale`, which changes only initial values, the hyperparameters of the
    constructor are also attributes of the same names, as in `eqx.nn.MLP`, since policy files store
    them.
    """

    @abc.abstractmethod
    def initial_carry(self) -> Arrays:
        """The carry at the start of an episode; `None` for a feed-forward network."""

    @abc.abstractmethod
    def __call__(self, x: Arrays, carry: Arrays) -> tuple[Float[Array, " out"], Arrays]:
        """Computes the output of one step.

        **Arguments:**

        - `x`: the input of one agent.
        - `carry`: the carry before this step.

        **Returns:** the output, and the next carry.
        """


class AbstractSequenceNetwork(AbstractNetwork):
    """A recurrent network that computes a sequence faster than step by step."""

    @abc.abstractmethod
    def unroll(
        self, x: ArraysOverTime, carry: Arrays, start: Bool[Array, " time"]
    ) -> Float[Array, "time out"]:
        """Computes the outputs of a sequence; arguments and outputs are as in `unroll_network`."""


def unroll_network(
    network: AbstractNetwork, x: ArraysOverTime, carry: Arrays, start: Bool[Array, " time"]
) -> Float[Array, "time out"]:
    """Computes the outputs of a sequence of steps, as PPO does with its training batches.

    **Arguments:**

    - `network`: the network of one agent.
    - `x`: the inputs of the agent in all steps.
    - `carry`: the carry before the first step.
    - `start`: whether an episode starts with the step; the carry is reset there.

    **Returns:** the outputs of all steps.
    """
    if isinstance(network, AbstractSequenceNetwork):
        return network.unroll(x, carry, start)
    return unroll(network, network.initial_carry(), x, carry, start)


def unroll(
    step: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]],
    initial_carry: Arrays,
    x: ArraysOverTime,
    carry: Arrays,
    start: Bool[Array, " time"],
) -> ArraysOverTime:
    """Applies `step` to a sequence, and resets the carry where an episode starts.

    **Arguments:**

    - `step`: computes the output and the next carry from an input and a carry.
    - `initial_carry`: the carry at the start of an episode.
    - `x`: the inputs of all steps.
    - `carry`: the carry before the first step; with `None`, all steps are computed in parallel.
    - `start`: whether an episode starts with the step.

    **Returns:** the outputs of all steps.
    """
    if carry is None:
        return jax.vmap(lambda one_x: step(one_x, None)[0])(x)

    def scan_step(carry: PyTree, now: tuple[PyTree, Bool[Array, ""]]) -> tuple[PyTree, PyTree]:
        one_x, one_start = now
        output, carry = step(one_x, reset_carry(initial_carry, carry, one_start))
        return carry, output

    return jax.lax.scan(scan_step, carry, (x, start))[1]


def reset_carry(initial_carry: Arrays, carry: Arrays, start: Bool[Array, "*batch"]) -> Arrays:
    """Replaces the carry by the initial carry where an episode starts.

    **Arguments:**

    - `initial_carry`: the carry at the start of an episode, which is broadcast.
    - `carry`: the current carry; the leading axes of its leaves are the axes of `start`.
    - `start`: where an episode starts.

    **Returns:** the carry, reset where `start` is true.
    """

    def select(initial: Shaped[Array, "..."], now: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
        mask = start.reshape(start.shape + (1,) * (now.ndim - start.ndim))
        return jnp.where(mask, jnp.broadcast_to(initial, now.shape), now)

    return jax.tree.map(select, initial_carry, carry)


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
        """Computes in the dtype of `x`."""
        # On a CPU and under vmap, this order is up to twice as fast as `weight @ x`.
        return x @ self.weight.T.astype(x.dtype) + self.bias.astype(x.dtype)


@final
class MLP(AbstractNetwork):
    """A multi-layer perceptron over the flattened input.

    **Arguments:**

    - `in_shape`: the shape of one agent's input.
    - `out_size`: the length of the output.
    - `width`: the size of every hidden layer.
    - `depth`: the number of hidden layers.
    - `activation`: applied after every hidden layer: the name of a function of `jax.nn`, or a
        function. A function that has an `Activation` name is stored by its name.
    - `final_scale`: the gain of the last layer's weights; 0.01 makes a new actor almost uniform.
    - `precision`: the dtype in which the hidden layers compute; the parameters and the last layer
        always use 32 bits.
    - `key`: the source of randomness.

    **Raises:** `ValueError` when the width, the depth or the name of the activation is invalid.
    """

    layers: tuple[Dense, ...]
    width: int = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    activation: Activation | Callable = eqx.field(static=True)
    precision: Precision = eqx.field(static=True)

    def __init__(
        self,
        in_shape: PyTree,
        out_size: int,
        *,
        width: int = 64,
        depth: int = 2,
        activation: Activation | Callable = "tanh",
        final_scale: float = 1.0,
        precision: Precision = "float32",
        key: PRNGKeyArray,
    ):
        _check_is_shape(in_shape)
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
        self.width, self.depth = width, depth
        self.activation, self.precision = _by_name(activation), precision

    def initial_carry(self) -> None:
        return None

    def __call__(self, x: Shaped[Array, "..."], carry: None) -> tuple[Float[Array, " out"], None]:
        first, last = self.layers[0], self.layers[-1]
        if x.size != first.weight.shape[-1]:
            raise ValueError(_other_input("MLP", f"{first.weight.shape[-1]} numbers", x))
        h = x.reshape(-1).astype(_hidden_dtype(self.precision, last.weight))
        for layer in self.layers[:-1]:
            h = _function_of(self.activation)(layer(h))
        return last(h.astype(last.weight.dtype)), carry


@final
class CNN(AbstractNetwork):
    """Convolutions that keep the height and width, then an `MLP` with one hidden layer.

    **Arguments:**

    - `in_shape`: the shape of one agent's input, `(height, width, channels)`.
    - `out_size`: the length of the output.
    - `features`: the number of output channels of every convolution.
    - `depth`: the number of 3 x 3 convolutions.
    - `width`: the size of the hidden dense layer.
    - `activation`: applied after every convolution and after the hidden dense layer, as in `MLP`.
    - `final_scale`: the gain of the last layer's weights; 0.01 makes a new actor almost uniform.
    - `precision`: the dtype in which all layers but the last compute; parameters have 32 bits.
    - `key`: the source of randomness.

    **Raises:** `ValueError` when the input is not an image, or another argument is invalid.
    """

    convolutions: tuple[eqx.nn.Conv2d, ...]
    head: MLP
    features: int = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    activation: Activation | Callable = eqx.field(static=True)
    precision: Precision = eqx.field(static=True)

    def __init__(
        self,
        in_shape: PyTree,
        out_size: int,
        *,
        features: int = 32,
        depth: int = 3,
        width: int = 64,
        activation: Activation | Callable = "relu",
        final_scale: float = 1.0,
        precision: Precision = "float32",
        key: PRNGKeyArray,
    ):
        _check_is_shape(in_shape)
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
        self.features, self.depth, self.width = features, depth, width
        self.activation, self.precision = _by_name(activation), precision

    def initial_carry(self) -> None:
        return None

    def __call__(
        self, x: Shaped[Array, "height width channels"], carry: None
    ) -> tuple[Float[Array, " out"], None]:
        channels = self.convolutions[0].in_channels
        cells = self.head.layers[0].weight.shape[-1] // self.features
        if x.ndim != 3 or (x.shape[0] * x.shape[1], x.shape[2]) != (cells, channels):
            raise ValueError(
                _other_input("CNN", f"images of {cells} cells and {channels} channels", x)
            )
        dtype = _hidden_dtype(self.precision, self.convolutions[0].weight)
        h = x.astype(dtype)
        for convolution in self.convolutions:
            convolution = jax.tree.map(lambda weight: weight.astype(dtype), convolution)
            h = _function_of(self.activation)(_convolve(convolution, h))
        return self.head(jnp.moveaxis(h, -1, 0), carry)


def _check_is_shape(in_shape: object) -> None:
    """**Raises:** `ValueError` when an input has several arrays, and so several shapes."""
    is_shape = isinstance(in_shape, tuple | list)
    if not is_shape or not all(hasattr(size, "__index__") for size in in_shape):
        raise ValueError(
            "The observation has several arrays, which this network does not read: observe one "
            "array, or name a network of your own that reads them all."
        )


def _convolve(
    layer: eqx.nn.Conv2d, x: Float[Array, "height width channels"]
) -> Float[Array, "height width features"]:
    """Applies a convolution of 3 x 3. On a CPU, it is computed as the product of the neighbourhoods
    of all cells with the kernel: inside a scan, such as the scan over minibatches, the gradient of
    XLA's convolution takes 18 times longer. On a GPU, the neighbourhoods would need nine times the
    memory.
    """
    if jax.default_backend() != "cpu":
        return jnp.moveaxis(layer(jnp.moveaxis(x, -1, 0)), 0, -1)
    height, width, _ = x.shape
    padded = jnp.pad(x, ((1, 1), (1, 1), (0, 0)))
    offsets = [(row, col) for row in range(3) for col in range(3)]
    neighbours = [padded[row : row + height, col : col + width] for row, col in offsets]
    kernel = jnp.transpose(layer.weight, (2, 3, 1, 0)).reshape(-1, layer.out_channels)
    bias = layer.bias
    assert bias is not None
    return jnp.concatenate(neighbours, axis=-1) @ kernel + bias.reshape(1, 1, -1)


def _other_input(network: str, reads: str, x: Shaped[Array, "..."]) -> str:
    return (
        f"The {network} reads {reads}, but its input has the shape {x.shape}: it was built for "
        "other observations."
    )


def _by_name(activation: Activation | Callable) -> Activation | Callable:
    """The name of an activation, or the function itself if it has no name.

    Functions of `jax.nn` are compiled: they cannot be pickled, and do not equal their deep copies.
    So a network stores their names.

    **Raises:** `ValueError` for a name that is not an `Activation`.
    """
    names: tuple[Activation, ...] = get_args(Activation)
    for name in names:
        if activation in (name, getattr(jax.nn, name)):
            return name
    if isinstance(activation, str):
        raise ValueError(f"There is no activation {activation!r}: use {', '.join(names)}.")
    return activation


def _function_of(activation: Activation | Callable) -> Callable:
    return getattr(jax.nn, activation) if isinstance(activation, str) else activation


def _hidden_dtype(precision: Precision, weight: Float[Array, "..."]) -> jnp.dtype:
    return jnp.dtype(jnp.bfloat16) if precision == "bfloat16" else weight.dtype


@final
class GRU(AbstractSequenceNetwork):
    """A recurrent network: an encoder, a gated recurrent unit (Cho et al. 2014, "Learning Phrase
    Representations using RNN Encoder-Decoder") and a dense layer.

    The weight matrices of every gate are initialised as orthogonal matrices.

    **Arguments:**

    - `in_shape`: the shape of one agent's input.
    - `out_size`: the length of the output.
    - `encoder`: builds the network that encodes the input, such as `MLP` or `CNN`; called as
        `encoder(in_shape, width, width=width, final_scale=..., key=...)`.
    - `width`: the size of the carry, and of the encoder's output and hidden layers.
    - `final_scale`: the gain of the last layer's weights; 0.01 makes a new actor almost uniform.
    - `key`: the source of randomness.

    **Raises:** `ValueError` when the width is not positive, or the input does not fit the encoder.
    """

    encoder: AbstractNetwork
    cell: eqx.nn.GRUCell
    head: Dense
    width: int = eqx.field(static=True)

    def __init__(
        self,
        in_shape: PyTree,
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
        # A GRU has three gates, each with a matrix for the features and a matrix for the carry.
        # These matrices and zero biases replace the initial parameters of the cell.
        matrices = [_orthogonal(1.0, (width, width), k) for k in jax.random.split(cell_key, 6)]
        weights = (jnp.concatenate(matrices[:3]), jnp.concatenate(matrices[3:]))
        self.cell = eqx.tree_at(
            lambda cell: (cell.weight_ih, cell.weight_hh, cell.bias, cell.bias_n),
            eqx.nn.GRUCell(width, width, key=jax.random.clone(cell_key)),
            (*weights, jnp.zeros(3 * width), jnp.zeros(width)),
        )
        self.head = Dense(width, out_size, scale=final_scale, key=head_key)
        self.width = width

    def initial_carry(self) -> Float[Array, " width"]:
        return jnp.zeros(self.cell.hidden_size, self.head.weight.dtype)

    def __call__(
        self, x: Shaped[Array, "..."], carry: Float[Array, " width"]
    ) -> tuple[Float[Array, " out"], Float[Array, " width"]]:
        if getattr(carry, "shape", None) != (self.width,):
            raise ValueError(
                f"The GRU needs a carry of shape {(self.width,)}, which begins as initial_carry(), "
                f"but got {getattr(carry, 'shape', carry)!r:.60}."
            )
        carry = self.cell(self._encode(x), carry)
        return self.head(carry), carry

    def unroll(
        self,
        x: Shaped[Array, "time ..."],
        carry: Float[Array, " width"],
        start: Bool[Array, " time"],
    ) -> Float[Array, "time out"]:
        return jax.vmap(self.head)(self.memories(x, carry, start))

    def memories(
        self,
        x: Shaped[Array, "time ..."],
        carry: Float[Array, " width"],
        start: Bool[Array, " time"],
    ) -> Float[Array, "time width"]:
        """The carry after each step of a sequence; the arguments are as in `unroll`."""

        def remember(features: Array, carry: Array) -> tuple[Array, Array]:
            carry = self.cell(features, carry)
            return carry, carry

        # All steps are encoded at once: a large matrix product is faster than many small ones.
        features = jax.vmap(self._encode)(x)
        return unroll(remember, self.initial_carry(), features, carry, start)

    def _encode(self, x: Shaped[Array, "..."]) -> Float[Array, " width"]:
        features, _ = self.encoder(x, None)
        return jnp.tanh(features)


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
    # Sequential under vmap: jaxlib 0.10 factorises a batch in its thread pool, and waits there for
    # other threads of this pool, which can deadlock on a CPU with few cores.
    @jax.custom_batching.sequential_vmap
    def sample(key: PRNGKeyArray) -> Array:
        return jax.nn.initializers.orthogonal(scale)(key, shape)

    return sample(key)


@final
class PredictingGRU(AbstractSequenceNetwork):
    """A `GRU` that predicts the partner's action in this step from the agent's observations so far.
    The agent's own choice depends on its memory and on the predicted probabilities, as in E3T (Yan
    et al. 2023, "An Efficient End-to-End Training Approach for Zero-Shot Human-AI Coordination").
    In E3T, a network without memory reads the last five steps.

    The actor and its partner must choose among the same number of actions. The choice has no
    gradient with respect to the prediction: a separate loss must train the prediction.

    **Arguments:**

    - `in_shape`, `out_size`, `encoder`, `width`, `final_scale`, `key`: as in `GRU`.

    **Raises:** as `GRU`.
    """

    memory: GRU
    head: Dense

    def __init__(
        self,
        in_shape: PyTree,
        out_size: int,
        *,
        encoder: Callable[..., AbstractNetwork] = MLP,
        width: int = 64,
        final_scale: float = 1.0,
        key: PRNGKeyArray,
    ):
        memory_key, head_key = jax.random.split(key)
        self.memory = GRU(
            in_shape,
            out_size,
            encoder=encoder,
            width=width,
            final_scale=final_scale,
            key=memory_key,
        )
        self.head = Dense(width + out_size, out_size, scale=final_scale, key=head_key)

    @property
    def encoder(self) -> AbstractNetwork:
        """The encoder of the memory."""
        return self.memory.encoder

    @property
    def width(self) -> int:
        """The size of the carry."""
        return self.memory.width

    def initial_carry(self) -> Float[Array, " width"]:
        return self.memory.initial_carry()

    def __call__(
        self, x: Shaped[Array, "..."], carry: Float[Array, " width"]
    ) -> tuple[Float[Array, " out"], Float[Array, " width"]]:
        prediction, carry = self.memory(x, carry)
        return self._choose(carry, prediction), carry

    def unroll(
        self,
        x: Shaped[Array, "time ..."],
        carry: Float[Array, " width"],
        start: Bool[Array, " time"],
    ) -> Float[Array, "time out"]:
        return self.unroll_both(x, carry, start)[0]

    def unroll_both(
        self,
        x: Shaped[Array, "time ..."],
        carry: Float[Array, " width"],
        start: Bool[Array, " time"],
    ) -> tuple[Float[Array, "time out"], Float[Array, "time out"]]:
        """Computes outputs and predictions of a sequence of steps; the arguments are as in
        `unroll`.

        **Returns:** the outputs, and the logits of the partner's actions.
        """
        memories = self.memory.memories(x, carry, start)
        predictions = jax.vmap(self.memory.head)(memories)
        return jax.vmap(self._choose)(memories, predictions), predictions

    def _choose(
        self, memory: Float[Array, " width"], prediction: Float[Array, " out"]
    ) -> Float[Array, " out"]:
        probabilities = jax.lax.stop_gradient(jax.nn.softmax(prediction))
        return self.head(jnp.concatenate([memory, probabilities]))
