"""A sufficient condition, as array operations, for a site in which all victims can be rescued."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8

from ...grid import Layout, count_next_to, next_to, reach
from ._contents import DOORS, KEY_OF_DOOR, Role, Thing, Tile, is_victim


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
        walks to that of the two cells that is farther away for the second one, who then takes a
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
    state = (start.cells.object, walked, jnp.asarray(True))

    def go_on(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        objects, walked, _ = state
        gone = _gives_way(objects, count_next_to(walked), roles)
        left = jnp.where(gone, jnp.uint8(Thing.NOTHING), objects)
        further = walked | (next_to(walked) & floor & _is_walkable(left))
        return left, further, gone.any() | (further != walked).any()

    left, _, _ = jax.lax.while_loop(lambda state: state[2], go_on, state)
    return ready & ~is_victim(left).any()


def _is_walkable(objects: UInt8[Array, "height width"]) -> Bool[Array, "height width"]:
    return (objects == Thing.NOTHING) | (objects == Thing.OPEN_DOOR)


def _gives_way(
    objects: UInt8[Array, "height width"],
    beside: Int32[Array, "height width"],
    roles: UInt8[Array, " agents"],
) -> Bool[Array, "height width"]:
    """Which objects can be removed, if each can be faced from `beside` cells of the area."""
    medic, engineer = (roles == Role.MEDIC).any(), (roles == Role.ENGINEER).any()
    gone = objects == Thing.GREEN_VICTIM
    gone |= (objects == Thing.YELLOW_VICTIM) & medic
    gone |= ((objects == Thing.RUBBLE) | (objects == Thing.HIGH_RUBBLE)) & engineer
    if len(roles) > 1:
        gone |= (objects == Thing.RED_VICTIM) & (beside > 1)
    for door in DOORS:
        key = ((objects == door + KEY_OF_DOOR) & (beside > 0)).any()
        gone |= (objects == door) & key
    return gone & (beside > 0)
