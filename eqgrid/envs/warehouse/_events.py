"""What is counted for every robot, and when nothing has been delivered for too long."""

import dataclasses
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

from ...grid import AbstractEnding, AbstractEvents, AbstractPhase, Step
from ._deliveries import Deliver
from ._kinds import Load

EVENT_NAMES = ("load", "requested_load", "unload", "delivery", "put_back")
"""What is counted for every robot: it takes a shelf on; that shelf is requested; it puts one down;
it delivers one; it puts one down for the first time since it delivered."""


@final
class WarehouseEvents(AbstractEvents):
    """The events of `EVENT_NAMES`."""

    names: tuple[str, ...] = eqx.field(static=True, default=EVENT_NAMES)

    def __call__(self, step: Step) -> tuple[Bool[Array, " agents"], ...]:
        before, now = step.before.bodies, step.world.bodies
        carried, carries = before.held != Load.NOTHING, now.held != Load.NOTHING
        position = before.position
        under = step.before.cells.object[position[:, 0], position[:, 1]]
        loads, unloads = ~carried & carries, carried & ~carries
        happened = {
            "load": loads,
            "requested_load": loads & (under == Load.REQUESTED),
            "unload": unloads,
            "delivery": step.by(Deliver),
            "put_back": unloads & before.extra,
        }
        return tuple(happened[name] for name in self.names)


@final
class CountQuietSteps(AbstractPhase):
    """Counts the steps since the last delivery, or the start, in `World.extra`."""

    def __call__(self, step: Step) -> Step:
        quiet = jnp.where(step.by(Deliver).any(), 0, step.world.extra + 1)
        return step.then(dataclasses.replace(step.world, extra=quiet))


@final
class NoDelivery(AbstractEnding):
    """The task is over, for all robots, when nobody has delivered for so many steps.

    Source: `max_inactivity_steps` of `rware` 2.0.0.

    **Arguments:**

    - `limit`: how many steps.
    """

    limit: Int32[Array, ""]

    def __call__(self, step: Step) -> Bool[Array, " agents"]:
        return jnp.broadcast_to(step.world.extra >= self.limit, (step.world.num_agents,))
