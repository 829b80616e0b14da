"""The phases of a step, and the `Step` that they update and that rewards and endings read."""

import abc
import dataclasses
import functools
import operator
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from ._actions import Action, Actions, Use, by_choice, chosen
from ._kinds import NOTHING
from ._layout import Layout
from ._starts import is_free, stands_at
from ._world import World, cells_at


@final
class Step(eqx.Module):
    """A step in progress, which each phase updates.

    ```python
    from typing import final

    import jax
    import jax.numpy as jnp

    from eqgrid import make
    from eqgrid.grid import AbstractPhase, Step, Stay


    @final
    class Wait(AbstractPhase):
        def __call__(self, step: Step) -> Step:
            return step.then(step.world, Wait, step.chose(Stay()))


    world = make("goals")
    _, state = world.reset(jax.random.key(0))
    step = Step(
        layout=world.layout,
        action=jnp.array([0, 4]),  # north; stay
        key=jax.random.key(1),
        before=state,
        world=state,
        actions=world.actions,
    )
    print(Wait()(step).by(Wait))  # [False  True]
    ```

    - `layout`: the tiles, and the parameters of the game.
    - `action`: the action of each agent, as indices into `actions`. If agents make several choices,
        it has a second axis. `chose` reads both forms.
    - `key`: the random key of this phase.
    - `before`: the world at the beginning of the step.
    - `world`: the current world.
    - `actions`: the actions of the game.
    - `turns`: the world before each agent's turn in `Interact`, in the order of the agents.
    - `rules`, `fired`: the types of the rules so far, and for which agents each rule has fired.
    - `happened`: for which agents each event of the game has happened; empty until all phases are
        done.
    - `present`: which agents were active before at least one phase so far; `None` if agents are
        always active.
    """

    layout: Layout
    action: Int[Array, "agents *choices"]
    key: PRNGKeyArray
    before: World
    world: World
    actions: Actions = eqx.field(static=True)
    turns: tuple[World, ...] = ()
    fired: tuple[tuple[Bool[Array, ""], ...], ...] = ()
    rules: tuple[type, ...] = eqx.field(static=True, default=())
    happened: tuple[Bool[Array, " agents"], ...] = ()
    present: Bool[Array, " agents"] | None = None

    def chose(self, *actions: Action | type[Action]) -> Bool[Array, " agents"]:
        """Which agents have chosen one of these actions, or an action of one of these types, as in
        `step.chose(Stay(), Rotate)`.

        **Raises:** `ValueError` for a string, or for an action that the game does not have.
        """
        known = [action for choice in by_choice(self.actions) for action in choice]
        for action in actions:
            if not isinstance(action, type) and action not in known:
                raise ValueError(
                    f"No agent can choose {action!r:.60}: the actions of the game are "
                    f"{', '.join(map(str, known)):.300}."
                )
        return chosen(self.actions, self.action, *actions)

    def uses(self, *verbs: Use) -> Bool[Array, " agents"]:
        """Which agents have chosen one of these `Use` actions, or any of them if none is given."""
        return self.chose(*(verbs or (Use,)))

    def is_free(self, position: Int[Array, "*cells 2"]) -> Bool[Array, "*cells"]:
        """Whether the cells at `(row, col)` can be entered: the tile is walkable, and the object in
        it is not solid. Cells outside the grid are not free. Agents do not matter: see `occupied`,
        or `free_cells` for the whole grid.
        """
        kinds, cells = self.layout.kinds, self.world.cells
        tile = cells_at(self.layout.tiles, position, kinds.wall)
        return is_free(kinds, tile, cells_at(cells.object, position, NOTHING))

    def occupied(self, position: Int[Array, "*cells 2"]) -> Bool[Array, "*cells"]:
        """Whether an active agent stands in the cells at `(row, col)`."""
        return stands_at(self.world.bodies, position)

    @property
    def took_part(self) -> Bool[Array, " agents"] | None:
        """Which agents have been active at any time in this step, including agents that came back
        or left during it. `None` if agents are always active.
        """
        before, now = self.before.bodies.active, self.world.bodies.active
        if before is None or now is None:
            return before
        return before | now if self.present is None else before | now | self.present

    def by(self, *rules: type) -> Bool[Array, " agents"]:
        """For which agents a rule of one of these types has fired.

        It is false for agents that take no part in the step: a terminated agent may still stand
        where a rule fires. `fired` does not exclude these agents.
        """
        # The rules are selected while tracing, so that unused rules cost nothing.
        columns = [
            fired
            for rule, fired in zip(self.rules, self.fired, strict=True)
            if issubclass(rule, rules)
        ]
        never = jnp.zeros((), bool)
        fired = jnp.stack(
            [
                functools.reduce(operator.or_, (column[agent] for column in columns), never)
                for agent in range(self.world.num_agents)
            ]
        )
        return fired if self.took_part is None else fired & self.took_part

    def then(
        self,
        world: World,
        rule: type | None = None,
        fired: Bool[Array, " agents"] | None = None,
    ) -> "Step":
        """The step after one more phase, for use in `AbstractPhase.__call__`.

        **Arguments:**

        - `world`: the world after the phase.
        - `rule`, `fired`: the type of the phase's rule, and for which agents it has fired.
            `by` returns them. Give both or neither.

        **Raises:** `ValueError` when only one of `rule` and `fired` is given.
        """
        if (rule is None) != (fired is None):
            raise ValueError(
                "step.then needs both a rule and the agents for which it has fired, as in "
                "step.then(world, Rule, fired), or neither."
            )
        if rule is None or fired is None:
            return dataclasses.replace(self, world=world)
        return dataclasses.replace(
            self, world=world, rules=(*self.rules, rule), fired=(*self.fired, tuple(fired))
        )


class AbstractPhase(eqx.Module):
    r"""A part of a step, such as movement, interactions of one agent at a time, or joint actions. A
    game has a tuple of phases, in the order in which they are applied.

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
    print(timestep.reward)  # [1.]
    ```
    """

    @abc.abstractmethod
    def __call__(self, step: Step) -> Step:
        """The step after this phase; see `Step.then`."""


def run_phases(phases: tuple[AbstractPhase, ...], step: Step) -> Step:
    """Applies all phases in order, each with its own key."""
    key = step.key
    for number, phase in enumerate(phases):
        # With `fold_in` instead of `split`, XLA can remove the key of a deterministic phase.
        phase_key = jax.random.fold_in(key, number)
        after = phase(dataclasses.replace(step, key=phase_key, present=step.took_part))
        if not isinstance(after, Step):
            raise ValueError(
                f"The phase {type(phase).__name__} must return a Step, as step.then(world) does, "
                f"not {type(after).__name__}."
            )
        step = after
    return step
