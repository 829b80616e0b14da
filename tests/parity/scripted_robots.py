"""Robots that work: they fetch requested shelves, bring them to a goal, and put them back.

They read a world as eqgrid keeps it, as NumPy arrays. They walk around who stands in front of them,
and leave the worst jams to chance.
"""

from collections import deque

import numpy as np

from eqgrid.envs.warehouse import ACTIONS, Load, Tile
from eqgrid.grid import Forward, Layout, Rotate, Stay, Use, World

STAY, FORWARD, LEFT, RIGHT, TOGGLE = (
    ACTIONS.index(x)
    for x in (Stay(), Forward(), Rotate("left"), Rotate("right"), Use("toggle_load"))
)
STEPS = ((-1, 0), (1, 0), (0, 1), (0, -1))  # by direction
CLOCKWISE = (0, 2, 1, 3)  # north, east, south, west

Cell = tuple[int, int]


class Robots:
    """A team that does something random now and then.

    **Arguments:**

    - `layout`: where it works.
    - `noise`: the probability that a robot does something random.
    """

    def __init__(self, layout: Layout, noise: float, seed: int):
        self.tiles = np.asarray(layout.tiles)
        self.goals = [tuple(map(int, goal)) for goal in np.asarray(layout.params)]
        self.noise, self.rng = noise, np.random.default_rng(seed)
        self.maps: dict[tuple[Cell, bool], np.ndarray] = {}

    def act(self, world: World) -> list[int]:
        """The next action of every robot."""
        objects, taken = world.cells.object, set()
        wanted = [tuple(map(int, x)) for x in np.argwhere(objects == Load.REQUESTED)]
        racks = (self.tiles == Tile.RACK) & (objects == Load.NOTHING)
        empty = [tuple(map(int, x)) for x in np.argwhere(racks)]
        actions = []
        for where, faces, held in zip(
            world.bodies.position, world.bodies.direction, world.bodies.held, strict=True
        ):
            if self.rng.random() < self.noise:
                actions.append(int(self.rng.choice(5, p=[0.05, 0.5, 0.15, 0.15, 0.15])))
                continue
            here = int(where[0]), int(where[1])
            choices = {Load.NOTHING: wanted, Load.SHELF: empty}.get(int(held), self.goals)
            left = [cell for cell in choices if cell not in taken]
            if not left:
                actions.append(int(self.rng.choice((FORWARD, LEFT, RIGHT))))
                continue
            loaded = int(held) != Load.NOTHING
            target = min(left, key=lambda cell: self.distance(cell, loaded)[here])
            if target not in self.goals:
                taken.add(target)
            others = {(int(row), int(col)) for row, col in world.bodies.position}
            actions.append(self.go(here, int(faces), target, loaded, others))
        return actions

    def go(self, here: Cell, faces: int, target: Cell, loaded: bool, others: set[Cell]) -> int:
        """The action that leads one step closer, or that loads."""
        if here == target:
            return STAY if target in self.goals else TOGGLE
        distance = self.distance(target, loaded)
        cells = [(here[0] + down, here[1] + right) for down, right in STEPS]
        cost = [
            distance[cell]
            + 2.5 * (cell in others)
            + 1000 * (loaded and cell != target and self.tiles[cell] == Tile.RACK)
            for cell in cells
        ]
        return turn_or_go(faces, min(range(4), key=cost.__getitem__))

    def distance(self, target: Cell, loaded: bool) -> np.ndarray:
        """How many steps every cell is away; robots with shelves keep to corridors and goals."""
        if (target, loaded) not in self.maps:
            free = self.tiles != Tile.WALL
            if loaded:
                free &= self.tiles != Tile.RACK
            found = np.full(self.tiles.shape, 10_000)
            found[target] = 0
            queue = deque([target])
            while queue:
                row, col = queue.popleft()
                for down, right in STEPS:
                    cell = row + down, col + right
                    if self.tiles[cell] != Tile.WALL and found[cell] == 10_000:
                        found[cell] = found[row, col] + 1
                        if free[cell]:
                            queue.append(cell)
            self.maps[target, loaded] = found
        return self.maps[target, loaded]


class Crowd:
    """Robots that mostly drive clockwise around blocks of four cells, or else at random: they jam,
    and some drive in circles.

    **Arguments:**

    - `num_agents`: how many robots there are.
    """

    def __init__(self, num_agents: int, seed: int):
        self.num_agents, self.rng = num_agents, np.random.default_rng(seed)

    def act(self, world: World) -> list[int]:
        """The next action of every robot."""
        actions = self.rng.choice(5, self.num_agents, p=[0.04, 0.66, 0.1, 0.1, 0.1]).tolist()
        ways = ((2, 1), (0, 3))  # by the row and the column in a block
        for i in np.flatnonzero(self.rng.random(self.num_agents) < 0.75):
            row, col = (world.bodies.position[i] - 1) % 2
            actions[i] = turn_or_go(int(world.bodies.direction[i]), ways[row][col])
        return actions


def turn_or_go(faces: int, way: int) -> int:
    """The action of a robot that wants to drive in a direction."""
    quarters = (CLOCKWISE.index(way) - CLOCKWISE.index(faces)) % 4
    return (FORWARD, RIGHT, RIGHT, LEFT)[quarters]
