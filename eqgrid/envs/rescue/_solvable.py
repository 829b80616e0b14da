"""Conditions for a site in which all victims can be rescued: a sufficient and a necessary one."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8

from ...grid import Layout, count_next_to, next_to, reach
from ._kinds import DOORS, KEY_OF_DOOR, KINDS, VICTIMS, Role, Thing, Tile, is_victim


def can_rescue(layout: Layout) -> Bool[Array, ""]:
    """Whether a simple plan exists in which every victim is rescued.

    In such a plan all rescuers wait in their initial cells, and one of them walks at a time (or
    two, for a red victim) and returns when its work is done. The walkable area consists of the
    cells that are connected to a cell next to an exit without passing any initial cell; every
    initial cell must be next to this area from the beginning. So every rescuer can reach every cell
    of the area, and rescuers never block each other. Objects next to the area are removed one after
    the other, which makes it larger:

    - a green victim: a rescuer carries it to the exit;
    - a yellow victim, if there is a medic: it is healed, and then carried out as well;
    - rubble, high or low, if there is an engineer: it is cleared;
    - a door, if the key of its colour is next to the area: a rescuer takes the key, opens the door,
        and puts the key back in its cell, so that all hands are empty again;
    - a red victim with two cells of the area next to it, if there are two rescuers: the first one
        walks to the cell that is farther away from the second one, which then takes a
        shortest path to the other cell, which cannot lead through the farther one. After the lift,
        the second one returns first.

    Keys stay where they are and block the way. If there is no such plan, there may still be another
    one; `find_obstacle` recognises sites without any. The number of steps is not limited.

    **Arguments:**

    - `layout`: the site, with its roles. Objects must be on floor, and no rescuer may start on one.
    """
    start, position = layout.start, layout.start.bodies.position
    homes = jnp.zeros(layout.tiles.shape, bool).at[position[:, 0], position[:, 1]].set(True)
    floor = (layout.tiles == Tile.FLOOR) & ~homes
    free = floor & _is_walkable(start.cells.object)
    gates = next_to(layout.tiles == Tile.EXIT) & free
    gate = jnp.stack(jnp.unravel_index(jnp.argmax(gates), gates.shape))
    walked = reach(free, gate)
    ready = gates.any() & (~homes | next_to(walked)).all()
    ready &= (start.bodies.held == Thing.NOTHING).all()
    roles = start.bodies.extra
    medic, engineer = (roles == Role.MEDIC).any(), (roles == Role.ENGINEER).any()
    state = (start.cells.object, walked, jnp.asarray(True))

    def remove(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        objects, walked, _ = state
        beside = count_next_to(walked)  # the cells of the area from which an object can be faced
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
        further = walked | (next_to(walked) & floor & _is_walkable(left))
        return left, further, gone.any() | (further != walked).any()

    left, _, _ = jax.lax.while_loop(lambda state: state[2], remove, state)
    return ready & ~is_victim(left).any()


def _is_walkable(objects: UInt8[Array, "height width"]) -> Bool[Array, "height width"]:
    return (objects == Thing.NOTHING) | (objects == Thing.OPEN_DOOR)


_CLEARED = (Thing.RUBBLE, Thing.HIGH_RUBBLE)
_STANDS_STILL = (Thing.YELLOW_VICTIM, Thing.RED_VICTIM, *_CLEARED, *DOORS)
_WHY = {
    Thing.GREEN_VICTIM: "no rescuer can carry the {} to an exit",
    Thing.YELLOW_VICTIM: "no medic can heal the {}",
    Thing.RED_VICTIM: "no two rescuers can stand next to the {}",
    **dict.fromkeys(_CLEARED, "no engineer can clear the {}"),
    **dict.fromkeys(DOORS, "no rescuer can bring its key to the {}"),
}


class _Team(NamedTuple):
    """Rescuers that can walk to each other.

    - `agents`: their indices.
    - `floor`: the cells that they can reach.
    """

    agents: list[int]
    floor: Bool[np.ndarray, "height width"]

    def stands_beside(self, place: tuple[int, int]) -> int:
        """The number of cells from which they can face a place."""
        row, col = place
        beside = np.pad(self.floor, 1)[row : row + 3, col : col + 3]
        return int(beside[0, 1]) + int(beside[2, 1]) + int(beside[1, 0]) + int(beside[1, 2])


def find_obstacle(layout: Layout) -> str | None:
    """The reason why a victim can never be rescued, if there is one.

    Rescuers walk on connected floor, and may carry keys and victims out of the way. Everything that
    the rescuers next to it can heal, lift, clear or open is removed step by step, until nothing
    changes. The check is only about reachability, not about time or about rescuers that block each
    other.

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
        teams = _find_teams((tiles == Tile.FLOOR) & ~np.isin(objects, _STANDS_STILL), positions)
        gone = [
            place
            for place in _places(objects, _STANDS_STILL)
            if _gives_way(teams, place, objects, held, roles)
        ]
        if not gone:
            break
        for place in gone:
            healed = objects[place] == Thing.YELLOW_VICTIM
            objects[place] = Thing.GREEN_VICTIM if healed else Thing.NOTHING
    leaving = np.zeros(tiles.shape, bool)
    for team in teams:
        if any(team.stands_beside(place) for place in _places(tiles, (Tile.EXIT,))):
            leaving |= team.floor
    stuck = _stuck_victims(teams, objects, held, positions, leaving)
    if not stuck:
        return None
    bars = [
        _say(place, int(objects[place]))
        for place in _places(objects, (*_CLEARED, *DOORS))
        if any(team.stands_beside(place) for team in teams)
    ]
    if not (tiles == Tile.EXIT).any():
        bars.insert(0, "there is no exit")
    return f"Some victim cannot be rescued: {' and '.join([stuck[0], *bars])}."


def _places(
    numbers: UInt8[np.ndarray, "height width"], wanted: tuple[int, ...]
) -> list[tuple[int, int]]:
    return [(int(row), int(col)) for row, col in np.argwhere(np.isin(numbers, wanted))]


def _say(place: tuple[int, int], code: int) -> str:
    """The reason why an object cannot be removed."""
    row, col = place
    name = KINDS.objects[code - 1].name.replace("_", " ")
    return _WHY[Thing(code)].format(f"{name} at row {row + 1}, column {col + 1}")


def _find_teams(
    free: Bool[np.ndarray, "height width"], positions: Int[np.ndarray, "agents 2"]
) -> list[_Team]:
    """The groups of rescuers that can walk to each other, through objects that can be moved."""
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


def _gives_way(
    teams: list[_Team],
    place: tuple[int, int],
    objects: UInt8[np.ndarray, "height width"],
    held: UInt8[np.ndarray, " agents"],
    roles: UInt8[np.ndarray, " agents"],
) -> bool:
    """Whether the object in this cell can be healed, lifted, cleared or opened."""
    code = int(objects[place])
    beside = [team for team in teams if team.stands_beside(place)]
    if code == Thing.RED_VICTIM:
        lifters = sum(min(len(team.agents), team.stands_beside(place)) for team in beside)
        return lifters >= 2
    if code in DOORS:
        key = code + KEY_OF_DOOR
        return any(key in objects[x.floor] or key in held[x.agents] for x in beside)
    role = Role.MEDIC if code == Thing.YELLOW_VICTIM else Role.ENGINEER
    return any(role in roles[team.agents] for team in beside)


def _stuck_victims(
    teams: list[_Team],
    objects: UInt8[np.ndarray, "height width"],
    held: UInt8[np.ndarray, " agents"],
    positions: Int[np.ndarray, "agents 2"],
    leaving: Bool[np.ndarray, "height width"],
) -> list[str]:
    """The reason for each victim that cannot be rescued."""
    stuck = [
        _say(place, int(objects[place]))
        for place in _places(objects, VICTIMS)
        if objects[place] != Thing.GREEN_VICTIM or not leaving[place]
    ]
    carried = [
        (int(row), int(col))
        for code, (row, col) in zip(held, positions, strict=True)
        if code in VICTIMS and not leaving[row, col]
    ]
    return stuck + [_say(place, Thing.GREEN_VICTIM) for place in carried]
