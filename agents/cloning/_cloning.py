"""Behaviour cloning: supervised learning of recorded actions, for several seeds at once."""

from collections.abc import Sequence
from typing import Annotated, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped
from msgspec import Meta

from eqgrid.typing import PyTree

from ..policies import AbstractNetwork, unroll_network


@final
class Demonstrations(eqx.Module):
    """Sequences of consecutive steps of single agents, all of one length.

    `demonstrations` builds them from recorded games.

    **Arguments:**

    - `observation`: the observation of the agent before each step.
    - `action`: the action that the agent took.
    - `recorded`: false for steps that fill up a shorter sequence.
    """

    observation: PyTree[Shaped[Array, "sequences time ..."]]
    action: Int[Array, "sequences time"]
    recorded: Bool[Array, "sequences time"]

    @property
    def num_sequences(self) -> int:
        """The number of sequences."""
        return len(self.action)

    def take(self, numbers: Int[Array, " batch"]) -> "Demonstrations":
        """The sequences at these indices."""
        return jax.tree.map(lambda x: x[numbers], self)


def demonstrations(
    games: Sequence[
        tuple[
            PyTree[Shaped[Array | np.ndarray, "_ agents ..."]], Int[Array | np.ndarray, "_ agents"]
        ]
    ],
    length: int | None = None,
) -> Demonstrations:
    """Cuts recorded games into demonstrations. Every agent of a game has its own sequences.

    For example, `demonstrations([(observation, action)], length=1)` returns single steps, which are
    sufficient for a policy without memory.

    **Arguments:**

    - `games`: for each game, the observations of all agents before each step, and their actions.
    - `length`: the number of steps of a sequence; the length of the longest game by default. The
        last sequence of an agent in a game is filled up with zeros.

    **Raises:** `ValueError` when there is no game or the length is not positive.
    """
    if not games:
        raise ValueError("Demonstrations need at least one game, but there is none.")
    size = max(len(action) for _, action in games) if length is None else length
    if size < 1:
        raise ValueError(f"A demonstration needs a length of at least 1, but got {size}.")

    def cut(steps: Shaped[Array | np.ndarray, "_ agents ..."]) -> Shaped[np.ndarray, "_ time ..."]:
        # [steps, agents] -> [agents, filled steps] -> [agents * sequences, size]
        x = np.asarray(steps)
        filled = np.pad(x, [(0, -len(x) % size), *[(0, 0)] * (x.ndim - 1)])
        return np.moveaxis(filled, 1, 0).reshape(-1, size, *x.shape[2:])

    parts = [
        jax.tree.map(cut, (observation, action, np.ones(np.shape(action), bool)))
        for observation, action in games
    ]
    return Demonstrations(*jax.tree.map(lambda *x: jnp.asarray(np.concatenate(x)), *parts))


_STEPS_WITH_MEMORY = 100
"""The default length of a training sequence for a network with memory."""
_FEWEST_SEQUENCES = 4
"""The smallest number of sequences in a batch, unless there are fewer demonstrations."""


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
    - `accuracy`: the fraction of steps in which the recorded action is the most probable action.
    """

    cross_entropy: Float[Array, "*runs"]
    accuracy: Float[Array, "*runs"]


@final
class BehaviorCloning(eqx.Module):
    """Supervised learning of recorded actions with Adam: the loss is the cross-entropy.

    The defaults are from Carroll et al. 2019, "On the Utility of Learning about Humans for
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
        return _STEPS_WITH_MEMORY if remembers else 1

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
        - `shown`: the demonstrations; their sequences have the length that `length_for` returns.
            The last sequences of the random order are left out if they do not fill a batch.

        **Returns:** the next state, and the mean loss of its gradient steps, in nats.
        """
        key, order_key = jax.random.split(state.key)
        size = max(_FEWEST_SEQUENCES, self.batch_size // shown.action.shape[1])
        size = min(size, shown.num_sequences)
        num_batches = shown.num_sequences // size
        order = jax.random.permutation(order_key, shown.num_sequences)[: num_batches * size]
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
            gradient_step, (arrays, state.opt_state), order.reshape(num_batches, size)
        )
        return CloningState(eqx.combine(arrays, rest), opt_state, key), losses.mean()

    def _optimizer(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate)


def logits(
    network: AbstractNetwork, shown: Demonstrations
) -> Float[Array, "sequences time actions"]:
    """The outputs of a network in all steps; each sequence begins with the initial carry."""
    start = jnp.arange(shown.action.shape[1]) == 0
    carry = network.initial_carry()
    return jax.vmap(lambda x: unroll_network(network, x, carry, start))(shown.observation)


def cross_entropy(network: AbstractNetwork, shown: Demonstrations) -> Float[Array, ""]:
    """The mean of the negative log-probability of the recorded actions, in nats."""
    each = optax.softmax_cross_entropy_with_integer_labels(logits(network, shown), shown.action)
    return each.mean(where=shown.recorded)


def score(network: AbstractNetwork, shown: Demonstrations) -> CloningScore:
    """Measures how well a network predicts the actions of demonstrations.

    **Arguments:**

    - `network`: the network.
    - `shown`: the demonstrations, which may be whole games.
    """
    outputs = logits(network, shown)
    each = optax.softmax_cross_entropy_with_integer_labels(outputs, shown.action)
    correct = outputs.argmax(axis=-1) == shown.action
    return CloningScore(
        cross_entropy=each.mean(where=shown.recorded),
        accuracy=correct.mean(where=shown.recorded),
    )


@eqx.filter_jit
def clone_epoch(
    learner: BehaviorCloning, states: CloningState, shown: Demonstrations, held_out: Demonstrations
) -> tuple[CloningState, Float[Array, " runs"], CloningScore]:
    """Makes an epoch of all runs in one compiled program.

    ```python
    states = eqx.filter_vmap(learner.init)(networks, keys)  # with a leading axis of the runs
    for _ in range(learner.num_epochs):
        states, loss, score = clone_epoch(learner, states, shown, held_out)
    ```

    **Arguments:**

    - `learner`: the settings.
    - `states`: the states before the epoch, with a leading axis of the runs.
    - `shown`: the demonstrations to learn from.
    - `held_out`: demonstrations of other people.

    **Returns:** the next states, the mean loss of each run, and its score on `held_out`.
    """

    def one(state: CloningState) -> tuple[CloningState, Float[Array, ""], CloningScore]:
        state, loss = learner.epoch(state, shown)
        return state, loss, score(state.network, held_out)

    return eqx.filter_vmap(one)(states)
