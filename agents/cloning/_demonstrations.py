"""Demonstrations: recorded actions to imitate, with what was observed before each of them."""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Shaped

from eqgrid.typing import PyTree


@final
class Demonstrations(eqx.Module):
    """Sequences of consecutive steps of single agents, all of one length.

    `demonstrations` makes them of recorded games.

    **Arguments:**

    - `observation`: what the agent observed before each step.
    - `action`: the action that it took.
    - `recorded`: false for steps that only fill up a shorter sequence.
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
            PyTree[Shaped[Array | np.ndarray, "_ agents ..."]],
            Int[Array | np.ndarray, "_ agents"],
        ]
    ],
    length: int | None = None,
) -> Demonstrations:
    """Cuts recorded games into demonstrations. Every agent of a game is demonstrated by itself.

    For example, `demonstrations([(observation, action)], length=1)` are single steps, as a policy
    without memory learns from.

    **Arguments:**

    - `games`: for each game, the observations of all agents before each step, and their actions.
    - `length`: the number of steps of a sequence; by default, that of the longest game. The last
        sequence of an agent in a game is filled up.

    **Raises:** `ValueError` when there is no game or the length is not positive.
    """
    if not games:
        raise ValueError("Demonstrations need at least one game, but there is none.")
    size = max(len(action) for _, action in games) if length is None else length
    if size < 1:
        raise ValueError(f"A demonstration needs a length of at least 1, but got {size}.")
    recorded = [np.ones(np.shape(action), bool) for _, action in games]
    cut = [
        jax.tree.map(lambda x: _cut(np.asarray(x), size), (seen, action, known))
        for (seen, action), known in zip(games, recorded, strict=True)
    ]
    return Demonstrations(*jax.tree.map(lambda *x: jnp.asarray(np.concatenate(x)), *cut))


def _cut(
    x: Shaped[np.ndarray, "steps agents ..."], length: int
) -> Shaped[np.ndarray, "sequences time ..."]:
    """Cuts the steps of each agent into sequences, of which the last is filled up with zeros."""
    missing = -len(x) % length
    full = np.pad(x, [(0, missing), *[(0, 0)] * (x.ndim - 1)])
    by_agent = np.moveaxis(full, 1, 0)
    return by_agent.reshape(-1, length, *x.shape[2:])
