"""Counts are compared with the chances that they should have."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from eqgrid import AbstractPartner


@final
class Marked(AbstractPartner):
    """Another partner, whose actions are larger by `mark`. Its memory is the last one, without it.

    So a test knows which actions were replaced, and by which ones.
    """

    partner: AbstractPartner
    mark: int

    def initial_carry(self):
        return jnp.asarray(0)

    def __call__(self, seen, carry, key):
        action, _ = self.partner(seen, None, key)
        return action + self.mark, action


@final
class Undecided(AbstractPartner):
    """Draws every action as a policy does whose logits are equal."""

    count: int

    def initial_carry(self):
        return None

    def __call__(self, seen, carry, key):
        return jax.random.categorical(key, jnp.zeros(self.count)), None


def check_counts(chances, *indices):
    """Compares how often each combination occurs with its chances, by a chi-square test.

    **Arguments:**

    - `chances`: the chance of each combination, up to a factor, with an axis for each index.
    - `indices`: the indices of each sample, as vectors.
    """
    chances, found = np.asarray(chances, float), np.zeros(np.shape(chances))
    np.add.at(found, tuple(np.asarray(x).astype(int) for x in indices), 1)
    possible = chances > 0
    assert not found[~possible].any()
    expected = found.sum() * chances[possible] / chances.sum()
    assert scipy.stats.chisquare(found[possible], expected).pvalue > 1e-3, found
