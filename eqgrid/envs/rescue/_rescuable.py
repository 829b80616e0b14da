"""A proof, in arrays, that the rescuers of a site can bring out every victim."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8

from ...grid import Layout, count_next_to, next_to, reach
from ._contents import DOORS, KEY_OF_DOOR, Role, Thing, Tile, is_victim


def can_rescue(layout: Layout) -> Bool[Array, ""]:
    """Whether a plan is found in which every victim is rescued.

    In such a plan all rescuers wait where they started, and one walks at a time, or two for a red
    victim, who go back when their work is done. They walk on cells that are connected to a cell
    beside an exit without a step on anybody's start; every start must be next to these cells from
    the beginning. So each of them can walk to each of these cells, and nobody is ever in the way.
    What lies next to these cells goes, one thing after the other, and leaves more room to walk:

    - a green victim: somebody carries it to the exit;
    - a yellow one, if there is a medic: it is healed, and carried out as well;
    - rubble, high or low, if there is an engineer: it is cleared;
    - a door, if the key of its colour lies next to these cells: somebody takes the key, opens the
        door, and puts the key back where it lay, so that all hands are empty again;
    - a red victim with two of these cells beside it, if there are two rescuers: the first walks to
        the cell that is farther away for the second, who then takes a shortest way to the other
        cell, which cannot lead over the farther one. After the lift the second goes back first.

    Keys stay where they are, and bar the way. Where no such plan is found, there may still be
    another one; see `find_obstacle` for sites in which there is none. How many steps the plan takes
    is not asked.

    **Arguments:**

    - `layout`: the site, with its roles. Things lie on floor, and nobody starts where one lies.
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
    """What can be taken away, where each cell can be faced from so many cells beside it."""
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
