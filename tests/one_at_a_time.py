"""Plays the plan that `can_deliver` promises: one cook walks, and all others wait at home."""

from collections import deque
from itertools import pairwise

import equinox as eqx
import jax
import numpy as np

from eqgrid.envs.overcooked import Tile
from eqgrid.grid import AbstractGridWorld

MOVES = ((-1, 0), (1, 0), (0, 1), (0, -1))  # in the order of the actions
STAY, USE = 4, 5


@eqx.filter_jit
def _step(env: AbstractGridWorld, state, action):
    timestep, state = env.step(jax.random.key(0), state, action)
    return timestep.reward[0], state


class Planner:
    """Walks cooks through a kitchen, in plain Python."""

    def __init__(self, env: AbstractGridWorld):
        self.env = env
        self.state = env.reset(jax.random.key(0))[1]
        self.tiles = np.asarray(env.layout.tiles)
        self.homes = [tuple(x) for x in np.asarray(self.state.bodies.position).tolist()]
        self.earned = 0.0

    def act(self, cook: int, action: int) -> None:
        actions = np.full(len(self.homes), STAY)
        actions[cook] = action
        reward, self.state = _step(self.env, self.state, actions)
        self.earned += float(reward)

    def place(self, cook: int) -> tuple[int, int]:
        return tuple(np.asarray(self.state.bodies.position)[cook].tolist())

    def ways(self, cook: int, start: tuple[int, int]) -> dict[tuple[int, int], list[int]]:
        """The moves to every cell that a cook can walk to while the others are at home."""
        taken = set(self.homes) - {self.homes[cook]}
        ways, queue = {start: []}, deque([start])
        while queue:
            row, col = queue.popleft()
            for action, (down, right) in enumerate(MOVES):
                cell = (row + down, col + right)
                if cell not in ways and cell not in taken and self.tiles[cell] == Tile.FLOOR:
                    ways[cell] = [*ways[row, col], action]
                    queue.append(cell)
        return ways

    def touched(self, cook: int) -> set[tuple[int, int]]:
        return {
            (row + down, col + right)
            for row, col in self.ways(cook, self.homes[cook])
            for down, right in MOVES
            if self.tiles[row + down, col + right] != Tile.FLOOR
        }

    def use(self, cook: int, target: tuple[int, int]) -> None:
        """Walks next to a cell, faces it, interacts, and goes home."""
        ways = self.ways(cook, self.place(cook))
        for action, (down, right) in enumerate(MOVES):
            cell = (target[0] - down, target[1] - right)
            if cell in ways:
                for move in [*ways[cell], action, USE]:
                    self.act(cook, move)
                break
        for move in self.ways(cook, self.place(cook))[self.homes[cook]]:
            self.act(cook, move)
        assert self.place(cook) == self.homes[cook]

    def shared(self, giver: int, taker: int) -> list[tuple[int, int]]:
        """The counters over which one cook can hand things to another one."""
        both = sorted(self.touched(giver) & self.touched(taker))
        return [cell for cell in both if self.tiles[cell] == Tile.COUNTER]

    def chain(self, first: int, target: tuple[int, int]) -> list[int]:
        """Who hands things on, from one cook to one who touches a cell."""
        chains, seen = deque([[first]]), {first}
        while chains:
            chain = chains.popleft()
            if target in self.touched(chain[-1]):
                return chain
            for cook in set(range(len(self.homes))) - seen:
                if self.shared(chain[-1], cook):
                    seen.add(cook)
                    chains.append([*chain, cook])
        raise AssertionError("nobody can hand it on")

    def bring(self, cook: int, target: tuple[int, int]) -> int:
        """Brings what a cook holds to a cell, from hand to hand where the cook alone cannot.

        **Returns:** who brought it there.
        """
        chain = self.chain(cook, target)
        for giver, taker in pairwise(chain):
            counter = self.shared(giver, taker)[0]
            self.use(giver, counter)
            self.use(taker, counter)
        self.use(chain[-1], target)
        return chain[-1]

    def fetch(self, source: tuple[int, int], target: tuple[int, int]) -> int:
        cook = next(cook for cook in self.team if source in self.touched(cook))
        self.use(cook, source)
        return self.bring(cook, target)

    @property
    def team(self) -> list[int]:
        """Cooks who can hand things to each other, and who together touch all that is needed."""
        cooks = range(len(self.homes))
        needed = {Tile.ONION_DISPENSER, Tile.DISH_DISPENSER, Tile.POT, Tile.SERVING}
        for first in cooks:
            team = {first}
            for _ in cooks:
                team |= {x for x in cooks if any(self.shared(one, x) for one in team)}
            cells = set().union(*map(self.touched, team))
            if needed <= {int(self.tiles[cell]) for cell in cells}:
                return sorted(team)
        raise AssertionError("no team touches everything")

    def deliver(self) -> float:
        """Cooks one soup of three onions and serves it.

        **Returns:** what was earned.
        """
        cells = sorted(set().union(*map(self.touched, self.team)))
        onion, dish, pot, serving = (
            next(cell for cell in cells if self.tiles[cell] == tile)
            for tile in (Tile.ONION_DISPENSER, Tile.DISH_DISPENSER, Tile.POT, Tile.SERVING)
        )
        for _ in range(3):
            self.fetch(onion, pot)
        for _ in range(20):
            self.act(0, STAY)
        holder = self.fetch(dish, pot)
        self.bring(holder, serving)
        return self.earned
