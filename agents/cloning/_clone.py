"""The loop of behaviour cloning over epochs, for several seeds at once."""

from collections.abc import Callable
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from ..policies import AbstractNetwork
from ._behavior_cloning import BehaviorCloning, CloningScore, CloningState, score
from ._demonstrations import Demonstrations


@final
class Epoch(NamedTuple):
    """The numbers of one epoch, for each run.

    - `number`: the number of epochs so far.
    - `loss`: the mean cross-entropy of the gradient steps, in nats.
    - `held_out`: the score on the held-out games after the epoch.
    """

    number: int
    loss: Float[np.ndarray, " runs"]
    held_out: CloningScore


@final
class Clones(NamedTuple):
    """The networks of all runs, each with a leading axis of the runs.

    - `last`: after the last epoch.
    - `best`: after the epoch with the lowest cross-entropy on the held-out games.
    - `best_epoch`: that epoch, counted from 1.
    """

    last: AbstractNetwork
    best: AbstractNetwork
    best_epoch: Int[np.ndarray, " runs"]


def clone(
    learner: BehaviorCloning,
    networks: AbstractNetwork,
    keys: Shaped[PRNGKeyArray, " runs"],
    shown: Demonstrations,
    held_out: Demonstrations,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> Clones:
    """Trains networks to imitate demonstrations. All runs are one compiled program.

    **Arguments:**

    - `learner`: the settings.
    - `networks`: the untrained networks, with a leading axis of the runs.
    - `keys`: a key for each run, for the order of the demonstrations.
    - `shown`: the demonstrations to learn from.
    - `held_out`: demonstrations of other people, on which every epoch is scored.
    - `on_epoch`: called after each epoch.

    **Returns:** the networks after the last and after the best epoch.
    """
    states = eqx.filter_vmap(learner.init)(networks, keys)
    runs = len(keys)
    lowest, best_epoch = np.full(runs, np.inf), np.zeros(runs, int)
    best = states.network
    for number in range(1, learner.num_epochs + 1):
        states, loss, found = _epoch(learner, states, shown, held_out)
        entropy = np.asarray(found.cross_entropy)
        better = entropy < lowest
        lowest, best_epoch = np.minimum(lowest, entropy), np.where(better, number, best_epoch)
        best = _where(jnp.asarray(better), states.network, best)
        on_epoch(Epoch(number, np.asarray(loss), found))
    return Clones(states.network, best, best_epoch)


@eqx.filter_jit
def _epoch(
    learner: BehaviorCloning, states: CloningState, shown: Demonstrations, held_out: Demonstrations
) -> tuple[CloningState, Float[Array, " runs"], CloningScore]:
    def one(state: CloningState) -> tuple[CloningState, Float[Array, ""], CloningScore]:
        state, loss = learner.epoch(state, shown)
        return state, loss, score(state.network, held_out)

    return eqx.filter_vmap(one)(states)


@eqx.filter_jit
def _where(
    better: Bool[Array, " runs"], network: AbstractNetwork, other: AbstractNetwork
) -> AbstractNetwork:
    """`network` in the runs where it is better, and `other` elsewhere."""
    arrays, rest = eqx.partition(network, eqx.is_array)
    chosen = jax.tree.map(
        lambda x, y: jnp.where(better.reshape(-1, *[1] * (x.ndim - 1)), x, y),
        arrays,
        eqx.filter(other, eqx.is_array),
    )
    return eqx.combine(chosen, rest)
