"""What agents are paid for, and when their task is over."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float32, Int, Int32

from ...grid import (
    NOTHING,
    AbstractEnding,
    AbstractPhase,
    AbstractReward,
    Forward,
    Step,
    cells_at,
    direction_delta,
)
from ._kinds import GOAL, LAVA, WALL
from ._rules import PICKUP, is_ball


@final
class Arrive(AbstractPhase):
    """Fires for agents that stand on a goal."""

    def __call__(self, step: Step) -> Step:
        return step.then(step.world, Arrive, _stand_on(step, GOAL))


@final
class Burn(AbstractPhase):
    """Fires for agents that stand in lava."""

    def __call__(self, step: Step) -> Step:
        return step.then(step.world, Burn, _stand_on(step, LAVA))


@final
class Collide(AbstractPhase):
    """Fires for agents that go forward although, before the step, something other than a goal was
    in front of them: an obstacle, even if it has moved away by now, or a wall.
    """

    def __call__(self, step: Step) -> Step:
        bodies, objects = step.before.bodies, step.before.cells.object
        ahead = cells_at(objects, bodies.position + direction_delta(bodies.direction), WALL)
        fired = step.chose(Forward()) & (ahead != NOTHING) & (ahead != GOAL)
        return step.then(step.world, Collide, fired)


@final
class FetchBall(AbstractPhase):
    """Fires for agents that pick up, and then hold, a ball."""

    def __call__(self, step: Step) -> Step:
        fired = step.chose(PICKUP) & is_ball(step.world.bodies.held)
        return step.then(step.world, FetchBall, fired)


def _stand_on(step: Step, code: int) -> Bool[Array, " agents"]:
    """Which agents stand on an object."""
    return cells_at(step.world.cells.object, step.world.bodies.position, NOTHING) == code


@final
class PromptReward(AbstractReward):
    """Pays an agent whose mission is fulfilled `1 - 0.9 * steps / max_steps`, and one that collides
    -1, as MiniGrid does.

    **Arguments:**

    - `success`: the type of the rule that fulfils the mission.
    - `max_steps`: the length of an episode, in steps.
    - `shared`: whether every agent gets the sum over all agents instead.
    """

    success: type = eqx.field(static=True)
    max_steps: Int32[Array, ""]
    shared: bool = eqx.field(static=True)

    def __init__(self, success: type, max_steps: Int[ArrayLike, ""], *, shared: bool):
        self.success, self.shared = success, shared
        self.max_steps = jnp.asarray(max_steps, jnp.int32)

    def __call__(self, step: Step) -> Float32[Array, " agents"]:
        # One division of whole numbers is rounded once: the reference has more digits.
        left = 10 * self.max_steps - 9 * step.world.time
        worth = left.astype(jnp.float32) / (10 * self.max_steps).astype(jnp.float32)
        own = jnp.where(step.by(self.success), worth, jnp.float32(0))
        own = jnp.where(step.by(Collide), jnp.float32(-1), own)
        return jnp.broadcast_to(own.sum(), own.shape) if self.shared else own


@final
class MissionOver(AbstractEnding):
    """An agent's task is over when it has fulfilled its mission, or has failed.

    **Arguments:**

    - `success`: the type of the rule that fulfils the mission.
    - `joint`: whether the mission is one of all agents, and so over for all when one fulfils it.
    """

    success: type = eqx.field(static=True)
    joint: bool = eqx.field(static=True)

    def __call__(self, step: Step) -> Bool[Array, " agents"]:
        fulfilled = step.by(self.success)
        if self.joint:
            fulfilled = jnp.broadcast_to(fulfilled.any(), fulfilled.shape)
        return fulfilled | step.by(Burn, Collide)
