"""Events, rewards and termination.

They are computed from the finished step: from its results, not from the chosen actions.
"""

import abc
from collections.abc import Mapping
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float32, Real

from .._checks import as_number, is_finite
from ._step import Step


class AbstractEvents(eqx.Module):
    """The named events of a game."""

    names: eqx.AbstractVar[tuple[str, ...]]

    @abc.abstractmethod
    def __call__(self, step: Step) -> tuple[Bool[Array, " agents"], ...]:
        """Whether each event has happened to each agent, in the order of `names`."""


@final
class RuleEvents(AbstractEvents):
    r"""Events that happen when a rule of a given type fires, as in `RuleEvents(arrival=Arrive)`.

    ```python
    from typing import final

    import jax
    import jax.numpy as jnp

    from eqgrid import grid

    KINDS = grid.Kinds(
        (grid.Kind("floor", " "), grid.Kind("wall", "#", solid=True), grid.Kind("exit", "E"))
    )


    @final
    class Arrive(grid.AbstractPhase):
        def __call__(self, step: grid.Step) -> grid.Step:
            row, col = step.world.bodies.position.T
            there = step.layout.tiles[row, col] == KINDS.tile("exit")
            return step.then(step.world, Arrive, there)


    room = grid.GridWorld(
        grid.Layout.parse("####\n#1E#\n####", KINDS),
        actions=(*grid.MOVES, grid.Stay()),
        phases=(grid.Go(grid.LocalCollision()), Arrive()),
        events=grid.RuleEvents(arrival=Arrive),
        reward=grid.WeightedEventReward({"arrival": 1.0}, ("arrival",)),
    )
    _, state = room.reset(jax.random.key(0))
    timestep, state = room.step(jax.random.key(1), state, jnp.array([2]))  # east
    print(room.event_names, timestep.info["events"])  # ('arrival',) [[1]]
    ```

    **Raises:** `ValueError`, in the first step, when no phase has a rule of that type.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    rules: tuple[type, ...] = eqx.field(static=True)

    def __init__(self, **rules: type):
        self.names, self.rules = tuple(rules), tuple(rules.values())

    def __call__(self, step: Step) -> tuple[Bool[Array, " agents"], ...]:
        for name, rule in zip(self.names, self.rules, strict=True):
            if not any(issubclass(known, rule) for known in step.rules):
                known = ", ".join(sorted({x.__name__ for x in step.rules})) or "none"
                raise ValueError(
                    f"The event {name!r} can never happen, since no phase fires {rule.__name__}: "
                    f"the rules that phases fire are {known}."
                )
        return tuple(step.by(rule) for rule in self.rules)


class AbstractReward(eqx.Module):
    """The reward of each agent for one step.

    A reward is computed from the finished step. `step.happened` contains the events of the game,
    and `step.by(Rule)` the agents for which a rule has fired. Both are false for agents that take
    no part in the step, because they had terminated before it or are away (see `Step.took_part`).
    An agent that terminates in this step still takes part in it.

    ```python
    import jax.numpy as jnp
    from jaxtyping import Array, Float32

    from eqgrid.grid import AbstractReward, Interact, Step


    class Team(AbstractReward):  # every agent gets 1 for every agent that interacts
        def __call__(self, step: Step) -> Float32[Array, " agents"]:
            count = step.by(Interact).sum(dtype=jnp.float32)
            return jnp.broadcast_to(count, step.world.num_agents)
    ```

    `GridWorld` replaces the rewards of agents that had terminated before the step by 0, so a team
    reward reaches only agents that have not terminated. Agents that are away are rewarded. To
    reward a state in every step, such as standing on a goal, read `step.world`, where agents that
    have terminated keep their positions.
    """

    @abc.abstractmethod
    def __call__(self, step: Step) -> Float32[Array, " agents"]:
        """The reward of each agent. `GridWorld` ignores rewards of terminated agents."""


@final
class WeightedEventReward(AbstractReward):
    """The weighted sum of each agent's own events.

    ```python
    from eqgrid.grid import WeightedEventReward

    names = ("arrival", "fall")
    reward = WeightedEventReward({"arrival": 1.0, "fall": -0.5}, names, shared=True)
    print(reward.weights)  # [ 1.  -0.5]
    ```

    **Arguments:**

    - `weights`: the weight of each event by name; 0 for events that are not named.
    - `names`: the names of the game's events, in order.
    - `shared`: whether every agent gets the sum over all agents instead.

    **Raises:** `ValueError` when a name is not an event of the game, or a weight is not finite.
    Traced weights are not checked.
    """

    weights: Float32[Array, " events"]
    names: tuple[str, ...] = eqx.field(static=True)
    shared: bool = eqx.field(static=True)

    def __init__(
        self,
        weights: Mapping[str, Real[ArrayLike, ""]],
        names: tuple[str, ...],
        *,
        shared: bool = False,
    ):
        if unknown := set(weights) - set(names):
            raise ValueError(
                f"There is no event {min(unknown)!r}: the events are {', '.join(names)}."
            )
        values = []
        for name in names:
            needs = f"The event {name!r} needs a finite weight"
            values.append(as_number(weights.get(name, 0.0), float, is_finite, needs))
        self.weights = jnp.asarray(values, jnp.float32)
        self.names, self.shared = tuple(names), shared

    def __call__(self, step: Step) -> Float32[Array, " agents"]:
        # A sum event by event is one kernel; stacking the events would copy each of them.
        parts = [
            event.astype(jnp.float32) * weight
            for event, weight in zip(step.happened, self.weights, strict=True)
        ]
        own = sum(parts, start=jnp.zeros(step.world.num_agents, jnp.float32))
        return jnp.broadcast_to(own.sum(), own.shape) if self.shared else own


class AbstractEnding(eqx.Module):
    """A condition under which agents terminate."""

    @abc.abstractmethod
    def __call__(self, step: Step) -> Bool[Array, " agents"]:
        """Which agents terminate in this step. They stay inactive until the episode ends."""
