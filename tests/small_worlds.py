"""A small world of the engine, of which tests change what they are about."""

from eqgrid.grid import (
    MOVES,
    Go,
    GridWorld,
    Kind,
    Kinds,
    LocalCollision,
    Stay,
    WeightedEventReward,
)

FLOOR, WALL = Kind("floor", " ", holds=True), Kind("wall", "#", solid=True)
BARE = Kinds((FLOOR, WALL))
NO_REWARD = WeightedEventReward({}, ())


def small_world(layout, **parts):
    """A world in which agents walk, and earn nothing, with other parts where they are given."""
    walking = {
        "actions": (*MOVES, Stay()),
        "phases": (Go(LocalCollision()),),
        "reward": NO_REWARD,
    }
    return GridWorld(layout, **(walking | parts))
