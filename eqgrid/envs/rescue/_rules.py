"""Interactions of rescuers with rubble, doors, keys and victims, joint lifting, and rewards.

The rules are eqgrid's own. In a turn, at most one interaction of a rescuer fires. Lifting is a
separate phase, since it needs several rescuers.
"""

import dataclasses
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32

from ...grid import (
    AbstractEnding,
    AbstractEvents,
    AbstractInteraction,
    AbstractPhase,
    AbstractReward,
    Outcome,
    Step,
    Turn,
    Use,
    World,
    direction_delta,
)
from ._kinds import DOORS, KEY_OF_DOOR, Role, Thing, Tile, is_key, victims_left

PICKUP = Use("pickup")
"""Picks up an object, puts down the held object, or carries a held victim out through an exit."""

TOGGLE = Use("toggle")
"""Clears rubble, opens a door, or heals a victim."""


@final
class PickUp(AbstractInteraction):
    """Picks up a key or a green victim, with empty hands."""

    def __call__(self, turn: Turn) -> Outcome:
        lying = turn.cell.object
        fired = turn.uses(PICKUP) & (turn.body.held == Thing.NOTHING)
        fired &= is_key(lying) | (lying == Thing.GREEN_VICTIM)
        return Outcome(fired, turn.cell_with(Thing.NOTHING), turn.body_with(lying))


@final
class PutDown(AbstractInteraction):
    """Puts the held object on a floor cell without an object and without an agent. An open door
    counts as an object.
    """

    def __call__(self, turn: Turn) -> Outcome:
        fired = turn.uses(PICKUP) & (turn.body.held != Thing.NOTHING)
        fired &= (turn.tile == Tile.FLOOR) & (turn.cell.object == Thing.NOTHING) & ~turn.occupied
        return Outcome(fired, turn.cell_with(turn.body.held), turn.body_with(Thing.NOTHING))


@final
class CarryOut(AbstractInteraction):
    """Rescues a held victim by carrying it out through an exit."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = turn.uses(PICKUP) & (turn.tile == Tile.EXIT)
        fired &= turn.body.held == Thing.GREEN_VICTIM
        return Outcome(fired, turn.cell, turn.body_with(Thing.NOTHING))


@final
class Clear(AbstractInteraction):
    """Turns high rubble into low rubble, or removes low rubble, if the agent is an engineer."""

    def __call__(self, turn: Turn) -> Outcome:
        high = turn.cell.object == Thing.HIGH_RUBBLE
        fired = turn.uses(TOGGLE) & (turn.body.extra == Role.ENGINEER)
        fired &= high | (turn.cell.object == Thing.RUBBLE)
        left = jnp.where(high, jnp.uint8(Thing.RUBBLE), jnp.uint8(Thing.NOTHING))
        return Outcome(fired, turn.cell_with(left), turn.body)


@final
class Open(AbstractInteraction):
    """Opens a door permanently if the agent holds the key of its colour. The key is not used up."""

    def __call__(self, turn: Turn) -> Outcome:
        lying = turn.cell.object
        fired = turn.uses(TOGGLE) & (lying >= DOORS[0]) & (lying <= DOORS[-1])
        fired &= turn.body.held == lying + jnp.uint8(KEY_OF_DOOR)
        return Outcome(fired, turn.cell_with(Thing.OPEN_DOOR), turn.body)


@final
class Heal(AbstractInteraction):
    """Turns a yellow victim into a green one, if the agent is a medic."""

    def __call__(self, turn: Turn) -> Outcome:
        fired = turn.uses(TOGGLE) & (turn.body.extra == Role.MEDIC)
        fired &= turn.cell.object == Thing.YELLOW_VICTIM
        return Outcome(fired, turn.cell_with(Thing.GREEN_VICTIM), turn.body)


@final
class Lift(AbstractPhase):
    """The phase in which red victims are rescued. Two or more rescuers with empty hands lift a red
    victim out of the site if they all face it and use any `Use` action in the same step.

    The rule is eqgrid's own.
    """

    def __call__(self, step: Step) -> Step:
        bodies, objects = step.world.bodies, step.world.cells.object
        target = (bodies.position + direction_delta(bodies.direction)).astype(jnp.int32)
        row, col = target[:, 0], target[:, 1]
        lifts = step.uses() & (bodies.held == Thing.NOTHING)
        lifts &= objects[row, col] == Thing.RED_VICTIM
        # Entry [i, j] is whether agent j lifts at the cell that agent i faces.
        joins = (target[:, None] == target[None, :]).all(axis=-1) & lifts[None, :]
        others = ~np.eye(step.world.num_agents, dtype=bool)
        fired = lifts & (joins & others).any(axis=1)
        # Several agents may face one cell. NOTHING is 0, so with `min` an agent that lifts decides,
        # and 255 changes nothing.
        left = jnp.where(fired, jnp.uint8(Thing.NOTHING), jnp.uint8(255))
        objects = objects.at[row, col].min(left)
        cells = dataclasses.replace(step.world.cells, object=objects)
        return step.then(dataclasses.replace(step.world, cells=cells), Lift, fired)


EVENT_NAMES = (
    "carrying_out",
    "lifting",
    "healing",
    "clearing",
    "opening",
    "victim_pickup",
    "victim_drop",
    "key_pickup",
    "key_drop",
    "red_reach",
    "red_leave",
)
"""The events that are counted for every rescuer. Lifting is counted for all rescuers that lift. A
clearing is one level of rubble, and a drop is onto the floor. A rescuer reaches a red victim when
it starts to face the victim with empty hands. It leaves the victim when it stops doing so without
having lifted the victim.
"""


@final
class RescueEvents(AbstractEvents):
    """The events of `EVENT_NAMES`."""

    names: tuple[str, ...] = eqx.field(static=True, default=EVENT_NAMES)

    def __call__(self, step: Step) -> tuple[Bool[Array, " agents"], ...]:
        held_before, held = step.before.bodies.held, step.world.bodies.held
        picked, dropped = step.by(PickUp), step.by(PutDown)
        faced, faces = _faces_red(step.before), _faces_red(step.world)
        happened = {
            "carrying_out": step.by(CarryOut),
            "lifting": step.by(Lift),
            "healing": step.by(Heal),
            "clearing": step.by(Clear),
            "opening": step.by(Open),
            "victim_pickup": picked & (held == Thing.GREEN_VICTIM),
            "victim_drop": dropped & (held_before == Thing.GREEN_VICTIM),
            "key_pickup": picked & is_key(held),
            "key_drop": dropped & is_key(held_before),
            "red_reach": faces & ~faced,
            "red_leave": faced & ~faces & ~step.by(Lift),
        }
        return tuple(happened[name] for name in self.names)


def _faces_red(world: World) -> Bool[Array, " agents"]:
    """Which rescuers face a red victim with empty hands."""
    bodies = world.bodies
    row, col = jnp.moveaxis(bodies.position + direction_delta(bodies.direction), -1, 0)
    return (world.cells.object[row, col] == Thing.RED_VICTIM) & (bodies.held == Thing.NOTHING)


@final
class SharedRescueReward(AbstractReward):
    """Every rescuer gets a reward of 1 for each victim that is rescued in this step."""

    def __call__(self, step: Step) -> Float32[Array, " agents"]:
        rescued = victims_left(step.before) - victims_left(step.world)
        return jnp.broadcast_to(rescued.astype(jnp.float32), (step.world.num_agents,))


@final
class AllRescued(AbstractEnding):
    """All rescuers terminate when no victim is left."""

    def __call__(self, step: Step) -> Bool[Array, " agents"]:
        return jnp.broadcast_to(victims_left(step.world) == 0, (step.world.num_agents,))
