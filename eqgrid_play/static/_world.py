"""The functions that are exported for a page: the start and the step of a world."""

import functools
from collections.abc import Sequence
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from eqgrid import (
    AbstractPartner,
    PartnerInput,
    PlayState,
    play_step,
    start_play,
    unwrap_state,
)
from eqgrid.grid import look_codes
from eqgrid.typing import PyTree

from ..games import Place


@final
class PersonOrPartner(AbstractPartner):
    """Takes the action of a person if `person` is true, and the action of a partner otherwise.

    **Arguments:**

    - `partner`: the partner, whose memory is updated in both cases.
    - `pressed`: the action of the person.
    - `person`: whether the person acts.
    """

    partner: AbstractPartner
    pressed: Shaped[Array, "..."]
    person: Bool[Array, ""]

    def initial_carry(self) -> PyTree[Shaped[Array, "..."]]:
        return self.partner.initial_carry()

    def __call__(
        self, seen: PartnerInput, carry: PyTree[Shaped[Array, "..."]], key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], PyTree[Shaped[Array, "..."]]]:
        action, carry = self.partner(seen, carry, key)
        return jnp.where(self.person, self.pressed, action.astype(self.pressed.dtype)), carry


class Shown(NamedTuple):
    """The part of a state that a page draws: the fields of `LookCodes` that pages need, except that
    `extra` has one number for each agent, its entry in `Sheet.agents`.
    """

    lying: Int[Array, " cells"]
    timer: Int[Array, " cells"]
    place: Int[Array, " agents"]
    direction: Int[Array, " agents"]
    held: Int[Array, " agents"]
    extra: Int[Array, " agents"]


class Started(NamedTuple):
    """The result of `PageWorld.start`.

    - `state`: the leaves of the `PlayState`.
    - `shown`: the part of the state that a page draws.
    """

    state: list[Array]
    shown: Shown


class Stepped(NamedTuple):
    """The result of `PageWorld.step`.

    - `state`: the leaves of the `PlayState` after the step.
    - `action`, `reward`: the action and the reward of each agent.
    - `returns`: the return of each agent so far.
    - `finished`: whether the episode has ended.
    - `shown`: the part of the state after the step that a page draws.
    """

    state: list[Array]
    action: Int[Array, "agents *choices"]
    reward: Float[Array, " agents"]
    returns: Float[Array, " agents"]
    finished: Bool[Array, ""]
    shown: Shown


@final
class PageWorld:
    """A world with the same partner in every seat, in which people can take any seat.

    The methods take and return arrays, and lists of arrays in place of PyTrees, as exported
    programs do.
    """

    def __init__(self, place: Place, partner: AbstractPartner):
        """**Arguments:**

        - `place`: the world.
        - `partner`: the partner that acts in seats without a person.
        """
        self.place, self._partner = place, partner
        self._agents = place.env.num_agents
        first = start_play(place.env, self._team(*map(jnp.asarray, self.nobody)), jax.random.key(0))
        arrays, self._rest = eqx.partition(first, eqx.is_array)
        self._structure = jax.tree.structure(arrays)
        self.size = self._structure.num_leaves

    @functools.cached_property
    def nobody(self) -> tuple[Int[np.ndarray, "agents *choices"], Bool[np.ndarray, " agents"]]:
        """The arguments `pressed` and `person` of `step` without people."""
        pressed = np.stack([np.asarray(self.place.idle)] * self._agents)
        return pressed, np.zeros(self._agents, bool)

    def start(self, key: PRNGKeyArray) -> Started:
        """Starts a game.

        **Arguments:**

        - `key`: the source of randomness of the game: `jax.random.key(seed)`.
        """
        state = start_play(self.place.env, self._team(*map(jnp.asarray, self.nobody)), key)
        return Started(self._leaves(state), self._shown(state))

    def step(
        self,
        state: Sequence[Array],
        pressed: Int[Array, "agents *choices"],
        person: Bool[Array, " agents"],
    ) -> Stepped:
        """Plays a step as `play_step` does.

        **Arguments:**

        - `state`: the leaves of the `PlayState` before the step.
        - `pressed`: the actions of people; the actions of other seats have no effect.
        - `person`: whether a person acts in each seat.
        """
        before = self.play_state(state)
        after, row = play_step(self.place.env, self._team(pressed, person), before)
        return Stepped(
            self._leaves(after),
            row["action"],
            row["reward"],
            after.game.episode_return,
            after.game.finished,
            self._shown(after),
        )

    def play_state(self, state: Sequence[Array]) -> PlayState:
        """The `PlayState` with these leaves."""
        return eqx.combine(jax.tree.unflatten(self._structure, list(state)), self._rest)

    def _team(
        self, pressed: Int[Array, "agents *choices"], person: Bool[Array, " agents"]
    ) -> tuple[AbstractPartner, ...]:
        return tuple(
            PersonOrPartner(self._partner, pressed[seat], person[seat])
            for seat in range(self._agents)
        )

    @staticmethod
    def _leaves(state: PlayState) -> list[Array]:
        return jax.tree.leaves(eqx.filter(state, eqx.is_array))

    def _shown(self, state: PlayState) -> Shown:
        codes = look_codes(self.place.grid.layout, unwrap_state(state.env_state))
        # The Boolean values of an agent are the binary digits of its entry in `Sheet.agents`.
        flags = [leaf for leaf in codes.extra if leaf.dtype == bool]
        index = jnp.zeros(self._agents, jnp.int32)
        if len(flags) == len(codes.extra):
            for leaf in flags:
                for column in leaf.T:
                    index = 2 * index + column.astype(jnp.int32)
        found = (codes.lying, codes.timer, codes.place, codes.direction, codes.held, index)
        return Shown(*(jnp.asarray(x).astype(jnp.int32) for x in found))
