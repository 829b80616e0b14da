"""lbforaging 2.0.0: equal fields and equal actions, from the starts that eqgrid draws.

`EQGRID_PARITY_STEPS=100000 pytest -m parity tests/parity/test_lbforaging.py` plays that many joint
steps in each kind of field.
"""

import os
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import Games, differences, replay_games

from eqgrid import TimeStep
from eqgrid.envs.foraging import GridView, VectorView, from_id
from eqgrid.grid import AbstractGridWorld, World

gymnasium = pytest.importorskip("gymnasium", reason="lbforaging needs it")
lbforaging = pytest.importorskip(
    "lbforaging", reason="needs the [parity] extra: pip install -e '.[test,parity]'"
)
theirs = pytest.importorskip("lbforaging.foraging.environment")
pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:.*precision lowered by casting:UserWarning"),
]

STEPS = int(os.environ.get("EQGRID_PARITY_STEPS", "8000"))
GAMES = max(1, min(500, STEPS // 50))
RESETS = 1500
NORTH, SOUTH, WEST, EAST, LOAD = range(1, 6)

QUICK = ("8x8-2p-2f", "8x8-2p-2f-coop", "2s-8x8-2p-2f-coop")
FIELDS: dict[str, dict[str, Any]] = {
    "8x8-2p-2f": {},
    "8x8-2p-2f-coop": {},
    "2s-8x8-2p-2f-coop": {},
    "2s-10x10-3p-3f": {},
    "5x5-4p-2f-coop": {},
    "3s-6x11-4p-4f": {
        "penalty": 0.3,
        "normalize_reward": False,
        "max_agent_level": 3,
        "min_agent_level": 2,
        "observe_levels": False,
    },
    "grid-6x6-3p-3f": {"penalty": 0.1, "min_food_level": 2, "max_food_level": 4},
    "grid-2s-7x5-4p-2f": {"observe_levels": False, "horizon": 30},
}
"""Names, and what is not in them."""


def their_options(env: AbstractGridWorld, options: dict[str, Any]) -> dict[str, Any]:
    """What lbforaging calls the options of a field of ours."""
    levels, view = env.layout.params, env.observation
    assert isinstance(view, VectorView | GridView)
    return {
        "players": env.num_agents,
        "min_player_level": int(levels.min_agent),
        "max_player_level": int(levels.max_agent),
        "min_food_level": int(levels.min_food),
        "max_food_level": int(levels.max_food) or None,
        "field_size": tuple(side - 2 for side in env.layout.tiles.shape),
        "max_num_food": env.starts[0].num_food,
        "sight": view.sight,
        "max_episode_steps": int(env.horizon),
        "force_coop": bool(levels.coop),
        "grid_observation": isinstance(view, GridView),
        "penalty": options.get("penalty", 0.0),
        "normalize_reward": options.get("normalize_reward", True),
        "observe_agent_levels": options.get("observe_levels", True),
    }


class AnySpace:
    """A space of observations that takes all. Theirs is wrong for windows of a field, which newer
    versions of gymnasium notice, and mixes up the sides of fields that are no squares.
    """

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape

    def contains(self, observation: np.ndarray) -> bool:
        return True


def build(options: dict[str, Any]) -> Any:
    """Their game."""
    game = theirs.ForagingEnv(**(options | {"grid_observation": False}))
    game._grid_observation = options["grid_observation"]
    game.observation_space = [AnySpace(space.shape) for space in game.observation_space]
    return game


def put_into(game: Any, world: World) -> None:
    """Sets the state of their game to one of ours."""
    game.field = np.array(world.cells.object[1:-1, 1:-1], np.int32)
    positions = np.asarray(world.bodies.position).tolist()
    for player, (row, col), level in zip(
        game.players, positions, world.bodies.extra.tolist(), strict=True
    ):
        player.setup((row - 1, col - 1), level, game.field_size)
        player.reward = 0
    game._food_spawned = game.field.sum()
    game.current_step, game._game_over = 0, False
    game._gen_valid_moves()


def tell(timestep: TimeStep) -> tuple[jax.Array, ...]:
    seen = timestep.observation.astype(jnp.float32)
    return seen, timestep.reward, timestep.done, timestep.info["events"]


def step(games: Games, number: int, time: int, game: Any, actions: list[int]) -> bool:
    """Plays and writes down one step; says whether the game is over."""
    loads = [
        action == LOAD and theirs.Action.LOAD in game._valid_actions[player]
        for action, player in zip(actions, game.players, strict=True)
    ]
    observations, rewards, done, _, _ = game.step(actions)
    before, after = (number, time), (number, time + 1)
    games.actions[before], games.steps[before] = actions, True
    cells, bodies = games.worlds.cells, games.worlds.bodies
    cells.object[after][1:-1, 1:-1] = game.field
    bodies.position[after] = [(row + 1, col + 1) for row, col in positions(game)]
    bodies.extra[after] = [player.level for player in game.players]
    bodies.active[after] = game.field.any()
    games.worlds.time[after], games.worlds.extra[after] = game.current_step, game._food_spawned
    view, reward, over, events = games.told
    view[before], reward[before], over[before] = seen(game, observations), rewards, done
    events[before] = [(x > 0, y and x <= 0) for x, y in zip(rewards, loads, strict=True)]
    return done


def positions(game: Any) -> list[tuple[int, int]]:
    return [player.position for player in game.players]


def seen(game: Any, observations: Any) -> np.ndarray:
    """What they see, as we lay it out."""
    seen = np.stack(observations)
    return seen.transpose(0, 2, 3, 1) if game._grid_observation else seen


def choose(game: Any, rng: np.random.Generator) -> list[int]:
    """Actions that often lead to food, and often to nothing."""
    chosen = rng.integers(0, 6, len(game.players)).tolist()
    food = np.argwhere(game.field).tolist()
    chances = rng.random((len(chosen), 2)).tolist()
    for i, (row, col) in enumerate(positions(game)):
        if chances[i][0] > 0.7 or not food:
            continue
        down, right = min(
            ((y - row, x - col) for y, x in food), key=lambda way: abs(way[0]) + abs(way[1])
        )
        if abs(down) + abs(right) == 1:
            chosen[i] = LOAD
        elif chances[i][1] * (abs(down) + abs(right)) < abs(down):
            chosen[i] = SOUTH if down > 0 else NORTH
        else:
            chosen[i] = EAST if right > 0 else WEST
    return chosen


@eqx.filter_jit
def reset(env: AbstractGridWorld, keys: jax.Array) -> Any:
    return jax.vmap(env.reset)(keys)


def without_faces(world: World) -> World:
    """lbforaging does not know where agents face."""
    return eqx.tree_at(lambda w: w.bodies.direction, world, replace_fn=jnp.zeros_like)


def play(
    env: AbstractGridWorld, game: Any, rng: np.random.Generator, seed: int
) -> tuple[World, Games]:
    """Plays games of theirs from starts of ours, and compares what is seen at first."""
    views, starts = reset(env, jax.random.split(jax.random.key(seed), GAMES))
    views, starts = jax.tree.map(np.asarray, (views, starts))
    games = Games.blank(env, tell, GAMES, int(env.horizon))
    for i in range(GAMES):
        put_into(game, jax.tree.map(lambda x, i=i: x[i], starts))
        np.testing.assert_array_equal(views[i], seen(game, game._make_gym_obs()))
        for time in range(int(env.horizon)):
            if step(games, i, time, game, choose(game, rng)):
                break
    return starts, games


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[pytest.mark.slow] * (x not in QUICK)) for x in FIELDS]
)
def test_follows_lbforaging_in(name: str):
    env = from_id(name, **FIELDS[name])
    game = build(their_options(env, FIELDS[name]))
    rng = np.random.default_rng(0)
    steps = loads = failures = shared = batch = 0
    while steps < STEPS:
        starts, games = play(env, game, rng, seed=batch)
        _, (worlds, told) = replay_games(env, starts, games.actions, games.draws, tell)
        later = games.world(slice(None), slice(1, None))
        assert differences((without_faces(worlds), told), (later, games.told), games.steps) == {}
        steps += int(games.steps.sum())
        events = games.told[-1].sum(axis=(0, 1, 2))
        loads, failures = loads + events[0], failures + events[1]
        places = later.bodies.position
        same = (places[:, :, :, None] == places[:, :, None]).all(axis=-1)
        shared += int(((same.sum(axis=(2, 3)) > env.num_agents) & games.steps).sum())
        batch += 1
    assert loads > 0
    assert failures > 0
    assert (shared > 0) == (env.num_agents > 2)
    print(f"{name}: {steps} steps, {loads} loads, {failures} failures, {shared} in shared cells")


def test_names_are_theirs(monkeypatch: pytest.MonkeyPatch):
    """The environments that it registers, and its windows, are built with its options."""
    names = [name for name in gymnasium.registry if name.startswith("Foraging-")]
    assert len(names) == 15 * 8 * 4 * 2 * 2
    monkeypatch.setattr(lbforaging, "sizes", [6])
    lbforaging.register_grid_envs()
    windows = [name for name in gymnasium.registry if name.startswith("Foraging-grid-")]
    rng = np.random.default_rng(0)
    for name in [*rng.permutation(names)[:15], *rng.permutation(windows)[:15]]:
        options = their_options(from_id(str(name)), {})
        assert options == options | gymnasium.spec(str(name)).kwargs, name


def test_starts_are_distributed_as_theirs():
    """Every frequency differs by less than five standard errors."""
    env = from_id("5x5-4p-2f")
    game = build(their_options(env, {}))
    game.seed(0)
    _, ours = reset(env, jax.random.split(jax.random.key(5), RESETS))
    told = []
    for _ in range(RESETS):
        game.reset()
        levels = [player.level for player in game.players]
        told.append((game.field.copy(), np.asarray(positions(game)), levels))
    fields, places, levels = map(np.asarray, zip(*told, strict=True))
    theirs = frequencies(fields, places, levels)
    inside = np.asarray(ours.cells.object)[:, 1:-1, 1:-1].astype(int)
    ours = frequencies(inside, np.asarray(ours.bodies.position) - 1, np.asarray(ours.bodies.extra))
    for our, their in zip(ours, theirs, strict=True):
        share = (our + their) / 2
        error = np.sqrt(2 * share * (1 - share) / RESETS)
        assert (np.abs(our - their) <= 5 * error).all()
        assert (share > 0).any()


def frequencies(fields: np.ndarray, places: np.ndarray, levels: np.ndarray) -> list[np.ndarray]:
    """How often there is so much food, food of these levels, an agent of this level, and food and
    agents in these cells."""
    counts = (fields > 0).sum(axis=(1, 2))
    cells = [(places == cell).all(axis=-1).mean(axis=0) for cell in np.ndindex(5, 5)]
    return [
        np.asarray([(counts == count).mean() for count in range(3)]),
        np.asarray([(fields == level).any(axis=(1, 2)).mean() for level in range(1, 8)]),
        np.asarray([(fields.sum(axis=(1, 2)) == total).mean() for total in range(1, 14)]),
        (levels == 2).mean(axis=0),
        (fields > 0).mean(axis=0),
        np.stack(cells),
    ]
