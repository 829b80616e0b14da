"""MiniGrid with one agent against `minigrid` 3.2.0, step by step and room by room.

Players that act at random, and players that know the way, play episodes in the reference. Its grids
and poses are put into our world, and the same actions, with obstacles that move to the same cells,
must lead to the same grids, poses, held objects, images, rewards and ends. A reward may differ by
one rounding, and nothing else at all.

`EQGRID_PARITY_STEPS=100000 pytest -m parity` plays that many steps of each room.
"""

import functools
import os
from dataclasses import dataclass
from typing import Any, final

import jax.numpy as jnp
import numpy as np
import pytest
from comparing import Games, differences, replay_games
from jaxtyping import Array, Int32
from scripted_explorer import Explorer

from eqgrid import TimeStep
from eqgrid.envs.minigrid import COLOURS, KINDS, AbstractObstacleDraw, CrossingRoom, MiniGrid
from eqgrid.grid import AbstractGridWorld, Direction, World

envs = pytest.importorskip(
    "minigrid.envs", reason="needs the [parity] extra: pip install -e '.[test,parity]'"
)
objects = pytest.importorskip("minigrid.core.world_object")
constants = pytest.importorskip("minigrid.core.constants")
pytestmark = pytest.mark.parity

STEPS = int(os.environ.get("EQGRID_PARITY_STEPS", "10000"))
EITHER_LENGTH = pytest.mark.parametrize(
    "steps", [2500, pytest.param(STEPS, marks=pytest.mark.slow)]
)
DIRECTIONS = (Direction.EAST, Direction.SOUTH, Direction.WEST, Direction.NORTH)
HORIZON = 128
ROUNDING = 1e-6
"""Rewards are float32 here, and float64 in the reference; all else is whole numbers."""


@dataclass
class Case:
    """A room in the reference and here, and what must happen in 10,000 steps at least."""

    theirs: Any
    ours: dict[str, Any]
    least: dict[str, int]


CASES = {
    "empty": Case(
        lambda n: envs.EmptyEnv(8, max_steps=n), {"layout": "empty"}, {"goals": 100, "late": 20}
    ),
    "empty-random": Case(
        lambda n: envs.EmptyEnv(6, agent_start_pos=None, max_steps=n),
        {"layout": "empty", "size": 6, "random_start": True},
        {"goals": 200},
    ),
    "fourrooms": Case(
        lambda n: envs.FourRoomsEnv(max_steps=n), {"layout": "fourrooms"}, {"goals": 50, "late": 20}
    ),
    "doorkey": Case(
        lambda n: envs.DoorKeyEnv(8, max_steps=n),
        {"layout": "doorkey"},
        {"goals": 50, "pickups": 100, "drops": 20, "unlockings": 50, "door_moves": 100},
    ),
    "doorkey-5": Case(
        lambda n: envs.DoorKeyEnv(5, max_steps=n),
        {"layout": "doorkey", "size": 5},
        {"goals": 100, "pickups": 100, "drops": 20, "unlockings": 100},
    ),
    "unlock": Case(
        lambda n: envs.UnlockEnv(max_steps=n),
        {"layout": "unlock"},
        {"goals": 100, "pickups": 100, "unlockings": 100},
    ),
    "keycorridor": Case(
        lambda n: envs.KeyCorridorEnv(room_size=4, max_steps=n),
        {"layout": "keycorridor", "size": 4},
        {"goals": 20, "pickups": 100, "unlockings": 20, "door_moves": 200},
    ),
    "keycorridor-1": Case(
        lambda n: envs.KeyCorridorEnv(num_rows=1, room_size=3, max_steps=n),
        {"layout": "keycorridor", "size": 3, "rows": 1},
        {"goals": 50, "pickups": 100, "drops": 50, "unlockings": 50},
    ),
    "lavacrossing": Case(
        lambda n: envs.CrossingEnv(9, 3, max_steps=n),
        {"layout": "lavacrossing", "crossings": 3},
        {"goals": 50, "lava": 50},
    ),
    "simplecrossing": Case(
        lambda n: envs.CrossingEnv(11, 5, obstacle_type="wall", max_steps=n),
        {"layout": CrossingRoom(11, 5, lava=False)},
        {"goals": 50},
    ),
    "dynamicobstacles": Case(
        lambda n: envs.DynamicObstaclesEnv(8, max_steps=n),
        {"layout": "dynamicobstacles"},
        {"goals": 50, "collisions": 200},
    ),
    "dynamicobstacles-5": Case(
        lambda n: envs.DynamicObstaclesEnv(5, agent_start_pos=None, n_obstacles=2, max_steps=n),
        {"layout": "dynamicobstacles", "size": 5, "obstacles": 2, "random_start": True},
        {"goals": 50, "collisions": 200},
    ),
    "multiroom": Case(
        lambda n: envs.MultiRoomEnv(4, 4, 6, max_steps=n),
        {"layout": "multiroom", "rooms": 4, "size": 6},
        {"goals": 20, "door_moves": 200},
    ),
    "multiroom-2": Case(
        lambda n: envs.MultiRoomEnv(2, 2, 4, max_steps=n),
        {"layout": "multiroom", "rooms": 2, "size": 4},
        {"goals": 100, "door_moves": 200},
    ),
}


@final
class Told(AbstractObstacleDraw):
    """Where the reference has moved the obstacles."""

    moves: Int32[Array, " obstacles"]

    def __call__(self, key, number, free):
        return self.moves[number]


@functools.cache
def code(kind: str, colour: str, state: int) -> int:
    """Our code of an object of the reference."""
    number = COLOURS.index(colour)
    if kind == "door":
        return KINDS.code("door", 3 * number + state)
    return KINDS.code(kind, number if kind in ("key", "ball", "box") else 0)


def code_of(thing: Any) -> int:
    if thing is None:
        return 0
    return code(thing.type, thing.color, thing.encode()[2])


def codes(env: Any) -> np.ndarray:
    """Our codes of the whole grid of the reference: `[rows, columns]`."""
    numbers = [code_of(thing) for thing in env.grid.grid]
    return np.asarray(numbers, np.uint8).reshape(env.height, env.width)


def write(record: World, index: tuple[int, int], env: Any) -> None:
    """Fills one state of the reference into a record."""
    record.cells.object[index] = codes(env)
    record.bodies.position[index][0] = env.agent_pos[1], env.agent_pos[0]
    record.bodies.direction[index][0] = DIRECTIONS[env.agent_dir]
    record.bodies.held[index][0] = code_of(env.carrying)
    record.bodies.active[index][0] = True
    record.time[index] = env.step_count
    if record.extra is not None:
        record.extra[index] = places(env)


def places(env: Any) -> np.ndarray:
    """`(row, col)` of each obstacle."""
    return np.asarray([(x.cur_pos[1], x.cur_pos[0]) for x in env.obstacles], int)


def furnish(env: Any, rng: np.random.Generator) -> None:
    """Puts further things into free cells: keys, balls, boxes and doors of all colours; no further
    ball where the mission is to fetch the only one.
    """
    kinds = [objects.Key, objects.Box, objects.Door]
    kinds += [] if isinstance(env, envs.KeyCorridorEnv) else [objects.Ball]
    for _ in range(rng.integers(12)):
        kind = kinds[rng.integers(len(kinds))]
        colour = str(rng.choice(COLOURS))
        thing = kind(colour)
        if kind is objects.Door:
            thing = kind(colour, *[(True, False), (False, False), (False, True)][rng.integers(3)])
        env.place_obj(thing)


def tell(timestep: TimeStep) -> dict[str, Array]:
    names = ("reward", "terminated", "truncated", "observation")
    return {name: getattr(timestep, name) for name in names}


def moves_of(world: AbstractGridWorld) -> Array:
    return world.phases[0].draw.moves


def play(env: Any, world: AbstractGridWorld, steps: int, *, furnished: bool = False) -> Games:
    """Plays games in the reference until there are enough steps."""
    rng, horizon = np.random.default_rng(0), env.max_steps
    obstacles = len(world.layout.start.extra) if hasattr(env, "n_obstacles") else 0
    games = Games.blank(world, tell, steps, horizon, draws=obstacles)
    game, count = 0, 0
    while count < steps:
        env.reset(seed=int(rng.integers(2**31)))
        if furnished:
            furnish(env, rng)
        noise = (0.05, 0.3, 0.3, 1.0)[game % 4]
        player = Explorer(noise, int(env.action_space.n), int(rng.integers(2**31)))
        games.first_seen[game, 0] = env.gen_obs()["image"]
        write(games.worlds, (game, 0), env)
        for time in range(horizon):
            now = game, time
            games.actions[now] = action = player.act(env)
            seen, reward, terminated, truncated, _ = env.step(action)
            write(games.worlds, (game, time + 1), env)
            games.worlds.bodies.active[game, time + 1] = not terminated
            if obstacles:
                moved = games.worlds.extra[game, time + 1] - games.worlds.extra[now]
                games.draws[now] = 3 * (moved[:, 0] + 1) + moved[:, 1] + 1
            games.told["reward"][now] = reward
            games.told["terminated"][now], games.told["truncated"][now] = terminated, truncated
            games.told["observation"][now] = seen["image"]
            games.steps[now] = True
            count += 1
            if terminated or truncated:
                break
        game += 1
    return games.cut(game)


def count(games: Games) -> dict[str, int]:
    """What happened in the games."""
    steps, told = games.steps, games.told
    held, grids = games.worlds.bodies.held[..., 0], games.worlds.cells.object.astype(int)
    before, after, was, will_be = held[:, :-1], held[:, 1:], grids[:, :-1], grids[:, 1:]
    door = KINDS.code("door")
    changed = (was != will_be) & (was >= door) & (was < door + 18) & steps[..., None, None]
    locked = changed & ((was - door) % 3 == 2)
    ended, reward = told["terminated"][..., 0], told["reward"][..., 0]
    return {
        "goals": int((reward > 0).sum()),
        "lava": int((ended & (reward == 0)).sum()),
        "collisions": int((reward < 0).sum()),
        "late": int((told["truncated"] & ~ended).sum()),
        "pickups": int(((before == 0) & (after != 0))[steps].sum()),
        "drops": int(((before != 0) & (after == 0))[steps].sum()),
        "unlockings": int(locked.sum()),
        "door_moves": int(changed.sum()),
    }


def compare(case: Case, steps: int, least: dict[str, int], *, furnished: bool = False) -> None:
    """Plays a room, and counts what happened: at least so much in 10,000 steps."""
    theirs = case.theirs(HORIZON)
    options, where = dict(case.ours), None
    if hasattr(theirs, "n_obstacles"):
        options["draw"] = Told(jnp.zeros(theirs.n_obstacles, jnp.int32))
        where = moves_of
    ours = MiniGrid(**options, horizon=HORIZON, observation="symbolic")
    assert ours.shape == (theirs.height, theirs.width)
    assert len(ours.actions) == theirs.action_space.n
    games = play(theirs, ours, steps, furnished=furnished)
    start, later = games.world(slice(None), 0), games.world(slice(None), slice(1, None))
    first, (worlds, told) = replay_games(ours, start, games.actions, games.draws, tell, where)
    np.testing.assert_array_equal(first, games.first_seen)
    near = np.abs(told["reward"] - games.told["reward"]) < ROUNDING
    told["reward"] = np.where(near, games.told["reward"], told["reward"])
    assert differences((worlds, told), (later, games.told), games.steps) == {}
    totals = count(games)
    print(totals)
    assert games.steps.sum() >= steps
    assert {x: totals[x] for x in least if totals[x] * 10_000 < least[x] * steps} == {}


@EITHER_LENGTH
@pytest.mark.parametrize("name", CASES)
def test_follows_the_reference_in(name: str, steps: int):
    compare(CASES[name], steps, CASES[name].least)


MORE = {
    "doorkey": {"pickups": 100, "drops": 50, "door_moves": 40},
    "keycorridor": {"pickups": 100, "drops": 50, "door_moves": 100},
    "lavacrossing": {"pickups": 50, "drops": 20, "door_moves": 10},
}


@EITHER_LENGTH
@pytest.mark.parametrize("name", MORE)
def test_follows_the_reference_with_more_things_in(name: str, steps: int):
    """Boxes, balls, keys and doors of all colours, in which no room is so rich by itself."""
    compare(CASES[name], steps, MORE[name], furnished=True)


@pytest.mark.parametrize("name", CASES)
def test_episodes_are_as_long_as_in_the_reference(name: str):
    theirs = CASES[name].theirs(None) if name != "fourrooms" else envs.FourRoomsEnv()
    assert int(MiniGrid(**CASES[name].ours).horizon) == theirs.max_steps
