"""The plan that `can_rescue` promises, in plain Python: one or two walk, and all others wait."""

from collections import deque

import numpy as np

from eqgrid.envs.rescue import Role, Thing, Tile
from eqgrid.grid import Layout

LEFT, RIGHT, FORWARD, STAY, PICKUP, TOGGLE = range(6)
COMPASS = ((-1, 0), (0, 1), (1, 0), (0, -1))
FACING = (0, 2, 1, 3)  # where the engine's north, south, east and west are in the compass
KEY_OF = {
    Thing.PURPLE_DOOR: Thing.PURPLE_KEY,
    Thing.BLUE_DOOR: Thing.BLUE_KEY,
    Thing.ORANGE_DOOR: Thing.ORANGE_KEY,
}
VICTIMS = {Thing.GREEN_VICTIM, Thing.YELLOW_VICTIM, Thing.RED_VICTIM}
Cell = tuple[int, int]


def beside(cell: Cell) -> list[Cell]:
    return [(cell[0] + down, cell[1] + right) for down, right in COMPASS]


class Planner:
    """Writes down what everybody does, in `actions`, a list for each step."""

    def __init__(self, layout: Layout):
        bodies = layout.start.bodies
        self.tiles = np.asarray(layout.tiles)
        objects = np.asarray(layout.start.cells.object)
        self.things = {
            cell: Thing(objects[cell]) for cell in map(tuple, np.argwhere(objects).tolist())
        }
        self.homes: list[Cell] = [tuple(x) for x in np.asarray(bodies.position).tolist()]
        self.places = list(self.homes)
        self.facing = [FACING[x] for x in np.asarray(bodies.direction).tolist()]
        self.roles = np.asarray(bodies.extra).tolist()
        self.actions: list[list[int]] = []
        self.turns = 0

    def plan(self) -> bool:
        """Plans for all that gives way, and says whether no victim is left."""
        room = self.room()
        if not room or any(room.isdisjoint(beside(home)) for home in self.homes):
            return False
        while self.work():
            pass
        return not VICTIMS & set(self.things.values())

    def room(self) -> set[Cell]:
        """The cells that are connected to the first one beside an exit, without the homes."""
        gates = [
            cell for cell in self.floor() if any(self.tile(x) == Tile.EXIT for x in beside(cell))
        ]
        return set(self.ways(gates[0], set(self.floor()))) if gates else set()

    def floor(self) -> list[Cell]:
        cells = [tuple(x) for x in np.argwhere(self.tiles == Tile.FLOOR).tolist()]
        barred = {cell for cell, thing in self.things.items() if thing != Thing.OPEN_DOOR}
        return [cell for cell in cells if cell not in barred and cell not in self.homes]

    def tile(self, cell: Cell) -> int:
        inside = all(0 <= x < size for x, size in zip(cell, self.tiles.shape, strict=True))
        return int(self.tiles[cell]) if inside else Tile.WALL

    def ways(self, start: Cell, cells: set[Cell]) -> dict[Cell, list[Cell]]:
        """A shortest way to everything that can be walked to over some cells."""
        ways, queue = {start: []}, deque([start])
        while queue:
            here = queue.popleft()
            for cell in beside(here):
                if cell in cells and cell not in ways:
                    ways[cell] = [*ways[here], cell]
                    queue.append(cell)
        return ways

    def work(self) -> bool:
        """Plans one piece of work, if there is any."""
        room = self.room()
        self.turns += 1
        near = {cell: x for cell, x in self.things.items() if not room.isdisjoint(beside(cell))}
        keys = {thing: cell for cell, thing in near.items()}
        for cell, thing in near.items():
            if thing == Thing.GREEN_VICTIM:
                self.carry_out(self.anybody(), cell, room)
            elif thing == Thing.YELLOW_VICTIM and Role.MEDIC in self.roles:
                self.use(self.roles.index(Role.MEDIC), cell, room, TOGGLE)
                self.things[cell] = Thing.GREEN_VICTIM
            elif thing in (Thing.RUBBLE, Thing.HIGH_RUBBLE) and Role.ENGINEER in self.roles:
                times = 2 if thing == Thing.HIGH_RUBBLE else 1
                self.use(self.roles.index(Role.ENGINEER), cell, room, *[TOGGLE] * times)
                del self.things[cell]
            elif KEY_OF.get(thing) in keys:
                self.open(self.anybody(), cell, keys[KEY_OF[thing]], room)
            elif thing == Thing.RED_VICTIM and len(self.homes) > 1 and self.lift(cell, room):
                pass
            else:
                continue
            return True
        return False

    def anybody(self) -> int:
        return self.turns % len(self.homes)

    def act(self, chosen: dict[int, int]) -> None:
        self.actions.append([chosen.get(agent, STAY) for agent in range(len(self.homes))])

    def face(self, agent: int, cell: Cell) -> None:
        here = self.places[agent]
        wanted = COMPASS.index((cell[0] - here[0], cell[1] - here[1]))
        quarters = (wanted - self.facing[agent]) % 4
        for turn in ([], [RIGHT], [RIGHT, RIGHT], [LEFT])[quarters]:
            self.act({agent: turn})
        self.facing[agent] = wanted

    def go(self, agent: int, target: Cell, room: set[Cell]) -> None:
        """Walks in the room or home, round all others."""
        cells = (room | {self.homes[agent]}) - set(self.places)
        for cell in self.ways(self.places[agent], cells)[target]:
            self.face(agent, cell)
            self.act({agent: FORWARD})
            self.places[agent] = cell

    def go_beside(self, agent: int, cell: Cell, room: set[Cell]) -> None:
        self.go(agent, min(room & set(beside(cell))), room)
        self.face(agent, cell)

    def use(self, agent: int, cell: Cell, room: set[Cell], *actions: int) -> None:
        self.go_beside(agent, cell, room)
        for action in actions:
            self.act({agent: action})
        self.go(agent, self.homes[agent], room)

    def carry_out(self, agent: int, cell: Cell, room: set[Cell]) -> None:
        self.use(agent, cell, room, PICKUP)
        leaving = next(
            x for x in np.argwhere(self.tiles == Tile.EXIT).tolist() if room & {*beside(x)}
        )
        self.use(agent, tuple(leaving), room, PICKUP)
        del self.things[cell]

    def open(self, agent: int, door: Cell, key: Cell, room: set[Cell]) -> None:
        self.use(agent, key, room, PICKUP)
        self.use(agent, door, room, TOGGLE)
        self.use(agent, key, room, PICKUP)
        self.things[door] = Thing.OPEN_DOOR

    def lift(self, cell: Cell, room: set[Cell]) -> bool:
        """Two walk to a red victim, the first one to where it is not in the other's way."""
        first, second = self.anybody(), (self.turns + 1) % len(self.homes)
        ways = self.ways(self.homes[second], room)
        cells = sorted(room & set(beside(cell)), key=lambda x: len(ways[x]))
        if len(cells) < 2:
            return False
        for agent, place in ((first, cells[1]), (second, cells[0])):
            self.go(agent, place, room)
            self.face(agent, cell)
        self.act({first: PICKUP, second: TOGGLE})
        for agent in (second, first):
            self.go(agent, self.homes[agent], room)
        del self.things[cell]
        return True
