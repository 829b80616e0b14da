"""A game in which people play, step by step, without clocks or connections; and what they do apart
from the recorded actions: their connections.
"""

import dataclasses
import threading
from collections import deque
from collections.abc import Callable, Sequence
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
    ConstantPartner,
    PlayState,
    play_step,
    start_play,
    unwrap_state,
)
from eqgrid.typing import PyTree

from ._journal import EventLine, FrameLine, Journal, KeyLine, StepLine

_MOST_KEYS = 40_000
"""The maximum number of key presses and releases of a person in the journal of a game."""


@final
@dataclasses.dataclass
class Conduct:
    """The behaviour of a person in a game.

    - `actions`: the number of steps in which the person acted.
    - `longest_idle`: the largest number of consecutive steps in which the person did not act.
    - `disconnections`: the number of connections that were lost while the server ran normally.
    - `reloads`: how often the person closed or reloaded the page and came back.
    - `hidden`: how often the page was hidden, as by another tab.
    - `hidden_s`: the number of seconds for which the page was hidden.
    - `absent`: why the page is not connected: `absent` if it never was, `closed` by the person,
        `lost`, as by a network failure, or `replaced` by another window; empty while it is
        connected.
    - `left`: how the person left the game, and when, in seconds since the game began.
    """

    actions: int = 0
    longest_idle: int = 0
    disconnections: int = 0
    reloads: int = 0
    hidden: int = 0
    hidden_s: float = 0.0
    absent: str = "absent"
    left: tuple[str, float | None] | None = None
    _idle: int = 0
    _hidden_since: float | None = None

    def step(self, acted: bool) -> None:
        """Records whether the person acted in a step."""
        self.actions += acted
        self._idle = 0 if acted else self._idle + 1
        self.longest_idle = max(self.longest_idle, self._idle)

    def connect(self) -> None:
        """Records that the page is connected."""
        self.reloads += self.absent == "closed"
        self.absent = ""

    def disconnect(self, why: str, now: float, *, excused: bool = False) -> None:
        """Records that the page is no longer connected.

        **Arguments:**

        - `why`: as in `absent`.
        - `now`: the time in seconds.
        - `excused`: whether the server itself was too slow, so that no disconnection is counted.
        """
        self.absent = why
        self.disconnections += why == "lost" and not excused
        if why != "lost":  # a hidden page that lost its connection is still hidden
            self.hide(False, now)

    def hide(self, on: bool, now: float) -> None:
        """Records that the page was hidden (`on`), or is visible again."""
        if self._hidden_since is not None:
            self.hidden_s += now - self._hidden_since
        elif on:
            self.hidden += 1
        self._hidden_since = now if on else None


STEPS_AHEAD = 4
"""For how many steps slow pages know the future: enough for a latency of half a second at six
steps per second.
"""
_MOST_QUEUED = 2
"""The maximum number of presses in the queue of a choice. A person who presses faster than the
clock ticks expects the last presses to count, without a delay of many steps.
"""
_MOST_SILENT = 1
"""The maximum number of consecutive steps without a message in which a held key still counts."""


class _Press(NamedTuple):
    """A press that waits for its step: see `Hands.press`. `steps` is the number of steps before the
    press; -1 for a repetition of a key that was held down.
    """

    action: int
    number: int
    key: int | None
    steps: int


@final
class Taken(NamedTuple):
    """The action of a person in a step.

    - `actions`: the action of each choice.
    - `source`, `keys`: as in `StepLine`.
    """

    actions: list[int]
    source: str
    keys: tuple[int, ...] = ()


@final
class Hands:
    """The keys and buttons that a person presses between two steps, and the person's `Conduct`."""

    def __init__(self, idle: Sequence[int]):
        """**Arguments:**

        - `idle`: the action of a person who presses no key, for each choice.
        """
        self._idle = tuple(idle)
        self._pressed: list[deque[_Press]] = [deque(maxlen=_MOST_QUEUED) for _ in idle]
        self._held: list[int | None] = [None] * len(self._idle)
        self._steps, self._silent_steps, self._heard = 0, 0, False
        self._numbered = 0  # the number of the last press or repetition, taken or queued
        self.taken = 0
        """The number of the last press or repetition that a step has used."""
        self.conduct = Conduct()

    def hear(self) -> None:
        """Records that the page has sent a message, of any kind."""
        self._heard = True

    def press(self, choice: int, action: int, number: int = 0, key: int | None = None) -> None:
        """Queues an action for the next step, or for a later step if the queue is not empty.

        **Arguments:**

        - `choice`, `action`: as in `Control`.
        - `number`: as in `Press`.
        - `key`: the number of the key press in the journal, if keys are recorded.
        """
        self._repeat(number - 1)
        self._numbered = max(self._numbered, number)
        self._pressed[choice].append(_Press(action, number, key, self._steps))

    def hold(self, choice: int, action: int | None, number: int = 0) -> None:
        """Repeats an action in all steps without a press, until a call with `None`, or until the
        page has been silent for a step.

        **Arguments:**

        - `choice`, `action`: as in `Control`.
        - `number`: as in `Hold`.
        """
        self._repeat(number)
        self._held[choice] = action

    def _repeat(self, number: int) -> None:
        """Queues the repetitions that the page has already shown, up to this number. The page
        repeats a held action by its own clock, and may thus be ahead of the server when the key is
        released.
        """
        for choice, action in enumerate(self._held):
            if action is not None:
                for own in range(max(self._numbered, number - _MOST_QUEUED) + 1, number + 1):
                    self._pressed[choice].append(_Press(action, own, None, -1))
        self._numbered = max(self._numbered, number)

    def release(self) -> None:
        """Releases all keys, and empties the queues."""
        for choice, waiting in enumerate(self._pressed):
            waiting.clear()
            self._held[choice] = None

    def take(self) -> Taken:
        """Takes the action of each choice for the next step."""
        self._silent_steps = 0 if self._heard else self._silent_steps + 1
        is_silent = self._silent_steps > _MOST_SILENT
        actions = list(self._idle) if is_silent else self._without_presses()
        used: list[_Press] = []
        for choice, waiting in enumerate(self._pressed):
            if waiting:
                used.append(waiting.popleft())
                actions[choice] = used[-1].action
            elif actions[choice] == self._held[choice]:
                self._numbered += 1
                self.taken = self._numbered
        source = self._source(used)
        self.taken = max([self.taken, *(press.number for press in used)])
        self._steps, self._heard = self._steps + 1, False
        self.conduct.step(tuple(actions) != self._idle)
        return Taken(actions, source, tuple(x.key for x in used if x.key is not None))

    def expect(self, steps: int) -> list[list[int]]:
        """The actions of the next steps if the page sends nothing else."""
        held = self._without_presses()
        queues = [[press.action for press in waiting] for waiting in self._pressed]
        return [
            [own[step] if step < len(own) else x for own, x in zip(queues, held, strict=True)]
            for step in range(steps)
        ]

    def _without_presses(self) -> list[int]:
        """The action of each choice in a step that uses no press."""
        held = zip(self._idle, self._held, strict=True)
        return [idle if action is None else action for idle, action in held]

    def _source(self, used: Sequence[_Press]) -> str:
        """The source of the next action, as in `StepLine`, if it uses these presses."""
        if own := [press for press in used if press.steps >= 0]:
            return "press" if all(press.steps == self._steps for press in own) else "queue"
        if used:
            return "hold"
        if not self._heard:
            return "silence"
        return "none" if all(action is None for action in self._held) else "hold"


class _StepResult(NamedTuple):
    """The result of a step.

    - `state`: the leaves of the next `PlayState`.
    - `world`: the leaves of the next state of the innermost environment.
    - `action`, `reward`: of each agent in the step.
    - `returns`: the return of each agent so far.
    - `finished`: whether the episode has ended.
    """

    state: list[Array]
    world: list[Array]
    action: Array
    reward: Array
    returns: Array
    finished: Array


@final
class Program:
    """The compiled step function of all games in one world with the same partners.

    The function takes and returns lists of arrays: a call with lists takes a third of the time of a
    call with Modules.
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
        - `idle`: the action of a person who presses no key.
        """
        self.env, self.partners, self.idle = env, tuple(partners), idle
        fixed, self._rest = eqx.partition((env, self.partners), eqx.is_array)
        self._fixed, self._fixed_structure = jax.tree.flatten(fixed)
        state, self._state_rest = eqx.partition(self._start(jax.random.key(0)), eqx.is_array)
        self._state_structure = jax.tree.structure(state)
        world = unwrap_state(eqx.combine(state, self._state_rest).env_state)
        self._world_structure = jax.tree.structure(world)
        self._step = jax.jit(self._play)
        self._ahead: Callable[..., list[Array]] | None = None
        self._compiling: threading.Thread | None = None

    def start(self, seed: int) -> _StepResult:
        """Starts a game. **Returns:** a result as if all agents had stayed in a step."""
        state = self._start(jax.random.key(seed))
        nothing = jnp.zeros(self.env.num_agents)
        actions = jnp.stack([self.idle] * len(self.partners))
        return self._result(state, unwrap_state(state.env_state), actions, nothing)

    def step(self, state: list[Array], pressed: Int[np.ndarray, "agents *choices"]) -> _StepResult:
        """Plays a step.

        **Arguments:**

        - `state`: the leaves of the `PlayState` before the step.
        - `pressed`: the actions of all people; the actions of other seats have no effect.
        """
        return self._step(self._fixed, state, pressed)

    def ahead(
        self, state: list[Array], pressed: Int[np.ndarray, "steps branches agents *choices"]
    ) -> list[Array] | None:
        """Looks at the next steps.

        **Arguments:**

        - `state`: the leaves of the `PlayState`.
        - `pressed`: possible actions of the people in each step. Each step follows from the first
            ones in the step before.

        **Returns:** the leaves of the states of the innermost environment, with axes of steps and
        branches. `None` in the first seconds, while another thread compiles, and always if a
        partner acts outside JAX, because a program must not see steps that are not played.
        """
        if self._compiling is None:
            arguments = self._fixed, state, pressed
            self._compiling = threading.Thread(target=self._compile_ahead, args=arguments)
            self._compiling.start()
        return None if self._ahead is None else self._ahead(self._fixed, state, pressed)

    def _compile_ahead(self, *arguments: PyTree) -> None:
        traced = jax.jit(self._play_ahead).trace(*arguments)
        if "callback" not in str(traced.jaxpr):
            self._ahead = traced.lower().compile()

    def _play_ahead(
        self,
        fixed: list[Array],
        state: list[Array],
        pressed: Int[Array, "steps branches agents *choices"],
    ) -> list[Array]:
        def step(
            state: list[Array], own: Int[Array, "branches agents *choices"]
        ) -> tuple[list[Array], list[Array]]:
            after = jax.vmap(self._play, in_axes=(None, None, 0))(fixed, state, own)
            return [x[0] for x in after.state], after.world

        return jax.lax.scan(step, state, pressed)[1]

    @property
    def is_compiling(self) -> bool:
        """Whether `ahead` is being compiled."""
        return self._compiling is not None and self._compiling.is_alive()

    def world(self, leaves: Sequence[Array]) -> PyTree:
        """The state of the innermost environment in NumPy arrays, from its leaves."""
        concrete = [leaf if is_key(leaf) else np.asarray(leaf) for leaf in leaves]
        return jax.tree.unflatten(self._world_structure, concrete)

    def _play(
        self, fixed: list[Array], state: list[Array], pressed: Int[Array, "agents *choices"]
    ) -> _StepResult:
        env, partners = eqx.combine(jax.tree.unflatten(self._fixed_structure, fixed), self._rest)
        before = eqx.combine(jax.tree.unflatten(self._state_structure, state), self._state_rest)
        team = self._team(partners, pressed)
        after, row = play_step(env, team, before)
        return self._result(after, unwrap_state(after.env_state), row["action"], row["reward"])

    def _start(self, key: PRNGKeyArray) -> PlayState:
        idle = jnp.stack([self.idle] * len(self.partners))
        return start_play(self.env, self._team(self.partners, idle), key)

    @staticmethod
    def _team(
        partners: Sequence[AbstractPartner | None], pressed: Int[Array, "agents *choices"]
    ) -> tuple[AbstractPartner, ...]:
        return tuple(
            ConstantPartner(pressed[seat]) if partner is None else partner
            for seat, partner in enumerate(partners)
        )

    @staticmethod
    def _result(state: PlayState, world: PyTree, action: Array, reward: Array) -> _StepResult:
        leaves = jax.tree.leaves(eqx.filter(state, eqx.is_array))
        returns, finished = state.game.episode_return, state.game.finished
        return _StepResult(leaves, jax.tree.leaves(world), action, reward, returns, finished)


@final
class LiveGame:
    """A game that is being played by people and partners.

    **Arguments:**

    - `program`: the compiled steps.
    - `seed`: the seed of all randomness of the game.
    - `journal`: the journal of every step; `None` to write nothing.
    """

    def __init__(self, program: Program, seed: int, journal: Journal | None = None):
        self._program, self._journal = program, journal
        idle = np.atleast_1d(np.asarray(program.idle)).tolist()
        self.hands = [None if partner else Hands(idle) for partner in program.partners]
        self._idle_actions = np.stack([np.asarray(program.idle)] * len(self.hands))
        self._latest = program.start(seed)
        self.finished = False
        """Whether the episode has ended."""
        self._num_keys = [0] * len(self.hands)
        self.steps = 0

    @property
    def state(self) -> PyTree:
        """The state of the innermost environment, in NumPy arrays."""
        return self._program.world(self._latest.world)

    @property
    def scores(self) -> list[float]:
        """The return of each agent so far."""
        return np.asarray(self._latest.returns).tolist()

    @property
    def acted(self) -> list[bool]:
        """Whether each agent did anything but stay in the last step."""
        differs = np.asarray(self._latest.action) != self._idle_actions
        return differs.reshape(len(self.hands), -1).any(axis=1).tolist()

    def ahead(
        self, actions: Int[np.ndarray, "actions *choices"]
    ) -> PyTree[Shaped[np.ndarray, "steps 1+actions ..."]] | None:
        """The states of the innermost environment after the next `STEPS_AHEAD` steps of a game of
        one person.

        **Arguments:**

        - `actions`: actions of the person to try in each step, after the steps that are expected.

        **Returns:** the state after the expected action (see `Hands.expect`), and after each of
        `actions` in place of it. `None` as in `Program.ahead`, and if several people play.
        """
        people = [(seat, hands) for seat, hands in enumerate(self.hands) if hands is not None]
        if len(people) != 1:
            return None
        ((seat, hands),) = people
        shape = (STEPS_AHEAD, 1 + len(actions), *self._idle_actions.shape)
        pressed = np.broadcast_to(self._idle_actions, shape).copy()
        expected = np.asarray(hands.expect(STEPS_AHEAD), pressed.dtype)
        pressed[:, 0, seat] = expected.reshape(pressed[:, 0, seat].shape)
        pressed[:, 1:, seat] = actions
        found = self._program.ahead(self._latest.state, pressed)
        return None if found is None else self._program.world(found)

    @property
    def is_compiling(self) -> bool:
        """Whether `ahead` is being compiled."""
        return self._program.is_compiling

    def compile(self) -> None:
        """Compiles the step function, so that the first step is as fast as all others."""
        jax.block_until_ready(self._program.step(self._latest.state, self._idle_actions))

    def step(self, time: float) -> None:
        """Plays one step with the actions that people have pressed, and appends it to the journal.

        **Arguments:**

        - `time`: the seconds since the game began.
        """
        pressed = self._idle_actions.copy()
        taken = [None if hands is None else hands.take() for hands in self.hands]
        for seat, own in enumerate(taken):
            if own is not None:
                pressed[seat] = np.reshape(own.actions, pressed[seat].shape)
        self._latest = self._program.step(self._latest.state, pressed)
        self.finished = bool(self._latest.finished)
        self.steps += 1
        if self._journal is not None:
            action, reward = np.asarray(self._latest.action), np.asarray(self._latest.reward)
            source = ["" if own is None else own.source for own in taken]
            keys = [key for own in taken if own is not None for key in own.keys]
            rows = action.tolist(), reward.tolist()
            self._journal.add(StepLine(*rows, round(time, 4), source, keys))

    def note(self, line: EventLine | FrameLine | KeyLine) -> None:
        """Appends a line between two steps to the journal, unless it is closed."""
        if self._journal is not None:
            self._journal.add(line)

    def note_key(self, line: KeyLine) -> int | None:
        """Appends a key press or release to the journal.

        **Returns:** its number among all keys of the journal, from 0; `None` if the journal has too
        many keys of this person.
        """
        if self._num_keys[line.seat] >= _MOST_KEYS:
            return None
        self.note(line)
        self._num_keys[line.seat] += 1
        return sum(self._num_keys) - 1

    def close(self, end: str, left: Sequence[int] = ()) -> None:
        """Appends the last line to the journal and closes it; see `EndLine`."""
        if self._journal is not None:
            journal, self._journal = self._journal, None
            journal.close(end, left)
