"""The events, the reward and the termination of search and rescue."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32

from ...grid import AbstractEnding, AbstractEvents, AbstractReward, Step, World, direction_delta
from ._contents import Thing, is_key, victims_left
from ._interactions import CarryOut, Clear, Heal, Open, PickUp, PutDown
from ._lift import Lift

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
"""The events that are counted for every rescuer. Lifting is counted for all who lift; a
clearing is one level of rubble; a drop is onto the floor. A rescuer reaches a red victim when
it starts to face it with empty hands, and leaves it when it stops facing it without having
lifted it.
"""


@final
class RescueEvents(AbstractEvents):
    """The events of `EVENT_NAMES`."""

    names: tuple[str, ...] = eqx.field(static=True, default=EVENT_NAMES)

    def __call__(self, step: Step) -> tuple[Bool[Array, " agents"], ...]:
        gave, got = step.before.bodies.held, step.world.bodies.held
        picked, dropped = step.by(PickUp), step.by(PutDown)
        faced, faces = _faces_red(step.before), _faces_red(step.world)
        happened = {
            "carrying_out": step.by(CarryOut),
            "lifting": step.by(Lift),
            "healing": step.by(Heal),
            "clearing": step.by(Clear),
            "opening": step.by(Open),
            "victim_pickup": picked & (got == Thing.GREEN_VICTIM),
            "victim_drop": dropped & (gave == Thing.GREEN_VICTIM),
            "key_pickup": picked & is_key(got),
            "key_drop": dropped & is_key(gave),
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
    """1 for every victim that any rescuer has rescued in this step, paid to every rescuer."""

    def __call__(self, step: Step) -> Float32[Array, " agents"]:
        rescued = victims_left(step.before) - victims_left(step.world)
        return jnp.broadcast_to(rescued.astype(jnp.float32), (step.world.num_agents,))


@final
class AllRescued(AbstractEnding):
    """All rescuers terminate when no victim is left."""

    def __call__(self, step: Step) -> Bool[Array, " agents"]:
        return jnp.broadcast_to(victims_left(step.world) == 0, (step.world.num_agents,))
