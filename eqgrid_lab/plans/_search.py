"""A search for better games of a team, with the environment as its model."""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped, UInt32, UInt64

from agents import TrainedPolicy
from eqgrid import Discrete
from eqgrid.grid import AbstractGridWorld, World

from ._distil import recite, repeat

_Names: TypeAlias = UInt64[np.ndarray, " states"]
_Rows: TypeAlias = Int[np.ndarray, " states"]

_STEPS = 10
"""The number of steps that a policy takes at once."""
_BATCH = 256
"""The number of games that are played at once."""
_CLOSE = 1e-3
"""Values that differ by less are equal."""
_NOISE, _OFF_DEPTH = (0.4, 0.13), 40
"""The shares of random actions in games that lead away from the best one, and the number of steps
of a search from there."""


@final
class Reached(NamedTuple):
    """States after a step.

    - `worlds`: the states, with the time 0.
    - `names`: two hashes of each state, in which the time does not count.
    - `rewards`: the reward of the team for the step.
    - `actions`: the number of the joint action.
    """

    worlds: World
    names: UInt32[Array, "*batch 2"]
    rewards: Float[Array, "*batch"]
    actions: Int[Array, "*batch"]


@final
class Search:
    """All states that a search has met, what each of them is worth, and the best actions there.

    A state is worth the discounted return of the best known continuation: at first the return of
    a policy (Tesauro and Galperin 1996, "On-line Policy Improvement using Monte-Carlo Search"), and
    then what follows from Bellman's equation for the states that were met (Barto et al. 1995,
    "Learning to Act using Real-Time Dynamic Programming"). Most games of the policy soon come to a
    state that is known already, which makes them cheap.

    **Arguments:**

    - `env`: a world in which nothing happens by chance and no reward is negative, with the
        observation of the policy.
    - `policy`: a policy without memory, which takes its most probable actions.
    - `discount`: what a reward is worth a step later.
    """

    PARTS = 5
    """How many times `explore` searches."""

    def __init__(self, env: AbstractGridWorld, policy: TrainedPolicy, discount: float = 0.99):
        self.env, self.policy, self.discount = env, policy, discount
        self._rows: dict[int, int] = {}  # of the next four arrays, by the names of states
        self._value = np.zeros(1024, np.float32)
        self._next = np.full(1024, -1)  # the row of the state to which the policy goes
        self._paid = np.zeros(1024, np.float32)  # for the step there
        self._tried = np.full(1024, -1)  # the place in the two lists below, if it has one
        self._successors: list[Int[np.ndarray, " joint"]] = []
        self._rewards: list[Float[np.ndarray, " joint"]] = []

    @property
    def num_states(self) -> int:
        """The number of states that were met."""
        return len(self._rows)

    @property
    def num_tried(self) -> int:
        """The number of states in which all joint actions were tried."""
        return len(self._successors)

    def explore(
        self,
        start: World,
        beam: int,
        depth: int,
        seed: int,
        report: Callable[[int], None] = lambda number: None,
    ) -> None:
        """Searches from a state, from states away from the best game, and from that state again.

        **Arguments:**

        - `start`: the state.
        - `beam`, `depth`: as in `search`.
        - `seed`: of the states away from the best game.
        - `report`: called after each of the `PARTS` with its number from 1.
        """
        rng = np.random.default_rng(seed)
        for number in (1, 2):
            self.search(repeat(start, 1), beam, depth)
            report(number)
        for number, noise in enumerate(_NOISE, start=3):
            games = recite(self.env, self.label, repeat(start, 16), noise)
            worlds = [jax.tree.map(np.asarray, worlds) for worlds, *_ in games]
            away = jax.tree.map(lambda *x: np.concatenate(x), *worlds)
            drawn = rng.integers(len(away.time), size=max(1, beam // 2))
            self.search(_take(away, drawn), beam, _OFF_DEPTH)
            report(number)
        self.search(repeat(start, 1), beam, depth)
        report(self.PARTS)

    def search(self, starts: World, beam: int, depth: int) -> None:
        """Tries all joint actions in the most promising states, step by step, and computes what all
        states are worth.

        **Arguments:**

        - `starts`: at most `beam` states.
        - `beam`: the number of states that are kept in each step: those through which most can be
            earned beyond what their start was worth before.
        - `depth`: the number of steps.
        """
        worlds, rows = starts, self._meet(starts, _names_of(starts))
        gained = -self._value[rows].astype(float)  # rewards so far, less what the start was worth
        for time in range(depth):
            after = _try_all(self.env, _pad(worlds, beam))
            lanes = len(rows) * self._joint
            rewards = np.asarray(after.rewards)[:lanes]
            found = self._meet(after.worlds, _numbers(after.names)[:lanes])
            self._connect(rows, found, rewards)
            gains = np.repeat(gained, self._joint) + self.discount**time * rewards
            promise = gains + self.discount ** (time + 1) * self._value[found]
            order = np.argsort(-promise, kind="stable")
            first = np.sort(np.unique(found[order], return_index=True)[1])  # of equal states
            best = order[first[:beam]]
            worlds, gained, rows = _take(after.worlds, best), gains[best], found[best]
        self._evaluate()

    def label(self, worlds: World) -> Int[np.ndarray, "*states agents"]:
        """The best known actions: the actions of the policy where nothing else is better, or
        where the search has not been.
        """
        shape = np.shape(worlds.time)
        worlds = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[len(shape) :]), worlds)
        joint = np.array(_follow(self.env, self.policy, worlds, 1).actions)[:, 0]
        rows = np.array([self._rows.get(name, -1) for name in _names_of(worlds).tolist()])
        tried = np.where(rows < 0, -1, self._tried[rows])
        for lane in np.flatnonzero(tried >= 0):
            number = tried[lane]
            values = self._rewards[number] + self.discount * self._value[self._successors[number]]
            if values.max() > values[joint[lane]] + _CLOSE:
                joint[lane] = values.argmax()
        actions = np.unravel_index(joint, _choices(self.env))
        return np.stack(actions, axis=-1).reshape(*shape, -1)

    def worth(self, worlds: World) -> Float[np.ndarray, " states"]:
        """What states are worth, of the best way that is known.

        **Raises:** `KeyError` when the search has not met one.
        """
        return self._value[[self._rows[name] for name in _names_of(worlds).tolist()]]

    def best_return(self, world: World, steps: int) -> float:
        """The largest return of some steps from a state, if only ways that are known are taken.

        **Raises:** `KeyError` when the search has not met the state.
        """
        start = self._rows[_names_of(repeat(world, 1)).item()]
        value = np.zeros(self.num_states, np.float32)
        rows, successors, rewards = self._all_tried()
        for _ in range(steps):
            after = self._paid[: len(value)] + value[self._next[: len(value)]]
            after[rows] = np.maximum(after[rows], (rewards + value[successors]).max(axis=-1))
            value = after
        return float(value[start])

    @property
    def _joint(self) -> int:
        return math.prod(_choices(self.env))

    def _all_tried(
        self,
    ) -> tuple[_Rows, Int[np.ndarray, "states joint"], Float[np.ndarray, "states joint"]]:
        """The states where all actions were tried, their successors, and the rewards."""
        rows = np.flatnonzero(self._tried >= 0)
        number = self._tried[rows]
        return rows, np.stack(self._successors)[number], np.stack(self._rewards)[number]

    def _evaluate(self) -> None:
        """Solves Bellman's equation for the states that were met."""
        size, (rows, successors, rewards) = self.num_states, self._all_tried()
        change = np.inf
        while change > _CLOSE:
            before = self._value[:size].copy()
            policy = self._paid[:size] + self.discount * before[self._next[:size]]
            self._value[:size] = np.maximum(before, policy)
            best = (rewards + self.discount * self._value[successors]).max(axis=-1)
            self._value[rows] = np.maximum(self._value[rows], best)
            change = np.abs(self._value[:size] - before).max()

    def _connect(
        self, rows: _Rows, found: Int[np.ndarray, " lanes"], rewards: Float[np.ndarray, " lanes"]
    ) -> None:
        """Keeps what follows from states, if it is not known yet."""
        found, rewards = found.reshape(-1, self._joint), rewards.reshape(-1, self._joint)
        for row, after, paid in zip(rows, found, rewards, strict=True):
            if self._tried[row] < 0:
                self._tried[row] = self.num_tried
                self._successors.append(after)
                self._rewards.append(paid.astype(np.float32))

    def _meet(self, worlds: World, names: _Names) -> _Rows:
        """The rows of states. From new ones, the policy plays until it comes to known ones."""
        unique, first = np.unique(names, return_index=True)
        new = first[[name not in self._rows for name in unique.tolist()]]
        for begin in range(0, len(new), _BATCH):
            lanes = new[begin : begin + _BATCH]
            self._play(_take(worlds, lanes), names[lanes])
        return np.array([self._rows[name] for name in names.tolist()])

    def _play(self, worlds: World, names: _Names) -> None:
        """Plays games of the policy until all of them repeat themselves, or come to known states.
        One of them must happen, since nothing is left to chance.
        """
        games: list[tuple[list[int], list[float]]] = [([name], []) for name in names.tolist()]
        going = np.arange(len(games))
        while len(going):
            after = _follow(self.env, self.policy, _pad(worlds, _BATCH), _STEPS)
            found, paid = _numbers(after.names), np.asarray(after.rewards)
            lanes = [
                lane
                for lane, game in enumerate(going)
                if self._goes_on(*games[game], found[lane], paid[lane])
            ]
            going = going[lanes]
            worlds = jax.tree.map(lambda x, on=lanes: np.asarray(x)[on, -1], after.worlds)
        for path, rewards in games:
            self._remember(path, rewards)

    def _goes_on(
        self,
        path: list[int],
        rewards: list[float],
        names: _Names,
        paid: Float[np.ndarray, " states"],
    ) -> bool:
        """Adds steps to a game, until it comes to a state that is known, or that was in it."""
        met = set(path)
        for name, reward in zip(names.tolist(), paid.tolist(), strict=True):
            path.append(name)
            rewards.append(reward)
            if name in self._rows or name in met:
                return False
            met.add(name)
        return True

    def _remember(self, path: list[int], rewards: list[float]) -> None:
        """Keeps a game whose last state is known or was in it before."""
        lap = rewards[path.index(path[-1]) :] if path[-1] not in self._rows else []
        rows = [self._rows.setdefault(name, self.num_states) for name in path]
        while self.num_states > len(self._value):
            self._value, self._paid = _doubled(self._value, 0), _doubled(self._paid, 0)
            self._next, self._tried = _doubled(self._next, -1), _doubled(self._tried, -1)
        if lap:  # the game goes round for ever
            once = sum(self.discount**time * reward for time, reward in enumerate(lap))
            self._value[rows[-1]] = once / (1 - self.discount ** len(lap))
        for row, after, reward in reversed(list(zip(rows[:-1], rows[1:], rewards, strict=True))):
            if self._next[row] < 0:
                self._next[row], self._paid[row] = after, reward
            self._value[row] = max(self._value[row], reward + self.discount * self._value[after])


def _doubled(x: Shaped[np.ndarray, " rows"], fill: int) -> Shaped[np.ndarray, " more"]:
    """An array with the same number of further entries."""
    return np.concatenate([x, np.full_like(x, fill)])


def _choices(env: AbstractGridWorld) -> tuple[int, ...]:
    assert isinstance(env.action_space, Discrete)
    return (env.action_space.n,) * env.num_agents


def _step(env: AbstractGridWorld, world: World, joint: Int[Array, ""]) -> Reached:
    action = jnp.stack(jnp.unravel_index(joint, _choices(env)))
    timestep, after = env.step(jax.random.key(0), world, action.astype(jnp.int32))
    after = eqx.tree_at(lambda world: world.time, after, jnp.zeros_like(after.time))
    return Reached(after, _name(after), timestep.reward.mean(), joint)


@eqx.filter_jit
def _try_all(env: AbstractGridWorld, worlds: World) -> Reached:
    """The states after all joint actions in some states, those after the first state first."""
    joint = jnp.arange(math.prod(_choices(env)))
    after = jax.vmap(lambda world: jax.vmap(lambda one: _step(env, world, one))(joint))(worlds)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), after)


@eqx.filter_jit
def _follow(env: AbstractGridWorld, policy: TrainedPolicy, worlds: World, steps: int) -> Reached:
    """The states to which a policy goes in some steps."""

    def one(world: World, _: None) -> tuple[World, Reached]:
        action, _ = policy.act(env.observe(world), policy.initial_carry(), None, greedy=True)
        joint = jnp.ravel_multi_index(tuple(action), _choices(env), mode="clip")
        after = _step(env, world, joint)
        return after.worlds, after

    return jax.vmap(lambda world: jax.lax.scan(one, world, None, length=steps)[1])(worlds)


def _name(world: World) -> UInt32[Array, "2"]:
    """Two hashes of all numbers of a state but its time, each of 32 bits."""
    rest = jax.tree.leaves(eqx.tree_at(lambda world: world.time, world, None))
    flat = jnp.concatenate([x.astype(jnp.uint32).reshape(-1) for x in rest])
    factors = np.random.default_rng(0).integers(1, 2**32, (2, flat.size), np.uint32) | 1
    mixed = (flat + 1) * jnp.uint32(2654435761)
    mixed = (mixed ^ (mixed >> 15))[None]
    total = (jnp.asarray(factors) * mixed).sum(axis=-1, dtype=jnp.uint32)
    total = (total ^ (total >> 13)) * jnp.uint32(2246822519)
    return total ^ (total >> 16)


_all_names = eqx.filter_jit(jax.vmap(_name))


def _names_of(worlds: World) -> _Names:
    return _numbers(_all_names(worlds))


def _numbers(names: UInt32[Array, "*batch 2"]) -> UInt64[np.ndarray, "*batch"]:
    both = np.asarray(names).astype(np.uint64)
    return both[..., 0] << np.uint64(32) | both[..., 1]


def _take(worlds: World, lanes: Int[np.ndarray, " lanes"]) -> World:
    return jax.tree.map(lambda x: np.asarray(x)[lanes], worlds)


def _pad(worlds: World, size: int) -> World:
    """Repeats the last state, so that one program computes any number of states."""
    more = size - len(worlds.time)
    return jax.tree.map(lambda x: np.concatenate([x, np.repeat(x[-1:], more, axis=0)]), worlds)
