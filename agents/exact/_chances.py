"""The exact action probabilities of partners without memory."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from eqgrid import (
    AbstractEnv,
    AbstractPartner,
    Discrete,
    NoisyPartner,
    PyTree,
    RandomPartner,
    Seen,
    StayPartner,
)

from ..policies import PolicyPartner


@final
class Chances(eqx.Module):
    """The probability of each action of a partner in a state: `Chances(...)(state)`.

    **Arguments:**

    - `partner`: a policy without memory, `RandomPartner`, `StayPartner`, or one of them in a
        `NoisyPartner`.
    - `env`: the environment, with the observations that the partner is given.
    - `seat`: the seat of the partner.

    **Raises:** `ValueError` when its probabilities cannot be told.
    """

    partner: AbstractPartner
    env: AbstractEnv
    seat: int = eqx.field(static=True)

    def __check_init__(self):
        _check(self.partner)
        if not isinstance(self.env.action_space, Discrete):
            raise ValueError("Probabilities are told where agents make one choice in each step.")

    def __call__(self, state: PyTree) -> Float[Array, " actions"]:
        """**Arguments:**

        - `state`: the state of the innermost environment.
        """
        seen = Seen(self.env.observe(state), state, jnp.asarray(self.seat))
        space: Any = self.env.action_space
        return _chances(self.partner, seen, space.n)


def _check(partner: AbstractPartner) -> None:
    if isinstance(partner, NoisyPartner):
        return _check(partner.partner)
    if not isinstance(partner, PolicyPartner | RandomPartner | StayPartner):
        raise ValueError(
            f"The action probabilities of a {type(partner).__name__} are not known, or depend on "
            "what happened before."
        )
    carry = eqx.filter_eval_shape(partner.initial_carry)
    if any(np.prod(leaf.shape) for leaf in jax.tree.leaves(carry)):
        raise ValueError("The partner has a memory, so its actions depend on what happened before.")
    return None


def _chances(partner: AbstractPartner, seen: Seen, actions: int) -> Float[Array, " actions"]:
    even = jnp.full(actions, 1 / actions)
    if isinstance(partner, NoisyPartner):
        own = _chances(partner.partner, seen, actions)
        return (1 - partner.level) * own + partner.level * even
    if isinstance(partner, StayPartner):
        return jax.nn.one_hot(partner.action, actions)
    if isinstance(partner, PolicyPartner):
        output = partner.outputs(seen, partner.initial_carry())[0][seen.seat]
        if partner.greedy:
            return jax.nn.one_hot(output.argmax(), actions)
        return jax.nn.softmax(output)
    return even
