"""The events of the warehouse, and the termination after too long without a delivery."""

import dataclasses
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

from ...grid import AbstractEnding, AbstractEvents, AbstractPhase, Step
from ._deliveries import Deliver
from ._kinds import Load

EVENT_NAMES = ("load", "requested_load", "unload", "delivery", "put_back")
"""The events that are counted for every robot: it picks up a shelf; that shelf is requested; it
puts a shelf down; it delivers one; it puts a shelf down for the first time since its delivery.
"""


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
    """The phase that counts the steps since the last delivery, or the reset, in `World.extra`."""

    def __call__(self, step: Step) -> Step:
        quiet = jnp.where(step.by(Deliver).any(), 0, step.world.extra + 1)
        return step.then(dataclasses.replace(step.world, extra=quiet))


@final
class NoDelivery(AbstractEnding):
    """All robots terminate after a number of steps without a delivery.

    Source: `max_inactivity_steps` of `rware` 2.0.0.

    **Arguments:**

    - `limit`: the number of steps.
    """

    limit: Int32[Array, ""]

    def __call__(self, step: Step) -> Bool[Array, " agents"]:
        return jnp.broadcast_to(step.world.extra >= self.limit, (step.world.num_agents,))
