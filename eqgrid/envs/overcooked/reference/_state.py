"""Conversion between worlds and states of Overcooked-AI, which are dictionaries."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int8, Int16, Int32, UInt8

from ....grid import IDLE, Direction, Layout, World
from ....typing import PyTree
from .._contents import (
    ALL_RECIPES,
    DIGIT,
    MAX_INGREDIENTS,
    RADIX,
    Ingredient,
    Item,
    Recipe,
    Tile,
    contents_of,
)
from .._ways import ORIENTATIONS

_ORIENTATION_OF = {direction: pair for pair, direction in ORIENTATIONS.items()}
_OBJECTS = {item.name.lower(): item for item in Item if item != Item.NOTHING}
_OLD_COOK_TIME = 20
"""The number of steps after which a soup in the old form is ready."""

Json: TypeAlias = Any
"""A value that was read from JSON."""

_Place = tuple[int, int]  # (row, col); the reference has (col, row)
_CookTimes = Int16[np.ndarray, "onions tomatoes"]


def world_from_reference(state: Mapping[str, Json], layout: Layout) -> World:
    """Converts a state of Overcooked-AI to a world.

    A `World` has no orders, since they are part of the layout, and it does not store in which order
    ingredients were added. A soup that has cooked for longer than its cook time is simply ready.

    **Arguments:**

    - `state`: the output of `OvercookedState.to_dict`, also after a round trip through JSON. States
        of the games recorded in 2019 have an older form, which is accepted, too: objects are a
        dictionary by position, and a soup has a `"state"`. Other keys are ignored, as in the
        reference.
    - `layout`: the kitchen of the state.

    **Raises:** `ValueError` when a key is missing, an object or a cook is in an impossible place,
    or the cooks, orders or cook times differ from the layout.
    """
    return _as_world(_read_state(state, layout), layout)


def worlds_from_reference(states: Sequence[Mapping[str, Json]], layout: Layout) -> World:
    """Converts many states at once, such as a recorded game, which is faster than one by one.

    **Arguments:**

    - `states`: at least one state, in a form that `world_from_reference` accepts.
    - `layout`: the kitchen of the states.

    **Returns:** a world whose arrays have a leading axis of the length of `states`.

    **Raises:** `ValueError` as `world_from_reference`, with the index of the state.
    """
    # Convert the arrays of the layout once, since each conversion from JAX to NumPy takes time.
    plain = jax.tree.map(np.asarray, layout)
    arrays = []
    for number, state in enumerate(states):
        try:
            arrays.append(_read_state(state, plain))
        except ValueError as error:
            raise ValueError(f"State {number}: {error}") from error
    if not arrays:
        raise ValueError("There is no state to be read: give at least one.")
    return _as_world(_Arrays(*map(np.stack, zip(*arrays, strict=True))), layout)


def world_to_reference(world: World, layout: Layout) -> dict[str, Json]:
    """Converts a world to a state of Overcooked-AI, in the form of `OvercookedState.to_dict`.

    Objects are in row-major order, and onions come before tomatoes in a soup. Soups that have not
    been started have the `"cook_time"` -1, as in `OvercookedState.to_dict`. When the reference
    loads the dictionary, it would regard such a soup as ready once it is started, so remove this
    key before the reference continues from the state.

    **Arguments:**

    - `world`: one world.
    - `layout`: the kitchen of the world, with its orders and cook times.

    **Raises:** `ValueError` for several worlds, and for anything that the reference does not
    support, such as an object of another game.
    """
    if world.time.ndim:
        raise ValueError("These are several worlds: use `worlds_to_reference`.")
    return _write_state(_Arrays(*map(np.asarray, _leaves(world))), layout)


def worlds_to_reference(worlds: World, layout: Layout) -> list[dict[str, Json]]:
    """Converts many worlds at once, such as an episode, which is faster than one by one.

    **Arguments:**

    - `worlds`: worlds along one leading axis.
    - `layout`: the kitchen of the worlds, with its orders and cook times.

    **Raises:** `ValueError` as `world_to_reference`, and for any other number of leading axes.
    """
    if worlds.time.ndim != 1:
        raise ValueError(f"Worlds need one more axis, but these have {worlds.time.ndim} more.")
    arrays = [np.asarray(leaf) for leaf in _leaves(worlds)]
    return [_write_state(_Arrays(*world), layout) for world in zip(*arrays, strict=True)]


class _Arrays(NamedTuple):
    """The arrays of one or more worlds, in NumPy."""

    codes: UInt8[np.ndarray, "*batch height width"]
    timers: Int16[np.ndarray, "*batch height width"]
    positions: Int8[np.ndarray, "*batch agents 2"]
    directions: Int8[np.ndarray, "*batch agents"]
    held: UInt8[np.ndarray, "*batch agents"]
    time: Int32[np.ndarray, "*batch"]


def _leaves(world: World) -> tuple[PyTree, ...]:
    """The arrays of a world, in the order of `_Arrays`."""
    cells, bodies = world.cells, world.bodies
    places = bodies.position, bodies.direction, bodies.held
    return (cells.object, cells.timer, *places, world.time)


def _as_world(arrays: _Arrays, layout: Layout) -> World:
    """The initial world of a layout with its arrays replaced by `arrays`."""
    return eqx.tree_at(_leaves, layout.start, tuple(map(jnp.asarray, arrays)))


def _read_state(state: Mapping[str, Json], layout: Layout) -> _Arrays:
    """**Raises:** `ValueError` as `world_from_reference`."""
    objects = _get(state, "objects", "The state")
    _check_orders(state, layout)
    tiles, times = np.asarray(layout.tiles), np.asarray(layout.params.cook_time)
    codes, timers = np.zeros(tiles.shape, np.uint8), np.full(tiles.shape, IDLE, np.int16)
    by_position = isinstance(objects, Mapping)  # the form of 2019
    for entry in _as_list(objects.values() if by_position else objects, "objects"):
        at = _read_place(_get(entry, "position", "An object"), tiles.shape)
        code, timer = _read_object(entry, times)
        _check_object(code, timer, at, Tile(int(tiles[at])))
        if codes[at] != Item.NOTHING:
            raise ValueError(
                f"The state has two objects at {_write_place(at)}: there is room for one."
            )
        codes[at], timers[at] = code, timer if tiles[at] == Tile.POT else IDLE
    players = _as_list(_get(state, "players", "The state"), "players")
    if len(players) != layout.num_agents:
        raise ValueError(
            f"The state has {len(players)} players, but the layout is for {layout.num_agents} "
            "cooks: give the layout of the state."
        )
    positions, directions, held = zip(
        *(_read_player(x, tiles, times) for x in players), strict=True
    )
    if len(set(positions)) < len(positions):
        raise ValueError("The state has two players in one cell: each needs a cell of its own.")
    time = _as_integer(state.get("timestep", 0), 2**31, "The timestep")
    cooks = np.asarray(positions, np.int8), np.asarray(directions, np.int8)
    return _Arrays(codes, timers, *cooks, np.asarray(held, np.uint8), np.asarray(time, np.int32))


# In the following functions, `what` is the subject of the error message.


def _get(table: Json, key: str, what: str) -> Json:
    if not isinstance(table, Mapping):
        raise ValueError(f"{what} must be a dictionary, but is {table!r:.60}.")
    if key not in table:
        raise ValueError(
            f"{what} has no {key!r}: it must be the output of `to_dict` of Overcooked-AI."
        )
    return table[key]


def _as_list(values: Json, what: str) -> list[Json]:
    if not hasattr(values, "__iter__") or isinstance(values, str):
        raise ValueError(f"The {what} must be a list, but are {values!r:.60}.")
    return list(values)


def _as_integer(number: Json, limit: int, what: str, least: int = 0) -> int:
    is_integer = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if not (is_integer and least <= number < limit):
        raise ValueError(
            f"{what} must be a whole number from {least} to {limit - 1}, but is {number!r:.60}."
        )
    return int(number)


def _as_pair(pair: Json, what: str) -> tuple[int, int]:
    if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
        raise ValueError(f"{what} must be two numbers, but is {pair!r:.60}.")
    first, second = (_as_integer(x, 2**31, what, -(2**31)) for x in pair)
    return first, second


def _read_place(position: Json, shape: tuple[int, ...]) -> _Place:
    """Converts a position `(col, row)` of the reference to `(row, col)`."""
    col, row = _as_pair(position, "A position")
    if not (0 <= row < shape[0] and 0 <= col < shape[1]):
        raise ValueError(f"The position {(col, row)} is outside the grid of the layout.")
    return row, col


def _write_place(at: _Place) -> _Place:
    """Converts `(row, col)` to a position `(col, row)` of the reference."""
    row, col = at
    return col, row


def _counts(names: Sequence[str]) -> tuple[int, int]:
    """The numbers of onions and of tomatoes."""
    return names.count("onion"), names.count("tomato")


def _check_orders(state: Mapping[str, Json], layout: Layout) -> None:
    """Checks that the orders equal the orders of the layout. States in the older form have no
    orders. An empty list of `all_orders` means all recipes, so it is not checked either.
    """
    for key, marks in (
        ("all_orders", np.asarray(layout.params.ordered)),
        ("bonus_orders", np.asarray(layout.params.bonus)),
    ):
        orders = _as_list(state.get(key, ()), key)
        if key not in state or (key == "all_orders" and not orders):
            continue
        parts = [_as_list(_get(x, "ingredients", "An order"), "'ingredients'") for x in orders]
        found = {tuple(sorted(map(str, names))) for names in parts}
        if found != {recipe for recipe in ALL_RECIPES if marks[_counts(recipe)]}:
            raise ValueError(
                f"The {key!r} of the state differ from the layout: give the layout of the state."
            )


def _read_player(
    player: Json, tiles: UInt8[np.ndarray, "height width"], times: _CookTimes
) -> tuple[_Place, Direction, int]:
    """The position and the direction of a player, and the code of the object that it holds."""
    at = _read_place(_get(player, "position", "A player"), tiles.shape)
    if tiles[at] != Tile.FLOOR:
        raise ValueError(f"The state has a player at {_write_place(at)}, where there is no floor.")
    orientation = _as_pair(_get(player, "orientation", "A player"), "An orientation")
    if orientation not in ORIENTATIONS:
        raise ValueError(
            f"The state has a player that faces {orientation}: the directions are "
            f"{', '.join(map(str, ORIENTATIONS))}."
        )
    code = int(Item.NOTHING)
    if (held := player.get("held_object")) is not None:
        if _read_place(_get(held, "position", "A held object"), tiles.shape) != at:
            raise ValueError(f"The player at {_write_place(at)} holds an object that is elsewhere.")
        code, timer = _read_object(held, times)
        _check_object(code, timer, at, None)
    return at, ORIENTATIONS[orientation], code


def _read_object(entry: Json, times: _CookTimes) -> tuple[int, int]:
    """The code of an object, and the number of steps until it is ready: `IDLE` for a soup that has
    not been started, and for other objects.
    """
    name = _get(entry, "name", "An object")
    if not isinstance(name, str) or name not in _OBJECTS:
        raise ValueError(
            f"The state has an object {name!r:.60}: Overcooked-AI has {', '.join(_OBJECTS)}."
        )
    if name != "soup":
        return int(_OBJECTS[name]), IDLE
    # `tick` is the number of steps for which a soup has cooked: `IDLE` if it has not been started.
    is_old = "state" in entry  # the form of 2019, where 0 steps mean that it has not been started
    if is_old:
        parts = _as_list(entry["state"], "'state' of a soup")
        if len(parts) != 3:
            raise ValueError(
                "The 'state' of a soup must be an ingredient, its number, and the steps for which "
                f"the soup has cooked, but is {parts!r:.60}."
            )
        limit = MAX_INGREDIENTS + 1
        amount = _as_integer(parts[1], limit, "The number of ingredients in a soup", 1)
        names = [parts[0]] * amount
        tick = _as_integer(parts[2], 2**31, "The time in the 'state' of a soup") or IDLE
    else:
        parts = _as_list(_get(entry, "_ingredients", "A soup"), "'_ingredients'")
        tick = entry.get("cooking_tick", IDLE)
        tick = _as_integer(tick, 2**31, "The 'cooking_tick' of a soup", IDLE)
        names = [_get(part, "name", "An ingredient") for part in parts]
    onions, tomatoes = _counts(names)
    if onions + tomatoes != len(names):
        raise ValueError(f"A soup cannot be of {names!r:.60}: it is made of onions and tomatoes.")
    if not 1 <= len(names) <= MAX_INGREDIENTS:
        raise ValueError(
            f"The state has a soup of {len(names)} ingredients, but it can have 1 to "
            f"{MAX_INGREDIENTS}."
        )
    cook_time = int(times[onions, tomatoes])
    if tick != IDLE and entry.get("cook_time", cook_time) != cook_time:
        raise ValueError(
            f"The state has a soup that cooks for {entry['cook_time']!r:.60} steps, but "
            f"{cook_time} in the layout: give the layout of the state."
        )
    if tick == IDLE:
        timer = IDLE
    elif is_old and tick >= _OLD_COOK_TIME:
        timer = 0
    else:
        timer = max(cook_time - tick, 0)
    code = Item.SOUP + int(DIGIT[Ingredient.ONION]) * onions + tomatoes
    return int(code), timer


def _check_object(code: int, timer: int, at: _Place, tile: Tile | None) -> None:
    """Checks that an object can be on a kind of tile, or in a hand if `tile` is `None`."""
    is_soup = code >= Item.SOUP
    if tile not in (None, Tile.COUNTER, Tile.POT) or (tile == Tile.POT and not is_soup):
        raise ValueError(
            f"The state has an object at {_write_place(at)}, where it cannot be: soups are in "
            "pots, and anything can lie on counters."
        )
    if is_soup and tile != Tile.POT and timer != 0:
        raise ValueError(f"The soup at {_write_place(at)} is not in a pot, so it must be ready.")


def _write_state(world: _Arrays, layout: Layout) -> dict[str, Json]:
    recipes, pots = layout.params, np.asarray(layout.tiles) == Tile.POT
    times = np.asarray(recipes.cook_time)
    timers = np.where(pots, world.timers, 0)  # soups on counters are ready
    cooks = zip(
        world.positions.tolist(), world.directions.tolist(), world.held.tolist(), strict=True
    )
    return {
        "players": [
            {
                "position": (col, row),
                "orientation": _ORIENTATION_OF[Direction(direction)],
                "held_object": _write_object(held, (row, col), 0, times) if held else None,
            }
            for (row, col), direction, held in cooks
        ],
        "objects": [
            _write_object(int(world.codes[row, col]), (row, col), int(timers[row, col]), times)
            for row, col in np.argwhere(world.codes != Item.NOTHING).tolist()
        ],
        "bonus_orders": _write_orders(np.asarray(recipes.bonus)),
        "all_orders": _write_orders(np.asarray(recipes.ordered)),
        "timestep": int(world.time),
    }


def _write_object(code: int, at: _Place, timer: int, times: _CookTimes) -> dict[str, Json]:
    position = _write_place(at)
    if code < Item.SOUP:
        return {"name": Item(code).name.lower(), "position": position}
    onions, tomatoes = contents_of(code)
    if code >= Item.SOUP + RADIX**2 or not 1 <= onions + tomatoes <= MAX_INGREDIENTS:
        raise ValueError(
            f"The object with the code {code} at {position} is unknown to Overcooked-AI."
        )
    cook_time = int(times[onions, tomatoes])
    if timer > cook_time:
        raise ValueError(
            f"The soup at {position} needs {timer} more steps, but cooks for {cook_time} steps in "
            "the layout: give the layout of the world."
        )
    tick = IDLE if timer == IDLE else cook_time - timer
    return {
        "name": "soup",
        "position": position,
        "_ingredients": [
            {"name": name, "position": position}
            for name in ["onion"] * onions + ["tomato"] * tomatoes
        ],
        "cooking_tick": tick,
        "is_cooking": timer > 0,
        "is_ready": timer == 0,
        "is_idle": timer == IDLE,
        "cook_time": IDLE if timer == IDLE else cook_time,
        "_cooking_tick": tick,
    }


def _write_orders(marks: Bool[np.ndarray, "onions tomatoes"]) -> list[dict[str, Recipe]]:
    """The marked recipes, in the order of the reference's lists."""
    return [{"ingredients": recipe} for recipe in _RANKED if marks[_counts(recipe)]]


def _rank(recipe: Recipe) -> int:
    """The sort key of recipes in the reference, which is its `Recipe.__int__`."""
    onions, tomatoes = _counts(recipe)
    number = onions + RADIX * tomatoes
    return number * (1 + RADIX**2) if onions and tomatoes else number


_RANKED = sorted(ALL_RECIPES, key=_rank)
