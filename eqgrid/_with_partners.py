"""WithPartners: a partner acts for one of the agents, and the others learn."""

import dataclasses
from collections.abc import Sequence
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, PyTree, Shaped

from ._auto_reset import AutoReset
from ._env import (
    AbstractEnv,
    AbstractVectorEnv,
    AbstractWrapper,
    AbstractWrapperState,
    TimeStep,
    unwrap_state,
)
from ._nesting import check_single_env, contains_wrapper
from ._partner import AbstractPartner, OneOf, Seen


@final
class WithPartnersState(AbstractWrapperState):
    """Who the partner is in this episode, where it sits, and what it remembers, around the state of
    the environment.
    """

    env_state: PyTree
    partner: Int[Array, ""]
    seat: Int[Array, ""]
    carry: PyTree[Shaped[Array, "..."]]


@final
class WithPartners(AbstractWrapper):
    """An environment with one agent less, for whom a partner acts.

    Every reset draws one of the partners, and the seat that it takes. The other agents keep their
    order. What they observe, earn and are told in `info` is theirs alone: nobody learns from what
    the partner did. It goes around the world, inside `LogEpisodes` and `AutoReset`, as it draws
    anew in every episode.

    **Arguments:**

    - `env`: one environment with at least two agents. In its `info`, every entry must lead with
        the agents.
    - `partners`: from which the one of an episode is drawn, each with the same probability.
    - `seats`: from which its seat is drawn; all seats unless given.

    **Raises:** `ValueError` for a wrong nesting, without partners, for a seat that there is not, or
    for an environment with one agent.
    """

    env: AbstractEnv
    partners: OneOf
    seats: Int[Array, " seats"]

    def __init__(
        self,
        env: AbstractEnv | AbstractVectorEnv,
        partners: Sequence[AbstractPartner],
        seats: Sequence[int] | None = None,
    ):
        self.env = check_single_env(env, "WithPartners(env, partners)")
        if contains_wrapper(self.env, AutoReset):
            raise ValueError(
                "WithPartners must be inside AutoReset, so that every episode has a partner drawn "
                "for it: AutoReset(WithPartners(env, partners))."
            )
        if env.num_agents < 2:
            raise ValueError("WithPartners needs an environment with at least 2 agents.")
        seats = range(env.num_agents) if seats is None else seats
        if len(seats) == 0 or not all(0 <= seat < env.num_agents for seat in seats):
            raise ValueError(
                f"The seats of partners are from 0 to {env.num_agents - 1}, but are {list(seats)}."
            )
        self.partners, self.seats = OneOf(partners), jnp.asarray(list(seats))

    @property
    def num_agents(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.env.num_agents - 1

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Shaped[Array, "agents ..."]], PyTree]:
        env_key, partner_key, seat_key = jax.random.split(key, 3)
        observation, env_state = self.env.reset(env_key)
        partner = jax.random.randint(partner_key, (), 0, self.partners.num_partners)
        seat = self.seats[jax.random.randint(seat_key, (), 0, len(self.seats))]
        carry = self.partners.pick(partner).initial_carry()
        return self._without(observation, seat), WithPartnersState(env_state, partner, seat, carry)

    def step(
        self, key: PRNGKeyArray, state: WithPartnersState, action: Shaped[Array, "agents ..."]
    ) -> tuple[TimeStep, WithPartnersState]:
        env_key, partner_key = jax.random.split(key)
        seen = Seen(self.env.observe(state.env_state), unwrap_state(state.env_state), state.seat)
        partner = self.partners.pick(state.partner)
        own, carry = partner(seen, state.carry, partner_key)
        numbers, last = jnp.arange(self.env.num_agents), self.num_agents - 1
        others = action[jnp.where(numbers > state.seat, numbers - 1, jnp.minimum(numbers, last))]
        is_partner = (numbers == state.seat).reshape(-1, *[1] * (action.ndim - 1))
        everybody = jnp.where(is_partner, own.astype(action.dtype)[None], others)
        timestep, env_state = self.env.step(env_key, state.env_state, everybody)
        of_agents = ("observation", "reward", "terminated", "info", "final_observation")
        left = {name: self._without(getattr(timestep, name), state.seat) for name in of_agents}
        state = WithPartnersState(env_state, state.partner, state.seat, carry)
        return dataclasses.replace(timestep, **left), state

    def observe(self, state: WithPartnersState) -> PyTree[Shaped[Array, "agents ..."]]:
        return self._without(self.env.observe(state.env_state), state.seat)

    def _without(self, tree: PyTree, seat: Int[Array, ""]) -> PyTree[Shaped[Array, "agents ..."]]:
        """What is left of arrays that lead with the agents, without the partner's part."""
        numbers = np.arange(self.num_agents)
        kept = jnp.where(numbers >= seat, numbers + 1, numbers)
        return jax.tree.map(lambda x: x[kept], tree)
