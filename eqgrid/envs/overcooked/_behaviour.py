"""Statistics of recorded games: counts, shares and times of the actions of each cook."""

from typing import final

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ... import AbstractEnv, Trajectories, unwrap
from ...grid import AbstractGridWorld, World, direction_delta, is_free
from ._kinds import KINDS
from ._overcooked import ACTIONS, INTERACT, STAY

STUCK_STEPS = 20
"""The number of steps after which `behaviour` calls a cook stuck: three seconds in the recorded
games of people, who took 6.7 steps in a second.
"""

RETURN_STEPS, RETURN_OF_SOUP = 400, 20.0
"""Returns are reported per 400 steps, with 20 for each soup."""

_WRONG_KITCHEN = (
    "The games do not follow the rules of this kitchen: give behaviour the layout and the dynamics "
    "that they were played with."
)


@final
class Behaviour(eqx.Module):
    """Counts of the actions of each cook in several games; `numbers` converts them to shares.

    Every move is counted in exactly one of `walks`, `collisions`, `turns` and `bumps`.

    - `steps`: the number of steps of the game.
    - `actions`: how often the cook took each of the `ACTIONS`; any other number counts as a stay.
    - `useless`: interact actions without effect: no rule fired, so the step has no event of
        `EVENT_NAMES` for the cook.
    - `walks`: moves that changed the position of the cook.
    - `collisions`: moves to a walkable cell that `JointCollision` prevented: another cook stayed in
        that cell or entered it, or the two cooks would have swapped cells. With more than two
        cooks, a collision between other cooks can also be the cause.
    - `turns`: moves to a cell that is not walkable, such as a counter or a pot, which turned the
        cook to face that cell.
    - `bumps`: moves to a cell that is not walkable and that the cook already faced, so that nothing
        changed.
    - `stuck`: steps in which the cook has had the same position and direction for at least
        `stuck_steps` steps, including this step.
    - `longest_stuck`: the largest number of successive steps with the same position and direction.
    - `cells`: the number of different cells in which the cook was before a step.
    - `soups`: the soups that the cook delivered.
    - `mean_gap`, `median_gap`: the mean and the median number of steps between successive
        deliveries by any cooks; NaN in games with fewer than two soups.
    """

    steps: Int[np.ndarray, " games"]
    actions: Int[np.ndarray, "games agents 6"]
    useless: Int[np.ndarray, "games agents"]
    walks: Int[np.ndarray, "games agents"]
    collisions: Int[np.ndarray, "games agents"]
    turns: Int[np.ndarray, "games agents"]
    bumps: Int[np.ndarray, "games agents"]
    stuck: Int[np.ndarray, "games agents"]
    longest_stuck: Int[np.ndarray, "games agents"]
    cells: Int[np.ndarray, "games agents"]
    soups: Int[np.ndarray, "games agents"]
    mean_gap: Float[np.ndarray, " games"]
    median_gap: Float[np.ndarray, " games"]

    def numbers(self, cook: int | None = None) -> dict[str, Float[np.ndarray, " games"]]:
        """Statistics of each game, mostly as shares, so that games of different lengths can be
        compared.

        **Arguments:**

        - `cook`: the index of one cook; all cooks together by default.

        **Returns:** by name, a number for each game; NaN where the divisor is 0:

        - `return`: 20 per delivered soup, scaled to 400 steps.
        - `stay`, `interact`, `north`, `south`, `east`, `west`: the share of steps with this action.
        - `useless`: the share of interact actions without effect.
        - `collisions`, `turns`, `bumps`: shares of the moves.
        - `stuck`: the share of steps in which a cook is stuck.
        - `longest_stuck`: as in `Behaviour`; for all cooks, the largest number of any cook.
        - `walks`: the share of steps in which a cook changes its cell.
        - `cells`: as in `Behaviour`; for all cooks, the mean number of a cook.
        - `soup_share`: the share of soups that this cook delivered; for all cooks, the largest
            share of any cook.
        - `mean_gap`, `median_gap`: as in `Behaviour`; only for all cooks together.
        """

        def total(counts: Int[np.ndarray, "games agents"]) -> Float[np.ndarray, " games"]:
            return (counts.sum(axis=1) if cook is None else counts[:, cook]).astype(float)

        agents = self.soups.shape[1] if cook is None else 1
        steps, soups = self.steps * float(agents), total(self.soups)
        taken = [total(self.actions[..., number]) for number in range(len(ACTIONS))]
        moves = total(self.walks + self.collisions + self.turns + self.bumps)
        most = self.soups.max(axis=1).astype(float) if cook is None else soups
        longest = self.longest_stuck if cook is None else self.longest_stuck[:, [cook]]
        numbers = {
            "return": soups / self.steps * RETURN_STEPS * RETURN_OF_SOUP,
            "stay": taken[STAY] / steps,
            "interact": taken[INTERACT] / steps,
            **{
                name: taken[number] / steps
                for number, name in enumerate(("north", "south", "east", "west"))
            },
            "useless": _share(total(self.useless), taken[INTERACT]),
            "collisions": _share(total(self.collisions), moves),
            "turns": _share(total(self.turns), moves),
            "bumps": _share(total(self.bumps), moves),
            "stuck": total(self.stuck) / steps,
            "longest_stuck": longest.max(axis=1).astype(float),
            "walks": total(self.walks) / steps,
            "cells": total(self.cells) / agents,
            "soup_share": _share(most, self.soups.sum(axis=1).astype(float)),
        }
        if cook is None:
            numbers |= {"mean_gap": self.mean_gap, "median_gap": self.median_gap}
        return numbers


def behaviour(
    trajectories: Trajectories,
    env: AbstractEnv,
    *,
    steps: int | None = None,
    stuck_steps: int = STUCK_STEPS,
) -> Behaviour:
    """Counts the actions of cooks in games of people, policies or scripts.

    The function simulates every recorded step again, from its recorded state.

    **Arguments:**

    - `trajectories`: the games, such as games of people, or the output of `record_play` or
        `record_episodes`.
    - `env`: the kitchen of the games, `Overcooked(...)`, in any wrappers. Its observation, horizon
        and starts have no effect.
    - `steps`: the number of steps to count from the beginning of each game; all by default.
    - `stuck_steps`: the number of steps after which a cook is stuck.

    **Raises:** `ValueError` when the world is not a kitchen, there is no game, a number of steps is
    not positive, or the games do not follow the rules of the kitchen.
    """
    kitchen = unwrap(env)
    if not (isinstance(kitchen, AbstractGridWorld) and kitchen.layout.kinds == KINDS):
        raise ValueError("behaviour needs the kitchen of the games, such as Overcooked().")
    _check(trajectories, kitchen, steps, stuck_steps)
    length = np.asarray(trajectories.length, np.int64)
    world, action = trajectories.state, trajectories.action
    if steps is not None:
        index = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
        world, action = jax.tree.map(lambda x: x[index < steps], (world, action))
        length = np.minimum(length, steps)
    start = np.cumsum(length) - length  # the index of the first step of each game
    after, events, is_walkable = _play_again(kitchen, world, action)
    _check_follows(world, after, start)
    events, is_walkable, action = (np.asarray(x) for x in (events, is_walkable, action))
    position, direction = (np.asarray(x) for x in (world.bodies.position, world.bodies.direction))
    action = np.where((action >= 0) & (action < len(ACTIONS)), action, STAY)
    moves = action < STAY
    walked = (np.asarray(after.bodies.position) != position).any(axis=-1)
    turned = np.asarray(after.bodies.direction) != direction
    standing = _steps_in_place(position, direction, start)
    delivered = events[..., kitchen.event_names.index("soup_delivery")]
    counts = {
        "actions": action[..., None] == np.arange(len(ACTIONS)),
        "useless": (action == INTERACT) & ~events.any(axis=-1),
        "walks": walked,
        "collisions": moves & is_walkable & ~walked,
        "turns": moves & ~is_walkable & turned,
        "bumps": moves & ~is_walkable & ~turned,
        "stuck": standing >= stuck_steps,
        "soups": delivered,
    }
    visited = np.zeros((len(length), kitchen.num_agents, *kitchen.shape), bool)
    game = np.repeat(np.arange(len(length)), length)[:, None]
    visited[game, np.arange(kitchen.num_agents), position[..., 0], position[..., 1]] = True
    soups = np.split(delivered.sum(axis=1), np.cumsum(length)[:-1])
    # A step with several deliveries is repeated, so the gap between them is 0.
    gaps = [np.diff(np.repeat(np.arange(len(x)), x)) for x in soups]
    return Behaviour(
        steps=length,
        **{name: np.add.reduceat(x.astype(np.int64), start) for name, x in counts.items()},
        longest_stuck=np.maximum.reduceat(standing, start),
        cells=visited.sum(axis=(2, 3)),
        mean_gap=np.asarray([np.mean(x) if len(x) else np.nan for x in gaps]),
        median_gap=np.asarray([np.median(x) if len(x) else np.nan for x in gaps]),
    )


def _share(
    part: Float[np.ndarray, " games"], whole: Float[np.ndarray, " games"]
) -> Float[np.ndarray, " games"]:
    return np.divide(part, whole, out=np.full_like(whole, np.nan), where=whole > 0)


def _check(
    trajectories: Trajectories, kitchen: AbstractGridWorld, steps: int | None, stuck_steps: int
) -> None:
    found = np.shape(jax.tree.leaves(trajectories.state)[0])[1:], trajectories.action.shape[1:]
    if found != (kitchen.shape, (kitchen.num_agents,)):
        raise ValueError(_WRONG_KITCHEN)
    if len(trajectories.length) == 0 or np.asarray(trajectories.length).min() < 1:
        raise ValueError("behaviour needs at least one game, and at least one step in each game.")
    for name, number in (("steps", steps), ("stuck_steps", stuck_steps)):
        if number is not None and number < 1:
            raise ValueError(f"behaviour needs {name} of at least 1, not {number}.")


@eqx.filter_jit
def _play_again(
    env: AbstractGridWorld, worlds: World, actions: Int[Array, "steps agents"]
) -> tuple[World, Int[Array, "steps agents events"], Bool[Array, "steps agents"]]:
    """Repeats each step from the state before it.

    **Returns:** the state after each step; the events of the step; and for each cook, whether the
    cell that it tried to enter was walkable before the step.
    """

    def step(
        world: World, action: Int[Array, " agents"]
    ) -> tuple[World, Int[Array, "agents events"], Bool[Array, " agents"]]:
        timestep, after = env.step(jax.random.key(0), world, action)
        # After a move, a cook has the direction of the move, even if it did not change its cell.
        row, col = (world.bodies.position + direction_delta(after.bodies.direction)).T
        target = (env.layout.tiles[row, col], world.cells.object[row, col])
        return after, timestep.info["events"], is_free(env.layout.kinds, *target)

    return jax.vmap(step)(worlds, actions)


def _check_follows(world: World, after: World, start: Int[np.ndarray, " games"]) -> None:
    """**Raises:** `ValueError` unless each state of a game follows from the state before it."""
    later = np.setdiff1d(np.arange(len(world.time)), start)

    def follows(before: Array, after: Array) -> bool:
        return bool((np.asarray(before)[later] == np.asarray(after)[later - 1]).all())

    same = jax.tree.map(follows, (world.bodies, world.cells), (after.bodies, after.cells))
    if not all(jax.tree.leaves(same)):
        raise ValueError(_WRONG_KITCHEN)


def _steps_in_place(
    position: Int[np.ndarray, "steps agents 2"],
    direction: Int[np.ndarray, "steps agents"],
    start: Int[np.ndarray, " games"],
) -> Int[np.ndarray, "steps agents"]:
    """The number of steps, including this one, for which a cook has had its current pose."""
    pose = np.concatenate([position, direction[..., None]], axis=-1)
    new = np.ones(direction.shape, bool)
    new[1:] = (pose[1:] != pose[:-1]).any(axis=-1)
    new[start] = True
    number = np.arange(len(new))[:, None]
    return number - np.maximum.accumulate(np.where(new, number, 0)) + 1
