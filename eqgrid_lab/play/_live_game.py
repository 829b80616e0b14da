"""A game in which people play, step by step, without clocks or connections."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, Shaped

from agents.files import is_key
from eqgrid import (
    AbstractEnv,
    AbstractPartner,
    PlayState,
    StayPartner,
    play_step,
    start_play,
    unwrap_state,
)
from eqgrid.typing import PyTree

from ._conduct import Conduct, KeyPress
from ._journal import EventLine, Journal, StepLine

_MOST_WAITING = 2
"""How many presses wait for their steps; a person who presses faster than the clock ticks expects
the last presses to count, but not to wait for them for a second."""


@final
class Hands:
    """What a person presses between two steps, and the `conduct` of this person."""

    def __init__(self, idle: Sequence[int]):
        """**Arguments:**

        - `idle`: for each choice, the action of somebody who presses nothing.
        """
        self._idle = tuple(idle)
        self._pressed: list[deque[tuple[int, int, KeyPress | None]]]
        self._pressed = [deque(maxlen=_MOST_WAITING) for _ in idle]
        self._held: list[int | None] = [None] * len(self._idle)
        self.taken = 0
        """The number of the last press that was taken."""
        self.conduct = Conduct()

    def press(self, choice: int, action: int, number: int = 0, key: KeyPress | None = None) -> None:
        """Takes an action in the next step, or in the one after it if another press waits.

        **Arguments:**

        - `choice`, `action`: as in `Control`.
        - `number`: the number of the press, of those of a page.
        - `key`: its key, if keys are recorded, which gets the number of the step.
        """
        self._pressed[choice].append((action, number, key))

    def hold(self, choice: int, action: int | None) -> None:
        """Takes an action in all steps without a press, until it is released with `None`."""
        self._held[choice] = action

    def release(self) -> None:
        """Releases everything."""
        for choice, waiting in enumerate(self._pressed):
            waiting.clear()
            self._held[choice] = None

    def take(self, step: int = 1) -> list[int]:
        """The action of each choice in the next step, which has this number."""
        held = zip(self._idle, self._held, strict=True)
        taken = [idle if action is None else action for idle, action in held]
        for choice, waiting in enumerate(self._pressed):
            if waiting:
                taken[choice], number, key = waiting.popleft()
                self.taken = max(self.taken, number)
                if key is not None:
                    key.step = step
        self.conduct.step(tuple(taken) != self._idle)
        return taken


class _Played(NamedTuple):
    """What a step returns: the leaves of the next `PlayState`, and what is written and shown."""

    state: list[Array]
    world: list[Array]
    action: Array
    reward: Array
    returns: Array
    finished: Array


@final
class Program:
    """The compiled steps of all games in one world with the same partners.

    It takes and returns lists of arrays, which costs a third of the time of a call with Modules.
    """

    def __init__(
        self,
        env: AbstractEnv,
        partners: Sequence[AbstractPartner | None],
        idle: Shaped[Array, "..."],
    ):
        """**Arguments:**

        - `env`: the environment, with the observations that the partners read.
        - `partners`: the partner in each seat; `None` for a person.
        - `idle`: the action of a person who presses nothing.
        """
        self.env, self.partners, self.idle = env, tuple(partners), idle
        fixed, self._rest = eqx.partition((env, self.partners), eqx.is_array)
        self._fixed, self._fixed_form = jax.tree.flatten(fixed)
        state, self._state_rest = eqx.partition(self._start(jax.random.key(0)), eqx.is_array)
        self._state_form = jax.tree.structure(state)
        world = unwrap_state(eqx.combine(state, self._state_rest).env_state)
        self._world_form = jax.tree.structure(world)
        self._step = jax.jit(self._play)

    def start(self, seed: int) -> _Played:
        """The game with a seed, before its first step."""
        state = self._start(jax.random.key(seed))
        nothing = jnp.zeros(self.env.num_agents)
        actions = jnp.stack([self.idle] * len(self.partners))
        return self._played(state, unwrap_state(state.env_state), actions, nothing)

    def step(self, state: list[Array], pressed: Int[np.ndarray, "agents *choices"]) -> _Played:
        """Plays a step.

        **Arguments:**

        - `state`: the leaves of the game before it.
        - `pressed`: the actions of all people; actions of other seats do not count.
        """
        return self._step(self._fixed, state, pressed)

    def world(self, leaves: Sequence[Array]) -> PyTree:
        """The state of the innermost environment, in NumPy arrays."""
        concrete = [leaf if is_key(leaf) else np.asarray(leaf) for leaf in leaves]
        return jax.tree.unflatten(self._world_form, concrete)

    def _play(
        self, fixed: list[Array], state: list[Array], pressed: Int[Array, "agents *choices"]
    ) -> _Played:
        env, partners = eqx.combine(jax.tree.unflatten(self._fixed_form, fixed), self._rest)
        before = eqx.combine(jax.tree.unflatten(self._state_form, state), self._state_rest)
        team = self._team(partners, pressed)
        after, row = play_step(env, team, before)
        return self._played(after, unwrap_state(after.env_state), row["action"], row["reward"])

    def _start(self, key: PRNGKeyArray) -> PlayState:
        nobody = jnp.stack([self.idle] * len(self.partners))
        return start_play(self.env, self._team(self.partners, nobody), key)

    @staticmethod
    def _team(
        partners: Sequence[AbstractPartner | None], pressed: Int[Array, "agents *choices"]
    ) -> tuple[AbstractPartner, ...]:
        return tuple(
            StayPartner(pressed[seat]) if partner is None else partner
            for seat, partner in enumerate(partners)
        )

    @staticmethod
    def _played(state: PlayState, world: PyTree, action: Array, reward: Array) -> _Played:
        leaves = jax.tree.leaves(eqx.filter(state, eqx.is_array))
        returns, finished = state.game.episode_return, state.game.finished
        return _Played(leaves, jax.tree.leaves(world), action, reward, returns, finished)


@final
class LiveGame:
    """A game that is being played by people and partners.

    **Arguments:**

    - `program`: the program of its steps.
    - `seed`: the seed of all randomness of the game.
    - `journal`: where every step is written; `None` for nowhere.
    """

    def __init__(self, program: Program, seed: int, journal: Journal | None = None):
        self._program, self._journal = program, journal
        idle = np.atleast_1d(np.asarray(program.idle)).tolist()
        self.hands = [None if partner else Hands(idle) for partner in program.partners]
        self._nobody = np.stack([np.asarray(program.idle)] * len(self.hands))
        self._now = program.start(seed)
        self.steps = 0

    @property
    def state(self) -> PyTree:
        """The state of the innermost environment, in NumPy arrays."""
        return self._program.world(self._now.world)

    @property
    def scores(self) -> list[float]:
        """The return of each agent so far."""
        return np.asarray(self._now.returns).tolist()

    @property
    def acted(self) -> list[bool]:
        """Whether each agent did anything but stay in the last step."""
        differs = np.asarray(self._now.action) != self._nobody
        return differs.reshape(len(self.hands), -1).any(axis=1).tolist()

    @property
    def finished(self) -> bool:
        """Whether the episode has ended."""
        return bool(self._now.finished)

    def compile(self) -> None:
        """Compiles a step, so that the first one is as fast as the others."""
        jax.block_until_ready(self._program.step(self._now.state, self._nobody))

    def step(self, time: float) -> None:
        """Plays one step with what people have pressed, and writes it down.

        **Arguments:**

        - `time`: the seconds since the game began.
        """
        pressed = self._nobody.copy()
        for seat, hands in enumerate(self.hands):
            if hands is not None:
                pressed[seat] = np.reshape(hands.take(self.steps + 1), pressed[seat].shape)
        self._now = self._program.step(self._now.state, pressed)
        self.steps += 1
        if self._journal is not None:
            action, reward = np.asarray(self._now.action), np.asarray(self._now.reward)
            self._journal.step(StepLine(action.tolist(), reward.tolist(), round(time, 4)))

    def note(self, line: EventLine) -> None:
        """Writes down an event between two steps."""
        if self._journal is not None:
            self._journal.note(line)

    def close(self, end: str, left: Sequence[int] = ()) -> None:
        """Ends the journal; see `EndLine`."""
        if self._journal is not None:
            self._journal.close(end, left)
