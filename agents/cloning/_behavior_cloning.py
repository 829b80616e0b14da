"""Behaviour cloning: supervised learning of recorded actions."""

from typing import Annotated, final

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray
from msgspec import Meta

from eqgrid.typing import PyTree

from ..policies import AbstractNetwork
from ._demonstrations import Demonstrations

_WITH_MEMORY = 100
"""The default length of a training sequence for a network with memory, in steps."""
_FEWEST_SEQUENCES = 4


@final
class CloningState(eqx.Module):
    """The state of behaviour cloning between two epochs.

    **Arguments:**

    - `network`: the network, whose outputs are one logit for each action.
    - `opt_state`: the state of Adam.
    - `key`: the source of the order of the sequences.
    """

    network: AbstractNetwork
    opt_state: PyTree
    key: PRNGKeyArray


@final
class CloningScore(eqx.Module):
    """How well a network predicts recorded actions.

    **Arguments:**

    - `cross_entropy`: the mean of the negative log-probability of the recorded action, in nats.
    - `accuracy`: the share of steps whose recorded action is the most probable one.
    - `confusion`: the number of steps by the recorded action and the most probable one.
    """

    cross_entropy: Float[Array, "*runs"]
    accuracy: Float[Array, "*runs"]
    confusion: Int[Array, "*runs actions actions"]


@final
class BehaviorCloning(eqx.Module):
    """Supervised learning of recorded actions with Adam: the loss is the cross-entropy.

    The defaults are those of Carroll et al. 2019, "On the Utility of Learning about Humans for
    Human-AI Coordination", for models of people in Overcooked.
    """

    num_epochs: Annotated[int, Meta(ge=1, le=10**5)] = eqx.field(default=100, static=True)
    """How often all demonstrations are used."""
    batch_size: Annotated[int, Meta(ge=1, le=2**20)] = eqx.field(default=64, static=True)
    """Steps per gradient step; at least four sequences."""
    sequence_length: Annotated[int, Meta(ge=0, le=2**16)] = eqx.field(default=0, static=True)
    """Steps per training sequence (0: 100 with a memory, single steps without)."""
    learning_rate: Annotated[float, Meta(gt=0)] = 1e-3
    """Learning rate of Adam."""

    def length_for(self, network: AbstractNetwork) -> int:
        """The number of steps of a training sequence for a network."""
        if self.sequence_length > 0:
            return self.sequence_length
        remembers = jax.tree.leaves(eqx.filter_eval_shape(network.initial_carry))
        return _WITH_MEMORY if remembers else 1

    def init(self, network: AbstractNetwork, key: PRNGKeyArray) -> CloningState:
        """The state before the first epoch.

        **Arguments:**

        - `network`: a network with random parameters.
        - `key`: the source of randomness of all epochs.
        """
        opt_state = self._optimizer().init(eqx.filter(network, eqx.is_inexact_array))
        return CloningState(network, opt_state, key)

    def epoch(
        self, state: CloningState, shown: Demonstrations
    ) -> tuple[CloningState, Float[Array, ""]]:
        """Uses all demonstrations once, in a random order.

        **Arguments:**

        - `state`: the state before the epoch.
        - `shown`: the demonstrations, whose sequences have as many steps as `length_for` says.
            Those that do not fill a batch in this order are left out of this epoch.

        **Returns:** the next state, and the mean loss of its gradient steps, in nats.
        """
        key, order_key = jax.random.split(state.key)
        size = max(_FEWEST_SEQUENCES, self.batch_size // shown.action.shape[1])
        size = min(size, shown.num_sequences)
        number = shown.num_sequences // size
        order = jax.random.permutation(order_key, shown.num_sequences)[: number * size]
        arrays, rest = eqx.partition(state.network, eqx.is_inexact_array)

        def gradient_step(
            learner: tuple[PyTree, PyTree], batch: Int[Array, " batch"]
        ) -> tuple[tuple[PyTree, PyTree], Float[Array, ""]]:
            arrays, opt_state = learner
            loss, gradient = jax.value_and_grad(
                lambda x: cross_entropy(eqx.combine(x, rest), shown.take(batch))
            )(arrays)
            # Optax raises a Python float to an int32 power, which strict dtype promotion rejects.
            with jax.numpy_dtype_promotion("standard"):
                updates, opt_state = self._optimizer().update(gradient, opt_state)
            return (optax.apply_updates(arrays, updates), opt_state), loss

        (arrays, opt_state), losses = jax.lax.scan(
            gradient_step, (arrays, state.opt_state), order.reshape(number, size)
        )
        return CloningState(eqx.combine(arrays, rest), opt_state, key), losses.mean()

    def _optimizer(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate)


def logits(
    network: AbstractNetwork, shown: Demonstrations
) -> Float[Array, "sequences time actions"]:
    """The outputs of a network in all steps of demonstrations, each of which starts anew."""
    start = jnp.arange(shown.action.shape[1]) == 0

    def one(observation: PyTree) -> Float[Array, "time actions"]:
        return network.unroll(observation, network.initial_carry(), start)

    return jax.vmap(one)(shown.observation)


def cross_entropy(network: AbstractNetwork, shown: Demonstrations) -> Float[Array, ""]:
    """The mean of the negative log-probability of the recorded actions, in nats."""
    each = optax.softmax_cross_entropy_with_integer_labels(logits(network, shown), shown.action)
    return each.mean(where=shown.recorded)


def score(network: AbstractNetwork, shown: Demonstrations) -> CloningScore:
    """How well a network predicts the actions of demonstrations that it did not learn from.

    **Arguments:**

    - `network`: the network.
    - `shown`: the demonstrations, which may be whole games.
    """
    outputs = logits(network, shown)
    each = optax.softmax_cross_entropy_with_integer_labels(outputs, shown.action)
    predicted = outputs.argmax(axis=-1)
    count = jnp.zeros((outputs.shape[-1],) * 2, jnp.int32)
    confusion = count.at[shown.action, predicted].add(shown.recorded.astype(jnp.int32))
    right = predicted == shown.action
    known = shown.recorded
    return CloningScore(each.mean(where=known), right.mean(where=known), confusion)
