"""Lifting: what rescuers do together in one step."""

import dataclasses
from typing import final

import jax.numpy as jnp
import numpy as np

from ...grid import AbstractPhase, Step, direction_delta
from ._contents import Thing


@final
class Lift(AbstractPhase):
    """The phase in which red victims are rescued: two or more rescuers with empty hands who face
    the same red victim, and use any `Use` action in the same step, lift it out of the site.

    The rule is eqgrid's own.
    """

    def __call__(self, step: Step) -> Step:
        bodies, objects = step.world.bodies, step.world.cells.object
        target = (bodies.position + direction_delta(bodies.direction)).astype(jnp.int32)
        row, col = target[:, 0], target[:, 1]
        lifts = step.uses() & (bodies.held == Thing.NOTHING)
        lifts &= objects[row, col] == Thing.RED_VICTIM
        meets = (target[:, None] == target[None, :]).all(axis=-1) & lifts[None, :]
        others = ~np.eye(step.world.num_agents, dtype=bool)
        fired = lifts & (meets & others).any(axis=1)
        # `min` decides between several writes if another agent faces the same cell.
        left = jnp.where(fired, jnp.uint8(Thing.NOTHING), jnp.uint8(255))
        objects = objects.at[row, col].min(left)
        cells = dataclasses.replace(step.world.cells, object=objects)
        return step.then(dataclasses.replace(step.world, cells=cells), Lift, fired)
