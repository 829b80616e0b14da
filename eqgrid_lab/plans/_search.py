"""A search for better joint actions than those of a policy, with the environment as its model."""

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

from ._distil import play_teacher, repeat

_Hashes: TypeAlias = UInt64[np.ndarray, " states"]
_Rows: TypeAlias = Int[np.ndarray, " states"]

_STEPS = 10
"""The number of steps of the policy in one call of a compiled program."""
_BATCH = 256
"""The number of games that one call of a compiled program plays."""
_TOLERANCE = 1e-3
"""Values that differ by less than this count as equal."""
_NOISE, _NOISY_DEPTH = (0.4, 0.13), 40
"""The shares of random actions in the games that lead away from the best game, and the depth of the
searches from states of these games."""


@final
class Reached(NamedTuple):
    """States after a step.

    - `worlds`: the states, with the time 0.
    - `hashes`: two hashes of each state, of 32 bits each, which do not depend on the time.
    - `rewards`: the reward of the team for the step.
    - `actions`: the index of the joint action.
    """

    worlds: World
    hashes: UInt32[Array, "*batch 2"]
    rewards: Float[Array, "*batch"]
    actions: Int[Array, "*batch"]


@final
class Search:
    """The values of all states that a search has visited, and the best known actions in them.

    The value of a state is the discounted return of its best known continuation. At first, that is
    the continuation by a policy (Tesauro and Galperin 1996, "On-line Policy Improvement using
    Monte-Carlo Search"). Then Bellman's equation is solved for the visited states (Barto et al.
    1995, "Learning to Act using Real-Time Dynamic Programming"). A game of the policy ends at the
    first state with a known value, so most games are short.

    **Arguments:**

    - `env`: a deterministic world without negative rewards, with the observation of the policy.
    - `policy`: a policy without memory, which takes its most probable actions.
    - `discount`: the factor of the rewards of the next step.
    """

    PARTS = 5
    """The number of searches in `explore`."""

    def __init__(self, env: AbstractGridWorld, policy: TrainedPolicy, discount: float = 0.99):
        self.env, self.policy, self.discount = env, policy, discount
        # Each visited state has a row, the same in four arrays, which grow by doubling.
        self._rows: dict[int, int] = {}  # by the hashes of states
        self._value = np.zeros(1024, np.float32)
        self._policy_next = np.full(1024, -1)  # the row of the state after a step of the policy
        self._policy_reward = np.zeros(1024, np.float32)  # for that step
        self._expanded = np.full(1024, -1)  # an index into the two lists, or -1
        # The states in which all joint actions were tried: the rows of the next states, and the
        # rewards.
        self._successors: list[Int[np.ndarray, " joint"]] = []
        self._rewards: list[Float[np.ndarray, " joint"]] = []

    @property
    def num_states(self) -> int:
        """The number of visited states."""
        return len(self._rows)

    @property
    def num_expanded(self) -> int:
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
        """Runs five searches: two from a state, two from states of games with random actions, and
        one more from the state.

        **Arguments:**

        - `start`: the state.
        - `beam`, `depth`: as in `search`. The two searches from noisy games start in
            `beam // 2` states (at least 1), and have a depth of 40.
        - `seed`: the seed of the choice of states of noisy games.
        - `report`: called after each of the `PARTS` with its number from 1.
        """
        rng = np.random.default_rng(seed)
        for number in (1, 2):
            self.search(repeat(start, 1), beam, depth)
            report(number)
        for number, noise in enumerate(_NOISE, start=3):
            games = play_teacher(self.env, self.best_actions, repeat(start, 16), noise)
            worlds = [jax.tree.map(np.asarray, worlds) for worlds, *_ in games]
            noisy = jax.tree.map(lambda *x: np.concatenate(x), *worlds)
            sample = rng.integers(len(noisy.time), size=max(1, beam // 2))
            self.search(_take(noisy, sample), beam, _NOISY_DEPTH)
            report(number)
        self.search(repeat(start, 1), beam, depth)
        report(self.PARTS)

    def search(self, starts: World, beam: int, depth: int) -> None:
        """Tries all joint actions in the most promising states, step by step, and updates the
        values of all visited states.

        **Arguments:**

        - `starts`: at most `beam` states.
        - `beam`: the number of states to keep in each step: those that improve most on the previous
            value of their start.
        - `depth`: the number of steps.
        """
        worlds, rows = starts, self._visit(starts, _hashes_of(starts))
        # Discounted rewards so far, minus the previous value of the start.
        gained = -self._value[rows].astype(float)
        for time in range(depth):
            after = _try_all(self.env, _pad(worlds, beam))
            lanes = len(rows) * self._num_joint  # the others are padding
            rewards = np.asarray(after.rewards)[:lanes]
            successors = self._visit(after.worlds, _as_integers(after.hashes)[:lanes])
            self._add_successors(rows, successors, rewards)
            gains = np.repeat(gained, self._num_joint) + self.discount**time * rewards
            improvement = gains + self.discount ** (time + 1) * self._value[successors]
            order = np.argsort(-improvement, kind="stable")
            # Equal states are kept once, in the lane with the largest improvement.
            first = np.sort(np.unique(successors[order], return_index=True)[1])
            best = order[first[:beam]]
            worlds, gained, rows = _take(after.worlds, best), gains[best], successors[best]
        self._solve_bellman()

    def best_actions(self, worlds: World) -> Int[np.ndarray, "*states agents"]:
        """The best known actions in states. These are the actions of the policy, unless the search
        has found better ones.
        """
        shape = np.shape(worlds.time)
        worlds = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[len(shape) :]), worlds)
        joint = np.array(_follow(self.env, self.policy, worlds, 1).actions)[:, 0]
        rows = np.array([self._rows.get(name, -1) for name in _hashes_of(worlds).tolist()])
        expanded = np.where(rows < 0, -1, self._expanded[rows])
        for lane in np.flatnonzero(expanded >= 0):
            number = expanded[lane]
            values = self._rewards[number] + self.discount * self._value[self._successors[number]]
            if values.max() > values[joint[lane]] + _TOLERANCE:
                joint[lane] = values.argmax()
        actions = np.unravel_index(joint, _choices(self.env))
        return np.stack(actions, axis=-1).reshape(*shape, -1)

    def values(self, worlds: World) -> Float[np.ndarray, " states"]:
        """The values of visited states.

        **Raises:** `KeyError` when the search has not visited one of the states.
        """
        return self._value[[self._rows[name] for name in _hashes_of(worlds).tolist()]]

    def best_return(self, world: World, steps: int) -> float:
        """The largest known return of a number of steps from a state, without a discount.

        **Raises:** `KeyError` when the search has not visited the state.
        """
        start = self._rows[_hashes_of(repeat(world, 1)).item()]
        value = np.zeros(self.num_states, np.float32)
        rows, successors, rewards = self._all_expanded()
        for _ in range(steps):
            updated = self._policy_reward[: len(value)] + value[self._policy_next[: len(value)]]
            updated[rows] = np.maximum(updated[rows], (rewards + value[successors]).max(axis=-1))
            value = updated
        return float(value[start])

    @property
    def _num_joint(self) -> int:
        """The number of joint actions."""
        return math.prod(_choices(self.env))

    def _all_expanded(
        self,
    ) -> tuple[_Rows, Int[np.ndarray, "states joint"], Float[np.ndarray, "states joint"]]:
        """The states where all joint actions were tried, their successors, and the rewards."""
        rows = np.flatnonzero(self._expanded >= 0)
        number = self._expanded[rows]
        return rows, np.stack(self._successors)[number], np.stack(self._rewards)[number]

    def _solve_bellman(self) -> None:
        """Solves Bellman's equation for the visited states by value iteration."""
        size, (rows, successors, rewards) = self.num_states, self._all_expanded()
        change = np.inf
        while change > _TOLERANCE:
            before = self._value[:size].copy()
            policy = self._policy_reward[:size] + self.discount * before[self._policy_next[:size]]
            self._value[:size] = np.maximum(before, policy)
            best = (rewards + self.discount * self._value[successors]).max(axis=-1)
            self._value[rows] = np.maximum(self._value[rows], best)
            change = np.abs(self._value[:size] - before).max()

    def _add_successors(
        self,
        rows: _Rows,
        successors: Int[np.ndarray, " lanes"],
        rewards: Float[np.ndarray, " lanes"],
    ) -> None:
        """Stores the successors of states, and the rewards, unless they are stored already."""
        shape = (-1, self._num_joint)
        each = zip(rows, successors.reshape(shape), rewards.reshape(shape), strict=True)
        for row, after, reward in each:
            if self._expanded[row] < 0:
                self._expanded[row] = self.num_expanded
                self._successors.append(after)
                self._rewards.append(reward.astype(np.float32))

    def _visit(self, worlds: World, hashes: _Hashes) -> _Rows:
        """The rows of states. New states are added, with the values of games of the policy.

        **Arguments:**

        - `worlds`: the states. Those after the first `len(hashes)` are ignored.
        - `hashes`: their hashes.
        """
        unique, first = np.unique(hashes, return_index=True)
        new = first[[name not in self._rows for name in unique.tolist()]]
        for begin in range(0, len(new), _BATCH):
            lanes = new[begin : begin + _BATCH]
            self._play(_take(worlds, lanes), hashes[lanes])
        return np.array([self._rows[name] for name in hashes.tolist()])

    def _play(self, worlds: World, hashes: _Hashes) -> None:
        """Plays games of the policy from new states, until each game reaches a visited state or
        repeats a state of its own. Every game ends, since world and policy are deterministic.
        """
        games: list[tuple[list[int], list[float]]] = [([name], []) for name in hashes.tolist()]
        unfinished = np.arange(len(games))
        while len(unfinished):
            after = _follow(self.env, self.policy, _pad(worlds, _BATCH), _STEPS)
            hashes, rewards = _as_integers(after.hashes), np.asarray(after.rewards)
            lanes = []  # of the games that continue
            for lane, game in enumerate(unfinished):
                if self._extend(*games[game], hashes[lane], rewards[lane]):
                    lanes.append(lane)
            unfinished = unfinished[lanes]
            worlds = jax.tree.map(lambda x, lanes=lanes: np.asarray(x)[lanes, -1], after.worlds)
        for path, rewards_of_path in games:
            self._store(path, rewards_of_path)

    def _extend(
        self,
        path: list[int],
        rewards: list[float],
        new_hashes: _Hashes,
        new_rewards: Float[np.ndarray, " states"],
    ) -> bool:
        """Appends steps to a game, up to the first state that is visited or repeated.

        **Returns:** whether there is no such state, so that the game continues.
        """
        own = set(path)
        for name, reward in zip(new_hashes.tolist(), new_rewards.tolist(), strict=True):
            path.append(name)
            rewards.append(reward)
            if name in self._rows or name in own:
                return False
            own.add(name)
        return True

    def _store(self, path: list[int], rewards: list[float]) -> None:
        """Stores the states of a game, with values computed backwards from its last state."""
        # If the last state has no row, the game has reached it before, and repeats these rewards.
        loop = rewards[path.index(path[-1]) :] if path[-1] not in self._rows else []
        # A new state has the next row.
        rows = [self._rows.setdefault(name, self.num_states) for name in path]
        while self.num_states > len(self._value):
            self._value = _doubled(self._value, 0)
            self._policy_reward = _doubled(self._policy_reward, 0)
            self._policy_next = _doubled(self._policy_next, -1)
            self._expanded = _doubled(self._expanded, -1)
        if loop:
            once = sum(self.discount**time * reward for time, reward in enumerate(loop))
            self._value[rows[-1]] = once / (1 - self.discount ** len(loop))
        for row, after, reward in reversed(list(zip(rows[:-1], rows[1:], rewards, strict=True))):
            if self._policy_next[row] < 0:
                self._policy_next[row], self._policy_reward[row] = after, reward
            self._value[row] = max(self._value[row], reward + self.discount * self._value[after])


def _doubled(x: Shaped[np.ndarray, " rows"], fill: int) -> Shaped[np.ndarray, " more"]:
    """An array of twice the length, filled up with a number."""
    return np.concatenate([x, np.full_like(x, fill)])


def _choices(env: AbstractGridWorld) -> tuple[int, ...]:
    """The number of actions of each agent."""
    assert isinstance(env.action_space, Discrete)
    return (env.action_space.n,) * env.num_agents


def _step(env: AbstractGridWorld, world: World, joint: Int[Array, ""]) -> Reached:
    """The state after a joint action, with the time 0, since a search ignores the time."""
    action = jnp.stack(jnp.unravel_index(joint, _choices(env)))
    timestep, after = env.step(jax.random.key(0), world, action.astype(jnp.int32))
    after = eqx.tree_at(lambda world: world.time, after, jnp.zeros_like(after.time))
    return Reached(after, _hash(after), timestep.reward.mean(), joint)


@eqx.filter_jit
def _try_all(env: AbstractGridWorld, worlds: World) -> Reached:
    """The states after each joint action in each of several states, ordered by state."""
    joint = jnp.arange(math.prod(_choices(env)))
    after = jax.vmap(lambda world: jax.vmap(lambda one: _step(env, world, one))(joint))(worlds)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), after)


@eqx.filter_jit
def _follow(env: AbstractGridWorld, policy: TrainedPolicy, worlds: World, steps: int) -> Reached:
    """The states after each of several steps of a policy, from each of several states."""

    def one(world: World, _: None) -> tuple[World, Reached]:
        action, _ = policy.act(env.observe(world), policy.initial_carry(), None, greedy=True)
        joint = jnp.ravel_multi_index(tuple(action), _choices(env), mode="clip")
        after = _step(env, world, joint)
        return after.worlds, after

    return jax.vmap(lambda world: jax.lax.scan(one, world, None, length=steps)[1])(worlds)


def _hash(world: World) -> UInt32[Array, "2"]:
    """Two hashes of all numbers of a state except its time, of 32 bits each. With millions of
    states, it is unlikely that two of them have the same hashes, so this case is neglected.
    """
    rest = jax.tree.leaves(eqx.tree_at(lambda world: world.time, world, None))
    flat = jnp.concatenate([x.astype(jnp.uint32).reshape(-1) for x in rest])
    factors = np.random.default_rng(0).integers(1, 2**32, (2, flat.size), np.uint32) | 1
    mixed = (flat + 1) * jnp.uint32(2654435761)
    mixed = (mixed ^ (mixed >> 15))[None]
    total = (jnp.asarray(factors) * mixed).sum(axis=-1, dtype=jnp.uint32)
    total = (total ^ (total >> 13)) * jnp.uint32(2246822519)
    return total ^ (total >> 16)


_hash_all = eqx.filter_jit(jax.vmap(_hash))


def _hashes_of(worlds: World) -> _Hashes:
    """The hash of each of several states, of 64 bits."""
    return _as_integers(_hash_all(worlds))


def _as_integers(hashes: UInt32[Array, "*batch 2"]) -> UInt64[np.ndarray, "*batch"]:
    """Joins the two hashes of each state to one of 64 bits."""
    both = np.asarray(hashes).astype(np.uint64)
    return both[..., 0] << np.uint64(32) | both[..., 1]


def _take(worlds: World, lanes: Int[np.ndarray, " lanes"]) -> World:
    """The states at several lanes, which are indices into a batch."""
    return jax.tree.map(lambda x: np.asarray(x)[lanes], worlds)


def _pad(worlds: World, size: int) -> World:
    """Repeats the last state up to a fixed number of states, so that nothing is compiled again."""
    more = size - len(worlds.time)
    return jax.tree.map(lambda x: np.concatenate([x, np.repeat(x[-1:], more, axis=0)]), worlds)
