"""Whether all victims of a site can be rescued: a sufficient and a necessary condition."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8

from ...grid import Layout, count_next_to, next_to, reach
from ._kinds import DOORS, KEY_OF_DOOR, KINDS, VICTIMS, Role, Thing, Tile, is_victim


def can_rescue(layout: Layout) -> Bool[Array, ""]:
    """Whether a simple plan exists in which every victim is rescued.

    In a simple plan, all rescuers wait in their initial cells. One rescuer at a time (or two, for a
    red victim) leaves its cell, and returns when its work is done. The walkable area consists of
    the cells that are connected to a cell next to an exit, without the initial cells. Every initial
    cell must be next to this area from the beginning. So every rescuer can reach every cell of the
    area, and rescuers never block each other. Removing objects next to the area makes it larger:

    - a green victim: a rescuer carries it to the exit;
    - a yellow victim, if there is a medic: it is healed, and then carried out as well;
    - rubble, high or low, if there is an engineer: it is cleared;
    - a door, if the key of its colour is next to the area: a rescuer takes the key, opens the door,
        and puts the key back in its cell, so that all hands are empty again;
    - a red victim next to two cells of the area, if there are two rescuers. The first rescuer walks
        to the cell that is farther from the second rescuer. The second rescuer then walks to the
        nearer cell, on a shortest path, which cannot lead through the farther cell. After the lift,
        the second rescuer returns first.

    Keys stay in their cells and block the way. A site without a simple plan may still have another
    plan; `find_obstacle` finds some sites without any plan. The number of steps is not limited.

    **Arguments:**

    - `layout`: the site, with its roles. Objects must be on floor, and no rescuer may start on one.
    """
    start, position = layout.start, layout.start.bodies.position
    homes = jnp.zeros(layout.tiles.shape, bool).at[position[:, 0], position[:, 1]].set(True)
    floor = (layout.tiles == Tile.FLOOR) & ~homes
    free = floor & _is_walkable(start.cells.object)
    gates = next_to(layout.tiles == Tile.EXIT) & free
    gate = jnp.stack(jnp.unravel_index(jnp.argmax(gates), gates.shape))
    area = reach(free, gate)
    ready = gates.any() & (~homes | next_to(area)).all()
    ready &= (start.bodies.held == Thing.NOTHING).all()
    roles = start.bodies.extra
    medic, engineer = (roles == Role.MEDIC).any(), (roles == Role.ENGINEER).any()
    state = (start.cells.object, area, jnp.asarray(True))

    def remove(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        """Removes all objects that can be removed from the area, and enlarges the area."""
        objects, area, _ = state
        beside = count_next_to(area)  # the cells of the area from which an object can be faced
        gone = objects == Thing.GREEN_VICTIM
        gone |= (objects == Thing.YELLOW_VICTIM) & medic
        gone |= ((objects == Thing.RUBBLE) | (objects == Thing.HIGH_RUBBLE)) & engineer
        if len(roles) > 1:
            gone |= (objects == Thing.RED_VICTIM) & (beside > 1)
        for door in DOORS:
            key = ((objects == door + KEY_OF_DOOR) & (beside > 0)).any()
            gone |= (objects == door) & key
        gone &= beside > 0
        left = jnp.where(gone, jnp.uint8(Thing.NOTHING), objects)
        larger = area | (next_to(area) & floor & _is_walkable(left))
        return left, larger, gone.any() | (larger != area).any()

    left, _, _ = jax.lax.while_loop(lambda state: state[2], remove, state)
    return ready & ~is_victim(left).any()


def _is_walkable(objects: UInt8[Array, "height width"]) -> Bool[Array, "height width"]:
    return (objects == Thing.NOTHING) | (objects == Thing.OPEN_DOOR)


_RUBBLE = (Thing.RUBBLE, Thing.HIGH_RUBBLE)

_FIXED = (Thing.YELLOW_VICTIM, Thing.RED_VICTIM, *_RUBBLE, *DOORS)
"""The objects that rescuers cannot carry away."""

_REASONS = {
    Thing.GREEN_VICTIM: "no rescuer can carry the {} to an exit",
    Thing.YELLOW_VICTIM: "no medic can heal the {}",
    Thing.RED_VICTIM: "no two rescuers can stand next to the {}",
    **dict.fromkeys(_RUBBLE, "no engineer can clear the {}"),
    **dict.fromkeys(DOORS, "no rescuer can bring its key to the {}"),
}
"""The reason why an object cannot be removed; `{}` is its name and its place."""


class _Team(NamedTuple):
    """Rescuers that can walk to each other.

    - `agents`: the indices of the rescuers.
    - `floor`: the cells that they can reach.
    """

    agents: list[int]
    floor: Bool[np.ndarray, "height width"]

    def cells_beside(self, place: tuple[int, int]) -> int:
        """The number of cells from which the rescuers can face a place."""
        row, col = place
        beside = np.pad(self.floor, 1)[row : row + 3, col : col + 3]
        return int(beside[0, 1]) + int(beside[2, 1]) + int(beside[1, 0]) + int(beside[1, 2])


def find_obstacle(layout: Layout) -> str | None:
    """The reason why a victim can never be rescued, if there is one.

    The search assumes that rescuers can carry all keys and green victims out of the way. It removes
    every object that rescuers next to it can heal, lift, clear or open, and repeats this until
    nothing changes. The search ignores time, and rescuers that block each other.

    **Arguments:**

    - `layout`: the site, with its default initial state and roles.

    **Returns:** one sentence that names a victim and what blocks the way, or `None` if no obstacle
    is found.
    """
    start = layout.start
    tiles, positions = np.asarray(layout.tiles), np.asarray(start.bodies.position)
    objects, held = np.asarray(start.cells.object).copy(), np.asarray(start.bodies.held)
    roles = np.asarray(start.bodies.extra)
    while True:
        teams = _find_teams((tiles == Tile.FLOOR) & ~np.isin(objects, _FIXED), positions)
        gone = [
            place
            for place in _places(objects, _FIXED)
            if _is_removable(teams, place, objects, held, roles)
        ]
        if not gone:
            break
        for place in gone:
            healed = objects[place] == Thing.YELLOW_VICTIM
            objects[place] = Thing.GREEN_VICTIM if healed else Thing.NOTHING
    to_exit = np.zeros(tiles.shape, bool)  # the cells from which a rescuer can walk to an exit
    for team in teams:
        if any(team.cells_beside(place) for place in _places(tiles, (Tile.EXIT,))):
            to_exit |= team.floor
    stuck = _stuck_victims(objects, held, positions, to_exit)
    if not stuck:
        return None
    obstacles = [
        _reason(place, int(objects[place]))
        for place in _places(objects, (*_RUBBLE, *DOORS))
        if any(team.cells_beside(place) for team in teams)
    ]
    if not (tiles == Tile.EXIT).any():
        obstacles.insert(0, "there is no exit")
    return f"Some victim cannot be rescued: {' and '.join([stuck[0], *obstacles])}."


def _places(
    grid: UInt8[np.ndarray, "height width"], wanted: tuple[int, ...]
) -> list[tuple[int, int]]:
    """The cells of a grid of tiles or objects that contain one of the wanted codes."""
    return [(int(row), int(col)) for row, col in np.argwhere(np.isin(grid, wanted))]


def _reason(place: tuple[int, int], code: int) -> str:
    """The reason why an object cannot be removed."""
    row, col = place
    name = KINDS.objects[code - 1].name.replace("_", " ")
    return _REASONS[Thing(code)].format(f"{name} at row {row + 1}, column {col + 1}")


def _find_teams(
    free: Bool[np.ndarray, "height width"], positions: Int[np.ndarray, "agents 2"]
) -> list[_Team]:
    """The groups of rescuers that can walk to each other on free cells."""
    teams: list[_Team] = []
    for agent, position in enumerate(positions):
        for team in teams:
            if team.floor[tuple(position)]:
                team.agents.append(agent)
                break
        else:
            teams.append(_Team([agent], _reach(free, position)))
    return teams


def _reach(
    free: Bool[np.ndarray, "height width"], position: Int[np.ndarray, "2"]
) -> Bool[np.ndarray, "height width"]:
    """The cells that are reachable from a position."""
    reached = np.zeros_like(free)
    reached[tuple(position)] = True
    while True:
        wide = np.pad(reached, 1)
        further = wide[:-2, 1:-1] | wide[2:, 1:-1] | wide[1:-1, :-2] | wide[1:-1, 2:]
        further = (further & free) | reached
        if (further == reached).all():
            return reached
        reached = further


def _is_removable(
    teams: list[_Team],
    place: tuple[int, int],
    objects: UInt8[np.ndarray, "height width"],
    held: UInt8[np.ndarray, " agents"],
    roles: UInt8[np.ndarray, " agents"],
) -> bool:
    """Whether the object in this cell can be healed, lifted, cleared or opened."""
    code = int(objects[place])
    beside = [team for team in teams if team.cells_beside(place)]
    if code == Thing.RED_VICTIM:
        lifters = sum(min(len(team.agents), team.cells_beside(place)) for team in beside)
        return lifters >= 2
    if code in DOORS:
        key = code + KEY_OF_DOOR
        return any(key in objects[team.floor] or key in held[team.agents] for team in beside)
    role = Role.MEDIC if code == Thing.YELLOW_VICTIM else Role.ENGINEER
    return any(role in roles[team.agents] for team in beside)


def _stuck_victims(
    objects: UInt8[np.ndarray, "height width"],
    held: UInt8[np.ndarray, " agents"],
    positions: Int[np.ndarray, "agents 2"],
    to_exit: Bool[np.ndarray, "height width"],
) -> list[str]:
    """For each victim that cannot be rescued, in a cell or carried, the reason."""
    lying = [
        _reason(place, int(objects[place]))
        for place in _places(objects, VICTIMS)
        if objects[place] != Thing.GREEN_VICTIM or not to_exit[place]
    ]
    carried = [
        _reason((int(row), int(col)), Thing.GREEN_VICTIM)
        for code, (row, col) in zip(held, positions, strict=True)
        if code in VICTIMS and not to_exit[row, col]
    ]
    return lying + carried
