"""Loads kitchens by name, from a text, or from a file. Texts and files have a plain grid, or the
form of Overcooked-AI's `.layout` files.
"""

import ast
import dataclasses
import functools
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import UInt8

from .... import read_regular_text
from ....errors import did_you_mean
from ....grid import IDLE, Cell, Direction, Layout, LayoutError, World, check_named, empty_world
from .._contents import ALL_RECIPES, MAX_INGREDIENTS, Item, Recipe, Recipes, Tile, encode
from .._kinds import KINDS
from .._ways import ORIENTATIONS

Table: TypeAlias = dict[str, Any]
"""The entries of a file, of any kind."""

_Numbers: TypeAlias = Any  # a number, or a dict by recipe, from a file; `Recipes` checks it
_ONION_SOUP: Recipe = ("onion", "onion", "onion")

KITCHENS = {
    "cramped": """
        XXPXX
        O  2O
        X1  X
        XDXSX""",
    "asymmetric": """
        XXXXXXXXX
        O XSXOX S
        X   P 1 X
        X2  P   X
        XXXDXDXXX""",
    "ring": """
        XXXPX
        X 1 P
        D2X X
        O   X
        XOSXX""",
    "forced": """
        XXXPX
        O X1P
        O2X X
        D X X
        XXXSX""",
    "circuit": """
        XXXPPXXX
        X  2   X
        D XXXX S
        X  1   X
        XXXOOXXX""",
}
"""The five classic kitchens. In all of them, only soups of three onions are ordered."""

REFERENCE_NAMES = {
    "cramped_room": "cramped",
    "asymmetric_advantages": "asymmetric",
    "coordination_ring": "ring",
    "forced_coordination": "forced",
    "counter_circuit_o_1order": "circuit",
}
"""The short names of the five classic kitchens, by their names in Overcooked-AI."""


def load_layout(layout: str | Path | Layout) -> Layout:
    """Loads a kitchen by name, text or path.

    ```python
    from eqgrid.envs.overcooked import Overcooked, load_layout

    layout = load_layout('''
        XXPXX
        O1 2O
        X   X
        XDXSX''')
    env = Overcooked(layout)
    ```

    **Arguments:**

    - `layout`: a short name, a name in Overcooked-AI, a text of more than one line, the path of a
        file with such a text, or a `Layout`, which is returned as it is. A text is a grid (see
        `parse_kitchen`) or the content of a `.layout` file of Overcooked-AI.

    **Raises:** `LayoutError` when there is no such kitchen or file, or when the text is invalid.
    """
    if isinstance(layout, Layout):
        return layout
    check_named(layout, Path, Layout)
    if isinstance(layout, str) and "\n" in layout.strip():
        return _parse_text(layout)
    name = REFERENCE_NAMES.get(str(layout), str(layout))
    if name in KITCHENS:
        return parse_kitchen(KITCHENS[name], Recipes(orders=[_ONION_SOUP]))
    if name in reference_layouts():
        return _from_table(reference_layouts()[name])
    path = Path(layout)
    try:
        if not path.is_dir():
            return _read_file(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:  # a pipe, or a name that is too long
        raise LayoutError(
            f"The layout file {str(path)!r:.200} cannot be read: {error.strerror}."
        ) from error
    if str(layout) and path.is_dir():
        raise LayoutError(f"{str(layout)!r} is a folder: name one of the layout files in it.")
    if isinstance(layout, Path) or path.suffix or len(path.parts) > 1:
        raise LayoutError(f"There is no layout file {str(layout)!r}: check the path.")
    names = [*KITCHENS, *reference_layouts()]
    raise LayoutError(
        f"There is no layout {name!r}{did_you_mean(name, names)} Known are {', '.join(KITCHENS)}, "
        "the names of Overcooked-AI's layouts, and the path of a layout file."
    )


@functools.cache
def reference_layouts() -> dict[str, Table]:
    """The layouts of Overcooked-AI by name, as the tables in `layouts.toml`."""
    text = (Path(__file__).parent / "layouts.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def parse_kitchen(
    text: str,
    recipes: Recipes | None = None,
    starts: Sequence[tuple[int, int]] | None = None,
) -> Layout:
    r"""Builds a kitchen from its text.

    ```python
    from eqgrid import make
    from eqgrid.envs.overcooked import parse_kitchen

    kitchen = parse_kitchen("XXPXX\nO1 2O\nX   X\nXDXSX")
    env = make("overcooked", layout=kitchen)
    print(kitchen.tiles.shape, env.num_agents)  # (4, 5) 2
    ```

    **Arguments:**

    - `text`: one row per line: `X` counter, `O` onion dispenser, `T` tomato dispenser, `D` dish
        dispenser, `P` pot, `S` serving hatch, `#` wall, blank floor, and `1` to `9`, then `a` to
        `z`, for the initial cells of the cooks.
    - `recipes`: the orders, values and cook times; by default all nine recipes are ordered, each
        worth 20 and cooked for 20 steps.
    - `starts`: `(row, col)` of every cook, instead of the marks in the text.

    **Raises:** `LayoutError` as in `Layout.parse`.
    """
    return Layout.parse(text, KINDS, Recipes() if recipes is None else recipes, starts)


def parse_reference(text: str) -> Layout:
    """Builds a kitchen from the text of a `.layout` file of Overcooked-AI, with its grid, orders,
    bonus orders, values, cook times and initial state.

    The bonus factor may be infinite, as in `tutorial_3`. Such a kitchen is only for comparison with
    the reference.

    **Raises:** `LayoutError` when the text is not such a file.
    """
    try:
        # Overcooked-AI evaluates these files as Python. In its own files, infinity is the only
        # expression that is not a literal, and the literal 1e999 is infinite.
        entries = ast.literal_eval(text.replace("float('inf')", "1e999"))
        grid = entries["grid"]
        if not isinstance(grid, str):
            raise LayoutError("its 'grid' must be a text, one row a line.")
    except LayoutError:
        raise
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise LayoutError("it is not a Python dictionary with a 'grid'.") from error
    try:
        orders = _reference_orders(entries, "start_all_orders")
        recipes = _build_recipes(
            orders=orders,
            bonus_orders=_reference_orders(entries, "start_bonus_orders"),
            values=_reference_numbers(entries, "value", "recipe_values", "delivery_reward", orders),
            cook_times=_reference_numbers(entries, "time", "recipe_times", "cook_time", orders),
            bonus_factor=entries.get("order_bonus", 2),
        )
        layout = parse_kitchen(grid, recipes)
        if start_state := entries.get("start_state"):
            layout = dataclasses.replace(layout, start=_reference_start(layout, start_state))
    except LayoutError:
        raise
    except ValueError as error:
        raise LayoutError(f"its recipes cannot be used: {error}") from error
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise LayoutError(f"an entry is missing or of the wrong kind ({error!s:.100}).") from error
    return layout


def _read_file(path: Path) -> Layout:
    try:
        text = read_regular_text(path)
    except UnicodeDecodeError as error:
        raise LayoutError(
            f"The layout file {str(path)!r} cannot be read: it is not UTF-8."
        ) from error
    try:
        layout = _parse_text(text)
    except ValueError as error:
        raise LayoutError(f"The layout file {str(path)!r} is broken: {error}") from error
    if not np.isfinite(layout.params.bonus_factor):
        raise LayoutError(
            f"The layout file {str(path)!r} cannot be used: its 'order_bonus' is infinite, so give "
            "a finite number."
        )
    return layout


def _parse_text(text: str) -> Layout:
    return parse_reference(text) if text.lstrip().startswith("{") else parse_kitchen(text)


def _from_table(table: Table) -> Layout:
    """Builds a kitchen from a table of `layouts.toml`."""
    recipes = _build_recipes(
        bonus_factor=table.get("bonus_factor", 2),
        orders=[_recipe(x) for x in table.get("orders", ())],
        bonus_orders=[_recipe(x) for x in table.get("bonus_orders", ())],
        values=_per_recipe(table.get("value", 20)),
        cook_times=_per_recipe(table.get("cook_time", 20)),
    )
    layout = parse_kitchen(table["grid"], recipes)
    for soup in table.get("soups", ()):
        contents = jnp.asarray([soup["of"].count("o"), soup["of"].count("t")])
        cells, at = layout.start.cells, (soup["row"], soup["col"])
        cells = dataclasses.replace(
            cells, object=cells.object.at[at].set(encode(Item.SOUP, contents))
        )
        layout = dataclasses.replace(layout, start=dataclasses.replace(layout.start, cells=cells))
    if facing := table.get("facing"):
        directions = [Direction[name.upper()] for name in facing]
        bodies = dataclasses.replace(
            layout.start.bodies, direction=jnp.asarray(directions, jnp.int8)
        )
        layout = dataclasses.replace(layout, start=dataclasses.replace(layout.start, bodies=bodies))
    return layout


def _recipe(letters: str) -> Recipe:
    """The recipe of letters in `layouts.toml`, such as `"oot"`."""
    return tuple({"o": "onion", "t": "tomato"}[letter] for letter in letters)


def _per_recipe(numbers: _Numbers) -> _Numbers:
    """Converts numbers of `layouts.toml`: one number for all recipes, a table by recipe, or a table
    by ingredient, `{o = 3, t = 2}`.
    """
    if not isinstance(numbers, dict):
        return numbers
    if set(numbers) == {"o", "t"}:
        return _sum_of_ingredients(numbers["o"], numbers["t"])
    return {_recipe(letters): number for letters, number in numbers.items()}


def _sum_of_ingredients(onion: Any, tomato: Any) -> dict[Recipe, Any]:
    """The number of each recipe, which is the sum of the numbers of its ingredients."""
    return {x: onion * x.count("onion") + tomato * x.count("tomato") for x in ALL_RECIPES}


def _reference_orders(entries: Table, key: str) -> list[Recipe]:
    return [tuple(sorted(recipe["ingredients"])) for recipe in entries.get(key) or []]


def _build_recipes(
    orders: list[Recipe],
    bonus_orders: list[Recipe],
    values: _Numbers,
    cook_times: _Numbers,
    bonus_factor: _Numbers,
) -> Recipes:
    """As `Recipes`, but the bonus factor may be infinite."""
    if bonus_factor != np.inf:
        return Recipes(orders, bonus_orders, values, cook_times, bonus_factor)
    recipes = Recipes(orders, bonus_orders, values, cook_times)
    infinite = jnp.asarray(np.inf, jnp.float32)
    return eqx.tree_at(lambda recipes: recipes.bonus_factor, recipes, infinite)


def _reference_numbers(
    entries: Table, kind: str, per_recipe: str, for_all: str, orders: list[Recipe]
) -> _Numbers:
    """One number for all recipes, or a dict by recipe.

    The files of the reference have three ways to specify such numbers, in this order of priority:
    one number for all recipes, a list by recipe, or a number for each ingredient.

    **Arguments:**

    - `entries`: the file.
    - `kind`: the end of the keys of the numbers for each ingredient: `"value"` or `"time"`.
    - `per_recipe`, `for_all`: the keys of the list and of the number for all recipes.
    - `orders`: the recipes of the list.
    """
    if entries.get(for_all):
        return entries[for_all]
    if entries.get(per_recipe):
        numbers = list(entries[per_recipe])
        if len(numbers) != len(orders):
            raise LayoutError(
                f"'{per_recipe}' has {len(numbers)} numbers for the {len(orders)} recipes of "
                "'start_all_orders': give one for each."
            )
        return dict(zip(orders, numbers, strict=True))
    onion, tomato = entries.get(f"onion_{kind}"), entries.get(f"tomato_{kind}")
    if onion and tomato:
        return _sum_of_ingredients(onion, tomato)
    return 20


def _reference_start(layout: Layout, start_state: Table) -> World:
    """The world of the initial state in a file of the reference."""
    tiles = np.asarray(layout.tiles)
    cells = layout.start.cells
    taken: set[tuple[int, int]] = set()
    for entry in start_state["objects"]:
        at = _place(entry["position"], tiles, taken, "XP", "an object")
        cells = _put(layout, cells, entry, at)
    players = start_state["players"]
    if not players:
        raise LayoutError("its start has no cooks: name at least one of the 'players'.")
    if any(player["held_object"] for player in players):
        raise LayoutError("a start with full hands is not supported: put the objects on counters.")
    taken = set()
    positions = [_place(x["position"], tiles, taken, " ", "a cook") for x in players]
    directions = []
    for player in players:
        if (orientation := tuple(player["orientation"])) not in ORIENTATIONS:
            raise LayoutError(
                f"its start has a cook that faces {player['orientation']!r:.60}: the directions "
                f"are {', '.join(map(str, ORIENTATIONS))}."
            )
        directions.append(ORIENTATIONS[orientation])
    world = empty_world(KINDS, tiles.shape, np.asarray(positions, np.int8), directions)
    return dataclasses.replace(world, cells=cells)


def _place(
    position: Sequence[Any],
    tiles: UInt8[np.ndarray, "height width"],
    taken: set[tuple[int, int]],
    allowed: str,
    what: str,
) -> tuple[int, int]:
    """Converts a position `(col, row)` of the reference to `(row, col)`, and adds it to `taken`.

    **Arguments:**

    - `position`: the position.
    - `tiles`: the kinds of tiles of the kitchen.
    - `taken`: the cells that are already taken.
    - `allowed`: the characters of the tiles on which the object or cook can be.
    - `what`: the object or cook, for error messages.

    **Raises:** `LayoutError` when the object or cook cannot be there.
    """
    height, width = tiles.shape
    col, row = position if len(position) == 2 else (-1, -1)
    if not (type(row) is type(col) is int and 0 <= row < height and 0 <= col < width):
        raise LayoutError(f"its start has {what} at {position!r:.60}, which is not a cell.")
    found = KINDS.tiles[tiles[row, col]].char or ""
    if found not in allowed:
        raise LayoutError(f"its start has {what} at {position!r}, where the grid has {found!r}.")
    if (row, col) in taken:
        raise LayoutError(f"its start has {what} at {position!r}, where there is one already.")
    taken.add((row, col))
    return row, col


def _put(layout: Layout, cells: Cell, entry: Table, at: tuple[int, int]) -> Cell:
    """Adds one object of an initial state of the reference to the cells."""
    names = [ingredient["name"] for ingredient in entry.get("_ingredients") or ()]
    onions, tomatoes = names.count("onion"), names.count("tomato")
    is_soup, in_pot = entry["name"] == "soup", layout.tiles[at] == Tile.POT
    if entry["name"] not in ("onion", "tomato", "dish", "soup") or (in_pot and not is_soup):
        raise LayoutError(f"its start has {entry['name']!r:.60} where it cannot be.")
    if is_soup and not 1 <= onions + tomatoes == len(names) <= MAX_INGREDIENTS:
        raise LayoutError(f"its start has a soup of {len(names)} ingredients: 1 to 3 are possible.")
    code = encode(Item[entry["name"].upper()], jnp.asarray([onions, tomatoes]))
    timer = jnp.asarray(IDLE, jnp.int16)
    if is_soup and in_pot:
        tick = entry["_cooking_tick"]  # the steps for which it has cooked; -1 if not started
        if type(tick) is not int or abs(tick) > 10_000:
            raise LayoutError(f"its start has a soup that has cooked for {tick!r:.60} steps.")
        if tick >= 0:
            timer = jnp.maximum(layout.params.cook_time[onions, tomatoes] - tick, 0)
    return dataclasses.replace(
        cells,
        object=cells.object.at[at].set(code),
        timer=cells.clock.at[at].set(timer),
    )
