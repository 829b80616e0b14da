"""A recurrent network that predicts what its partner does."""

from collections.abc import Callable
from typing import final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from ._networks import GRU, MLP, AbstractNetwork, Dense


@final
class PredictingGRU(AbstractNetwork):
    """A `GRU` that predicts, from what an agent saw so far, which action its partner takes in this
    step. The agent's own choice depends on its memory and on the predicted probabilities, as in E3T
    (Yan et al. 2023, "An Efficient End-to-End Training Approach for Zero-Shot Human-AI
    Coordination"), where a network reads the last five steps instead.

    It is the network of an actor that chooses among as many actions as its partner. Choices have no
    gradient with respect to the prediction, which a loss of its own teaches.

    **Arguments:**

    - `in_shape`, `out_size`, `encoder`, `width`, `final_scale`, `key`: as in `GRU`.

    **Raises:** as `GRU`.
    """

    memory: GRU
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
        """Computes outputs and predictions of a sequence of steps; the arguments are those of
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
