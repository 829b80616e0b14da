"""The feature-vector observation of search and rescue."""

from typing import final

from jaxtyping import Array, Float32

from ...grid import (
    AbstractFeature,
    Around,
    FacedAgent,
    FacedObject,
    FacedTile,
    Features,
    Kinds,
    NearestObjects,
    NearestTiles,
    Others,
    OwnDirection,
    OwnHeld,
    OwnPosition,
    Sight,
    one_hot,
    prefixed,
)
from ._contents import DOORS, KEYS, VICTIMS, Role, Thing

NEAREST_VICTIMS = 2
"""The number of victims of each colour in the features, nearest first."""

_ROLES = tuple(role.name.lower() for role in Role)
_IN_THE_WAY = (Thing.RUBBLE, Thing.HIGH_RUBBLE, *DOORS, *KEYS)


@final
class Roles(AbstractFeature):
    """The role of the rescuer and those of the others, one-hot."""

    def names(self, kinds: Kinds, num_agents: int) -> tuple[str, ...]:
        who = ("own", *(f"other_{k}" for k in range(1, num_agents)))
        return tuple(name for one in who for name in prefixed(one, _ROLES))

    def __call__(self, sight: Sight) -> Float32[Array, " numbers"]:
        return one_hot(sight.bodies.extra, len(Role)).reshape(-1)


def rescue_features() -> Features:
    """The feature-vector observation of search and rescue, relative to each rescuer: its position,
    direction, role and held object, the cells around it, the offsets to the exit, victims, rubble,
    doors and keys, and the features of all other rescuers.

    It covers the whole site, regardless of walls: the nearest two victims of each colour, and the
    nearest one of everything else. Units are those of `Features`, and `Features.names` lists all
    features.
    """
    return Features(
        (
            OwnPosition(),
            OwnDirection(),
            Roles(),
            OwnHeld(),
            Around(),
            FacedTile(),
            FacedObject(),
            FacedAgent(),
            NearestTiles(("exit",)),
            NearestObjects(tuple(thing.name.lower() for thing in VICTIMS), NEAREST_VICTIMS),
            NearestObjects(tuple(thing.name.lower() for thing in _IN_THE_WAY)),
            Others(),
        )
    )
