"""What the parity tests share: replaying games in one compilation, and counting what differs.

A `World` whose arrays lead with `[games, steps]` is a record of games. The records of other
simulators are filled in as NumPy arrays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from eqgrid import TimeStep
from eqgrid.envs.overcooked import Item
from eqgrid.grid import IDLE, AbstractGridWorld, Layout, World


def pad_to(layouts: list[Layout]) -> list[Layout]:
    """The same kitchens, all as large as the largest of them."""
    height = max(layout.tiles.shape[0] for layout in layouts)
    width = max(layout.tiles.shape[1] for layout in layouts)
    return [layout.pad(height, width) for layout in layouts]


def blank_record(layout: Layout, games: int, steps: int) -> World:
    """A record to fill in: NumPy arrays that lead with `[games, steps]`, of empty worlds."""
    record = jax.tree.map(lambda x: np.zeros((games, steps, *x.shape), x.dtype), layout.start)
    record.cells.timer[:] = IDLE
    return record


def number(item: Any, contents: tuple[Any, Any]) -> Any:
    """What eqgrid keeps for a thing: to a soup it adds what is in it."""
    onions, tomatoes = contents
    return item + (item == Item.SOUP) * (4 * onions + tomatoes)


def at(record: World, *index: Any) -> World:
    return jax.tree.map(lambda x: jax.numpy.asarray(x[index]), record)


@eqx.filter_jit
def replay(
    env: AbstractGridWorld, start: World, actions: jax.Array, *, planes: bool = True
) -> tuple[World, dict[str, jax.Array]]:
    """Plays every game by its actions alone.

    **Arguments:**

    - `env`, `start`, `actions`: one environment, first state and `[steps, agents]` per game.
    - `planes`: whether to keep what the cooks see.

    **Returns:** the states after each step, and what each step told, both `[games, steps, ...]`.
    """

    def play(env: AbstractGridWorld, world: World, actions: jax.Array) -> Any:
        def step(world: World, action: jax.Array) -> Any:
            timestep, world = env.step(jax.random.key(0), world, action)
            told = {
                "reward": timestep.reward,
                "shaped_reward": timestep.info["shaped_reward"],
                "events": timestep.info["events"],
                "planes": timestep.observation if planes else None,
            }
            return world, (world, told)

        return jax.lax.scan(step, world, actions)[1]

    return eqx.filter_vmap(play)(env, start, actions)


def differences(ours: Any, theirs: Any, played: np.ndarray | None = None) -> dict[str, Any]:
    """For every array of two records in which any step differs: how many steps, and the first
    `(game, step)`.

    **Arguments:**

    - `played`: which `[games, steps]` count; all of them unless given.
    """
    found = {}
    pairs = zip(jax.tree.leaves_with_path(ours), jax.tree.leaves(theirs), strict=True)
    for (path, our), their in pairs:
        our, their = np.asarray(our), np.asarray(their)
        assert our.shape == their.shape, (jax.tree_util.keystr(path), our.shape, their.shape)
        wrong = (our != their).reshape(*our.shape[:2], -1).any(axis=-1)
        if played is not None:
            wrong &= played
        if wrong.any():
            found[jax.tree_util.keystr(path)] = (int(wrong.sum()), tuple(np.argwhere(wrong)[0]))
    return found


Tell = Callable[[TimeStep], Any]
"""Picks what is compared of a step."""


@dataclass
class Games:
    """What another simulator did in some games.

    - `actions`, `draws`: what agents did, and what was random, in each of the `[games, steps]`.
    - `worlds`: its states as ours: one more than there are steps.
    - `told`: what it said of each step.
    - `first_seen`: the observations at the start.
    - `steps`: which steps there were.
    """

    actions: np.ndarray
    draws: np.ndarray
    worlds: World
    told: Any
    first_seen: np.ndarray
    steps: np.ndarray

    @classmethod
    def blank(
        cls, env: AbstractGridWorld, tell: Tell, games: int, horizon: int, *, draws: int = 0
    ) -> "Games":
        """Arrays to fill in."""

        def one_step() -> Any:
            idle = jax.numpy.zeros(env.num_agents, jax.numpy.int32)
            timestep, world = env.step(jax.random.key(0), env.layout.start, idle)
            return world, tell(timestep), timestep.observation

        def zeros(shape: tuple[int, ...], like: Any) -> Any:
            return jax.tree.map(lambda x: np.zeros((*shape, *x.shape), x.dtype), like)

        world, told, seen = eqx.filter_eval_shape(one_step)
        return cls(
            actions=np.zeros((games, horizon, env.num_agents), np.int32),
            draws=np.full((games, horizon, draws), -1, np.int32),
            worlds=zeros((games, horizon + 1), world),
            told=zeros((games, horizon), told),
            first_seen=zeros((games,), seen),
            steps=np.zeros((games, horizon), bool),
        )

    def cut(self, games: int) -> "Games":
        """The first games."""
        return Games(**jax.tree.map(lambda x: x[:games], vars(self)))

    def world(self, *index: Any) -> World:
        return jax.tree.map(lambda x: x[index], self.worlds)


@eqx.filter_jit
def replay_games(
    env: AbstractGridWorld,
    start: World,
    actions: jax.Array,
    draws: jax.Array,
    tell: Tell,
    where: Callable[[AbstractGridWorld], jax.Array] | None = None,
) -> tuple[jax.Array, tuple[World, Any]]:
    """Plays every game by its actions and draws alone.

    **Arguments:**

    - `where`: the leaf of the environment that is what will be drawn.

    **Returns:** what is seen at first, and the states and what is told after each step.
    """

    def step(world: World, inputs: tuple[jax.Array, jax.Array]) -> Any:
        action, draw = inputs
        drawing = env if where is None else eqx.tree_at(where, env, draw)
        timestep, world = drawing.step(jax.random.key(0), world, action)
        return world, (world, tell(timestep))

    def play(start: World, *inputs: jax.Array) -> Any:
        return env.observe(start), jax.lax.scan(step, start, inputs)[1]

    return jax.vmap(play)(jax.tree.map(jax.numpy.asarray, start), actions, draws)
