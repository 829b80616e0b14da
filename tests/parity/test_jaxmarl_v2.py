"""JaxMARL's `overcooked_v2`: equal worlds, equal actions, equal draws, on all its layouts.

Both games step in one program. What is ours is translated to their arrays, which are compared after
every step, with the rewards and with what the cooks see. The cooks mostly do what brings a soup
nearer; half of the games start in random worlds.

`EQGRID_PARITY_STEPS=100000 pytest -m parity` plays that many joint steps on each layout.
"""

import dataclasses
import functools
import os
from collections import deque
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import stack

from eqgrid.envs.overcooked_v2 import (
    FIRST_INGREDIENT,
    INGREDIENTS,
    KITCHENS,
    PLATE,
    RECIPES,
    OvercookedV2,
    Tile,
    contents_of,
    find_rooms,
    load_layout,
    parse_kitchen,
)
from eqgrid.grid import AbstractGridWorld, Layout, World

with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
    theirs = pytest.importorskip(
        "jaxmarl.environments.overcooked_v2.overcooked",
        reason="needs the [parity] extra: pip install -e '.[test,parity]'",
    )
    layouts = pytest.importorskip("jaxmarl.environments.overcooked_v2.layouts")
pytestmark = pytest.mark.parity

STEPS = int(os.environ.get("EQGRID_PARITY_STEPS", "3200"))
LENGTH, HORIZON = 160, 150
GAMES = 2 * -(-STEPS // (2 * LENGTH))
PHASE = 3
"""The position of `TakeOrder` in the phases: its key is folded with it."""

THEIR_TILES = np.asarray([0, 1, 4, 5, 6, 7, 1, 9, *(10 + i for i in range(9))])
CROWDED = """
    XXXXXXXX
    X1 2   X
    O  3   S
    L 4    P
    T   5  P
    XXDRXXXX"""


class Theirs(theirs.OvercookedV2):
    """Their game on any layout of one size: what is built is in their state. What they would draw
    as the next recipe is handed in."""

    next_recipe: Any = None

    def _sample_recipe(self, key: jax.Array) -> jax.Array:
        return self.next_recipe


def their_options(options: dict[str, Any]) -> dict[str, Any]:
    names = {"view_radius": "agent_view_size", "start_by_hand": "start_cooking_interaction"}
    found = {names.get(name, name): value for name, value in options.items()}
    if permuted := found.pop("permuted_ingredients", None):
        found["op_ingredient_permutations"] = [list(INGREDIENTS).index(x) for x in permuted]
    return found


def bits_of(layout: Layout) -> np.ndarray:
    """Their number for each of our codes, of what is not on a plate."""
    table = contents_of(layout.kinds)
    loose = table.amount[:, FIRST_INGREDIENT : table.first_soup].astype(int)
    bits = (loose << (2 * (1 + np.arange(loose.shape[1])))).sum(axis=1)
    bits[PLATE] = 1
    return bits


def translate(layout: Layout, world: World) -> Any:
    """Our world as their state."""
    bits = jnp.asarray(bits_of(layout))
    first_soup = contents_of(layout.kinds).first_soup
    served = bits.at[first_soup:].add(3)
    tiles, things, timer = layout.tiles, world.cells.object, world.cells.clock
    cooked = jnp.where(timer == 0, 2, 0)
    lying = jnp.where(tiles == Tile.POT, bits[things] + cooked, 0)
    lying = jnp.where(tiles == Tile.COUNTER, served[things], lying)
    grid = jnp.stack([jnp.asarray(THEIR_TILES)[tiles], lying, jnp.maximum(timer, 0)], axis=-1)
    bodies = world.bodies
    position = theirs.Position(
        x=bodies.position[:, 1].astype(jnp.int32), y=bodies.position[:, 0].astype(jnp.int32)
    )
    agents = theirs.Agent(
        pos=position, dir=bodies.direction.astype(jnp.int32), inventory=served[bodies.held]
    )
    return theirs.State(
        agents=agents,
        grid=grid.astype(jnp.int32),
        step=world.time,
        done=jnp.asarray(False),
        recipe=bits[world.extra.recipe],
        new_correct_delivery=((tiles == Tile.SERVING) & (things > 0)).any(),
        ingredient_permutations=None if bodies.extra is None else bodies.extra.astype(jnp.int32),
    )


STEPS_AROUND = ((-1, 0), (1, 0), (0, 1), (0, -1))


def places(layout: Layout) -> np.ndarray:
    """Where each kind of tile is, and last the counters that two rooms share."""
    tiles, rooms = np.asarray(layout.tiles), np.asarray(find_rooms(layout.tiles))
    around = [np.roll(rooms, (-a, -b), (0, 1)) for a, b in STEPS_AROUND]
    low = np.min([np.where(x < 0, 999, x) for x in around], axis=0)
    shared = (tiles == Tile.COUNTER) & (np.max(around, axis=0) > low)
    kinds = [tiles == kind for kind in range(layout.kinds.num_tiles)]
    return np.stack([*kinds, shared if shared.any() else tiles == Tile.COUNTER])


def distances(layout: Layout) -> np.ndarray:
    """How far it is from everywhere to a cell next to each of these places; 99 is no way."""
    tiles, goals = np.asarray(layout.tiles), places(layout)
    far = np.full(goals.shape, 99)
    for number, goal in enumerate(goals):
        cells = [(r + a, c + b) for r, c in np.argwhere(goal) for a, b in STEPS_AROUND]
        inside = [x for x in cells if all(0 <= i < n for i, n in zip(x, tiles.shape, strict=True))]
        queue = deque(cell for cell in inside if not tiles[cell])
        for cell in queue:
            far[(number, *cell)] = 0
        while queue:
            row, col = queue.popleft()
            for a, b in STEPS_AROUND:
                cell = row + a, col + b
                if not tiles[cell] and far[(number, *cell)] == 99:
                    far[(number, *cell)] = far[number, row, col] + 1
                    queue.append(cell)
    return far


MOVES = np.asarray([3, 1, 0, 2])
"""The actions that go north, south, east and west."""


def wish(drawn: jax.Array, layout: Layout, world: World, agent: int) -> jax.Array:
    """The kind of place to which a cook wants to go, with what it holds."""
    table = contents_of(layout.kinds)
    held, cells = world.bodies.held[agent], world.cells
    pots = layout.tiles == Tile.POT
    wanted = jnp.asarray(table.amount)[world.extra.recipe, FIRST_INGREDIENT : table.first_soup]
    shares = jnp.cumsum(wanted + 0.02)
    ingredient = (drawn[0] * shares[-1] > shares).sum()
    cold = (pots & (cells.object == world.extra.recipe) & (cells.clock < 0)).any()
    waits = ((layout.tiles == Tile.COUNTER) & (cells.object >= table.first_soup)).any()
    empty = jnp.where((pots & (cells.clock >= 0)).any(), Tile.PLATES, Tile.INGREDIENTS + ingredient)
    empty = jnp.where(cold, Tile.POT, empty)
    empty = jnp.where(waits & (drawn[1] < 0.5), layout.kinds.num_tiles, empty)
    goal = jnp.where(held == 0, empty, Tile.POT)
    goal = jnp.where(held >= table.first_soup, Tile.SERVING, goal)
    others = [Tile.COUNTER, Tile.BUTTON, Tile.PLATES, Tile.POT, Tile.SERVING]
    other = jnp.asarray(others)[(drawn[2] * len(others)).astype(int)]
    return jnp.where(drawn[3] < 0.2, other, goal)


def act(drawn: jax.Array, layout: Layout, ways: Any, world: World, agent: int) -> jax.Array:
    """What brings a cook nearer to its wish, or in a sixth of all steps anything.

    **Arguments:**

    - `drawn`: numbers for the wish, which stay for some steps, and then two for this step.
    """
    places, far = ways
    goal = wish(drawn, layout, world, agent)
    row, col = world.bodies.position[agent].astype(jnp.int32)
    goal = jnp.where(far[goal, row, col] == 99, layout.kinds.num_tiles, goal)
    around = jnp.asarray(STEPS_AROUND) + jnp.stack([row, col])
    is_goal = places[goal, around[:, 0], around[:, 1]]
    way = jnp.where(is_goal, -1, far[goal, around[:, 0], around[:, 1]])
    faces = is_goal[world.bodies.direction[agent].astype(jnp.int32)]
    action = jnp.where(faces, 5, jnp.asarray(MOVES)[jnp.argmin(way)])
    noise = jnp.asarray([0, 1, 2, 3, 4, 5, 5, 5])[(drawn[4] * 8).astype(int)]
    return jnp.where(drawn[5] < 1 / 6, noise, action)


def draw_numbers(agents: int) -> np.ndarray:
    """What `act` needs in all steps of all games."""
    rng = np.random.default_rng(5)
    wishes = rng.random((GAMES, LENGTH // 8, agents, 4), np.float32).repeat(8, axis=1)
    return np.concatenate([wishes, rng.random((GAMES, LENGTH, agents, 2), np.float32)], axis=-1)


def unequal(ours: Any, their: Any) -> jax.Array:
    """Whether any number differs, as an int32."""
    pairs = zip(jax.tree.leaves(ours), jax.tree.leaves(their), strict=True)
    return jnp.stack([(x != y).any() for x, y in pairs]).any().astype(jnp.int32)


def step_both(
    env: AbstractGridWorld, ways: Any, game: Theirs, worlds: tuple[World, Any], drawn: jax.Array
) -> tuple[Any, Any]:
    """One step of both games, and in how many things they differ."""
    world, state = worlds
    names = [f"agent_{i}" for i in range(env.num_agents)]
    action = [act(x, env.layout, ways, world, i) for i, x in enumerate(drawn)]
    action = jnp.stack(action).astype(jnp.int32)
    key = jax.random.wrap_key_data((drawn[0, -2:] * 2**20).astype(jnp.uint32))
    timestep, world = env.step(key, world, action)
    new = env.layout.params.draw(jax.random.fold_in(key, PHASE))
    game.next_recipe = jnp.asarray(bits_of(env.layout))[new]
    seen, state, reward, done, info = game.step_env(
        key, state, dict(zip(names, action, strict=True))
    )
    told = timestep.reward, timestep.info["shaped_reward"], timestep.observation
    their_told = [jnp.stack([x[n] for n in names]) for x in (reward, info["shaped_reward"], seen)]
    ended = dataclasses.replace(translate(env.layout, world), done=timestep.truncated.all())
    wrong = {
        "state": unequal(ended, state),
        "reward": unequal(told[0], their_told[0]),
        "shaped_reward": unequal(told[1], their_told[1]),
        "observation": unequal(told[2], their_told[2]),
        "done": unequal(timestep.done, jnp.stack([done[n] for n in names])),
    }
    events = timestep.info["events"].sum(axis=0)
    return (world, state), (wrong, dict(zip(env.event_names, events, strict=True)))


def play(env: AbstractGridWorld, ways: Any, starts: World, game: Theirs, drawn: jax.Array) -> Any:
    """All games of one layout: what differed, and what happened, per game."""

    def one(start: World, drawn: jax.Array) -> Any:
        def step(worlds: Any, drawn: jax.Array) -> Any:
            return step_both(env, ways, game, worlds, drawn)

        found = jax.lax.scan(step, (start, translate(env.layout, start)), drawn)[1]
        return jax.tree.map(lambda x: x.sum(axis=0), found)

    return jax.vmap(one)(starts, drawn)


@eqx.filter_jit
def reset(env: AbstractGridWorld, keys: jax.Array) -> World:
    """First worlds of every layout."""
    return eqx.filter_vmap(lambda env, keys: jax.vmap(env.reset)(keys)[1])(env, keys)


def widen(text: str, height: int, width: int) -> str:
    """A text with counters to the right and below."""
    rows = [row.strip().ljust(width, "X") for row in text.strip().splitlines()]
    return "\n".join([*rows, *["X" * width] * (height - len(rows))])


def build(names: list[str], num_ingredients: int | None) -> list[Layout]:
    """Some layouts, all as large as the largest of them."""
    texts = [KITCHENS.get(name, name) for name in names]
    height = max(len(text.strip().splitlines()) for text in texts)
    width = max(len(text.strip().splitlines()[0]) for text in texts)
    return [
        parse_kitchen(widen(text, height, width), RECIPES.get(name), num_ingredients)
        for name, text in zip(names, texts, strict=True)
    ]


def num_ingredients_of(layout: Layout) -> int:
    return contents_of(layout.kinds).first_soup - FIRST_INGREDIENT


def their_game(layout: Layout, options: dict[str, Any]) -> Theirs:
    """Their game on anything as large as a layout."""
    walls, starts = np.ones(layout.tiles.shape, int), [(1, 1)] * layout.num_agents
    anywhere = layouts.Layout(starts, walls, num_ingredients_of(layout), [[0, 0, 0]])
    return Theirs(anywhere, max_steps=HORIZON, **their_options(options))


@functools.cache
def first_worlds(names: tuple[str, ...], num_ingredients: int | None) -> World:
    """As the layouts say, and if there are many, one half random."""
    kitchens = build(list(names), num_ingredients)
    if len(names) == 1:
        return jax.tree.map(lambda x: jnp.repeat(x[None, None], GAMES, axis=1), kitchens[0].start)
    env = stack([OvercookedV2(x, random_reset=True) for x in kitchens])
    drawn = reset(env, jax.random.split(jax.random.key(7), (len(names), GAMES // 2)))
    usual = stack([x.start for x in kitchens])
    usual = jax.tree.map(lambda x: jnp.repeat(x[:, None], GAMES // 2, axis=1), usual)
    return jax.tree.map(lambda *xs: jnp.concatenate(xs, axis=1), drawn, usual)


def permute(worlds: World, names: tuple[str, ...], num_ingredients: int) -> World:
    """The same worlds, with every cook in its own way of mistaking some ingredients."""
    rng = np.random.default_rng(2)
    some = [list(INGREDIENTS).index(name) for name in names]
    meant = np.tile(np.arange(num_ingredients), (*worlds.bodies.held.shape, 1))
    meant[..., some] = rng.permuted(meant[..., some], axis=-1)
    meant = jnp.asarray(meant, jnp.uint8)
    return eqx.tree_at(lambda w: w.bodies.extra, worlds, meant, is_leaf=lambda x: x is None)


def compare(names: list[str], num_ingredients: int | None = None, **options: Any) -> dict[str, Any]:
    """Plays on some layouts in one compilation."""
    kitchens = build(names, num_ingredients)
    env = stack([OvercookedV2(x, horizon=HORIZON, **options) for x in kitchens])
    starts = first_worlds(tuple(names), num_ingredients)
    if permuted := options.get("permuted_ingredients"):
        starts = permute(starts, permuted, num_ingredients_of(kitchens[0]))
    ways = [jnp.asarray(np.stack([f(x) for x in kitchens])) for f in (places, distances)]
    drawn = jnp.asarray(draw_numbers(kitchens[0].num_agents))
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        game = their_game(kitchens[0], options)
        everywhere = eqx.filter_vmap(play, in_axes=(0, 0, 0, None, None))
        found = eqx.filter_jit(everywhere)(env, ways, starts, game, drawn)
    wrong, events = jax.tree.map(lambda x: np.asarray(x).sum(axis=1), found)
    for name, right in zip(names, events["right_delivery"], strict=True):
        print(f"{name[:40]!r}: {GAMES * LENGTH} steps, {right} right soups")
    bad = {what: dict(zip(names, x, strict=True)) for what, x in wrong.items() if x.any()}
    assert not bad, bad
    return events


TWO_COOKS = [name for name in KITCHENS if load_layout(name).num_agents == 2]


@pytest.mark.slow
def test_follows_jaxmarl_with_its_defaults():
    events = compare(TWO_COOKS, 4)
    assert events["right_delivery"].sum() > 10 * len(TWO_COOKS), events


def test_follows_jaxmarl_with_one_cook():
    events = compare(["long_room"], sample_recipe_on_delivery=True)
    assert (events["right_delivery"] > 0).all(), events


@pytest.mark.slow
def test_follows_jaxmarl_by_hand_with_punished_deliveries_and_partial_sight():
    events = compare(
        TWO_COOKS,
        4,
        view_radius=2,
        start_by_hand=True,
        negative_rewards=True,
        indicate_successful_delivery=True,
    )
    for name in ("right_delivery", "wrong_delivery", "right_cooking_start"):
        assert events[name].sum() > 5 * len(TWO_COOKS), (name, events)


@pytest.mark.slow
def test_follows_jaxmarl_with_new_recipes_and_permuted_ingredients():
    events = compare(
        TWO_COOKS,
        4,
        view_radius=3,
        sample_recipe_on_delivery=True,
        permuted_ingredients=("onion", "tomato", "mushroom"),
    )
    assert events["right_delivery"].sum() > 10 * len(TWO_COOKS), events


@pytest.mark.slow
def test_follows_jaxmarl_in_a_crowd():
    events = compare([CROWDED], negative_rewards=True, sample_recipe_on_delivery=True)
    for name in ("button_press", "right_delivery"):
        assert (events[name] > 0).all(), (name, events)


@pytest.mark.slow
def test_sees_what_jaxmarl_shows_of_three_ingredients():
    names = [name for name in TWO_COOKS if num_ingredients_of(load_layout(name)) == 3]
    options = {"indicate_successful_delivery": True}
    kitchens, worlds = build(names, None), first_worlds(tuple(names), None)
    env = stack([OvercookedV2(x, **options) for x in kitchens])
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        game = their_game(kitchens[0], options)

        def both(env: AbstractGridWorld, world: World) -> Any:
            seen = game.get_obs(translate(env.layout, world))
            return env.observe(world), jnp.stack([seen[f"agent_{i}"] for i in range(2)])

        each = eqx.filter_vmap(eqx.filter_vmap(both, in_axes=(None, 0)))
        ours, their = eqx.filter_jit(each)(env, worlds)
    np.testing.assert_array_equal(ours, their)


@pytest.mark.parametrize("name", KITCHENS)
def test_is_built_as_in_jaxmarl(name: str):
    ours, their = load_layout(name), layouts.overcooked_v2_layouts[name]
    np.testing.assert_array_equal(THEIR_TILES[np.asarray(ours.tiles)], their.static_objects)
    starts = [(int(col), int(row)) for row, col in ours.start.bodies.position]
    assert starts == their.agent_positions
    assert num_ingredients_of(ours) == their.num_ingredients
    menu, table = ours.params, contents_of(ours.kinds)
    codes = np.asarray(menu.recipes)[: int(menu.num_recipes)]
    recipes = {table.recipes[code - table.first_soup] for code in codes}
    assert recipes == {tuple(sorted(x)) for x in their.possible_recipes}
    assert len(layouts.overcooked_v2_layouts) == len(KITCHENS)


def frequencies(values: Any) -> dict[int, float]:
    """How often each number comes up."""
    found, counts = np.unique(np.asarray(values), return_counts=True)
    return dict(zip(found.tolist(), (counts / counts.sum()).tolist(), strict=True))


@pytest.mark.slow
def test_random_starts_have_jaxmarls_shares():
    name, games = "fun_coordination", 4000
    env = OvercookedV2(name, random_reset=True, start_by_hand=True)
    keys = jax.random.split(jax.random.key(0), games)
    worlds = eqx.filter_jit(lambda env, keys: jax.vmap(env.reset)(keys)[1])(env, keys)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        game = theirs.OvercookedV2(name, random_reset=True, start_cooking_interaction=True)
        their = jax.jit(jax.vmap(lambda key: game.reset(key)[1]))(keys)
        ours = jax.jit(jax.vmap(lambda world: translate(env.layout, world)))(worlds)
    tiles = np.asarray(env.layout.tiles)
    row, col = np.argwhere(tiles == Tile.POT)[0]
    views = {
        "pot": lambda x: np.asarray(x.grid)[:, row, col, 1] * 100 + x.grid[:, row, col, 2],
        "counters": lambda x: np.asarray(x.grid)[:, tiles == Tile.COUNTER, 1],
        "hands": lambda x: x.agents.inventory,
        "places": lambda x: np.asarray(x.agents.pos.x) * 100 + x.agents.pos.y,
        "directions": lambda x: x.agents.dir,
        "recipes": lambda x: x.recipe,
    }
    for what, view in views.items():
        our, other = frequencies(view(ours)), frequencies(view(their))
        for value in our.keys() | other.keys():
            p, q = our.get(value, 0.0), other.get(value, 0.0)
            assert abs(p - q) < 5 * np.sqrt((p + q) / games) + 1e-9, (what, value, p, q)
