"""A game in which people play, step by step; it knows neither clocks nor connections."""

from collections import deque
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from eqgrid import (
    AbstractEnv,
    AbstractPartner,
    MultiDiscrete,
    PlayState,
    PyTree,
    StayPartner,
    play_step,
    start_play,
    unwrap_state,
)

from ._journal import Journal, StepLine

_MOST_WAITING = 2
"""How many presses wait for their steps; a person who presses faster than the clock ticks expects
the last presses to count, but not to wait for them for a second."""


@final
class Hands:
    """What a person presses between two steps."""

    def __init__(self, idle: Sequence[int]):
        """**Arguments:**

        - `idle`: for each choice, the action of somebody who presses nothing.
        """
        self._idle = tuple(idle)
        self._pressed: list[deque[int]] = [deque(maxlen=_MOST_WAITING) for _ in idle]
        self._held: list[int | None] = [None] * len(self._idle)

    def press(self, choice: int, action: int) -> None:
        """Takes an action in the next step, or in the one after it if another press waits."""
        self._pressed[choice].append(action)

    def hold(self, choice: int, action: int | None) -> None:
        """Takes an action in all steps without a press, until it is released with `None`."""
        self._held[choice] = action

    def release(self) -> None:
        """Releases everything."""
        for choice, waiting in enumerate(self._pressed):
            waiting.clear()
            self._held[choice] = None

    def take(self) -> list[int]:
        """The action of each choice in the next step."""
        return [
            waiting.popleft() if waiting else idle if held is None else held
            for waiting, held, idle in zip(self._pressed, self._held, self._idle, strict=True)
        ]


@eqx.filter_jit
def advance(
    env: AbstractEnv, team: tuple[AbstractPartner, ...], state: PlayState
) -> tuple[PlayState, dict[str, PyTree]]:
    """As `play_step`, compiled."""
    return play_step(env, team, state)


@final
class LiveGame:
    """A game that is being played by people and partners.

    **Arguments:**

    - `env`: the environment, with the observations that the partners read.
    - `partners`: the partner in each seat; `None` for a person.
    - `idle`: for each choice, the action of somebody who presses nothing.
    - `seed`: the seed of all randomness of the game.
    - `journal`: where every step is written; `None` for nowhere.
    """

    def __init__(
        self,
        env: AbstractEnv,
        partners: Sequence[AbstractPartner | None],
        idle: Sequence[int],
        seed: int,
        journal: Journal | None = None,
    ):
        self.env, self._partners, self._journal = env, tuple(partners), journal
        self.hands = [None if partner else Hands(idle) for partner in partners]
        self._several = isinstance(env.action_space, MultiDiscrete)
        team = self._team([list(idle)] * len(partners))
        self._play: PlayState = start_play(env, team, jax.random.key(seed))
        self.steps = 0

    @property
    def state(self) -> PyTree:
        """The state of the innermost environment."""
        return unwrap_state(self._play.env_state)

    @property
    def score(self) -> float:
        """The return so far, the mean over the agents."""
        return float(np.asarray(self._play.game.episode_return).mean())

    @property
    def finished(self) -> bool:
        """Whether the episode has ended."""
        return bool(self._play.game.finished)

    def compile(self) -> None:
        """Compiles a step, so that the first one is as fast as the others."""
        jax.block_until_ready(advance(self.env, self._team([[0]] * len(self.hands)), self._play))

    def step(self, time: float) -> None:
        """Plays one step with what people have pressed, and writes it down.

        **Arguments:**

        - `time`: the seconds since the game began.
        """
        taken = [[] if hands is None else hands.take() for hands in self.hands]
        self._play, row = advance(self.env, self._team(taken), self._play)
        self.steps += 1
        if self._journal is not None:
            action, reward = np.asarray(row["action"]), np.asarray(row["reward"])
            self._journal.step(StepLine(action.tolist(), reward.tolist(), round(time, 4)))

    def close(self, end: str) -> None:
        """Ends the journal; see `EndLine`."""
        if self._journal is not None:
            self._journal.close(end)

    def _team(self, taken: Sequence[Sequence[int]]) -> tuple[AbstractPartner, ...]:
        return tuple(
            StayPartner(self._action(own)) if partner is None else partner
            for partner, own in zip(self._partners, taken, strict=True)
        )

    def _action(self, taken: Sequence[int]) -> Shaped[Array, "..."]:
        numbers = jnp.asarray(np.asarray(taken, np.int32))
        return numbers if self._several else numbers[0]
