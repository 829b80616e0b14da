"""Scripted cooks, as partners: one brings onions, one brings dishes, one does both."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias, final, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Int32, PRNGKeyArray, Shaped, UInt8

from ..._partner import AbstractPartner, Seen
from ...grid import IDLE, Bodies, Layout, World, next_to
from ...typing import PyTree
from ._contents import MAX_INGREDIENTS, Item, Tile, item_of, soup_size
from ._overcooked import INTERACT, STAY
from ._ways import FAR, STEPS, around, count_steps, label_regions
from .layouts import load_layout


@final
class HandsOff(AbstractPartner):
    """A wrapper of a partner that replaces its interactions with certain cells by `stay`.

    **Arguments:**

    - `partner`: the other partner, in a kitchen.
    - `cells`: the cells that it does not use.
    """

    partner: AbstractPartner
    cells: Bool[Array, "height width"]

    def initial_carry(self) -> PyTree[Shaped[Array, "..."]]:
        return self.partner.initial_carry()

    def __call__(
        self, seen: Seen, carry: PyTree[Shaped[Array, "..."]], key: PRNGKeyArray
    ) -> tuple[Shaped[Array, "..."], PyTree[Shaped[Array, "..."]]]:
        action, carry = self.partner(seen, carry, key)
        bodies = seen.state.bodies
        direction = bodies.direction[seen.seat].astype(jnp.int32)
        row, col = bodies.position[seen.seat].astype(jnp.int32) + jnp.asarray(STEPS)[direction]
        stays = (action == INTERACT) & self.cells[row, col]
        return jnp.where(stays, STAY, action).astype(action.dtype), carry


CookRole: TypeAlias = Literal["greedy", "onion", "dish"]
"""The tasks of a `ScriptedCook`: whatever is needed most, filling pots, or serving soups."""

_TOLL = 4  # the cost of a cell that another cook occupies, in extra steps
_LEAD = 10  # a dish is fetched when a soup will be ready in at most this many steps
_PATIENCE = 6  # a cook that has been idle for this many steps is not expected to help
_WAITING_AT = 2  # the distance from a station at which a cook waits until it can be used
_BOLDNESS = 0.5  # the probability of a random move where two cooks block each other


@final
class CookMemory(eqx.Module):
    """The memory of a `ScriptedCook`.

    **Arguments:**

    - `bodies`: the bodies of all cooks before the last step.
    - `idle`: the number of steps for which each cook's body has not changed.
    - `walked`: whether the cook's own last action was a move to another floor cell.
    """

    bodies: Bodies
    idle: Int32[Array, " agents"]
    walked: Bool[Array, ""]


@final
class ScriptedCook(AbstractPartner):
    """A scripted partner that goes to the nearest station for its role along a shortest path.

    It cooks soups of three onions, with the `classic` and the `interactive` dynamics. It works only
    in the kitchen for which it was built. It puts an item that it cannot use or deliver on a
    counter that another cook can reach, if there is one. It does not fetch an item that another
    cook is already bringing. If another cook blocks its path, it goes around it, or makes a random
    move, so that two scripted cooks do not wait for each other for ever.

    ```python
    import jax

    from eqgrid import make, play
    from eqgrid.envs.overcooked import ScriptedCook

    team = ScriptedCook("cramped", "onion"), ScriptedCook("cramped", "dish")
    print(play(make("overcooked"), team, jax.random.key(0)).episode_return)
    ```

    **Arguments:**

    - `tiles`: the kinds of tiles of the kitchen.
    - `regions`: a label for every floor cell, equal for cells that are connected.
    - `to_onions`, `to_dishes`: the number of steps from every cell to the nearest dispenser.
    - `brings_onions`, `brings_dishes`: the tasks of the cook. A cook that brings dishes also
        delivers the soups.
    - `bodies`: the bodies of all cooks in the initial state.
    """

    tiles: UInt8[Array, "height width"]
    regions: Int32[Array, "height width"]
    to_onions: Int32[Array, "height width"]
    to_dishes: Int32[Array, "height width"]
    brings_onions: Bool[Array, ""]
    brings_dishes: Bool[Array, ""]
    bodies: Bodies

    def __init__(self, layout: str | Path | Layout, role: CookRole = "greedy"):
        """**Arguments:**

        - `layout`: the kitchen, in any form that `Overcooked` accepts.
        - `role`: `"onion"` fills the pots, `"dish"` plates and delivers soups, `"greedy"` does
            whatever is needed most.

        **Raises:** `ValueError` when there is no such layout or role.
        """
        if role not in get_args(CookRole):
            raise ValueError(
                f"There is no role {role!r} for a cook: choose {', '.join(get_args(CookRole))}."
            )
        layout = load_layout(layout)
        self.tiles, self.bodies = layout.tiles, layout.start.bodies
        floor = self.tiles == Tile.FLOOR
        self.regions = label_regions(floor)
        free = jnp.zeros(floor.shape, jnp.int32)
        self.to_onions = count_steps(floor, self.tiles == Tile.ONION_DISPENSER, free)
        self.to_dishes = count_steps(floor, self.tiles == Tile.DISH_DISPENSER, free)
        self.brings_onions = jnp.asarray(role != "dish")
        self.brings_dishes = jnp.asarray(role != "onion")

    def initial_carry(self) -> CookMemory:
        idle = jnp.zeros(self.bodies.direction.shape, jnp.int32)
        return CookMemory(self.bodies, idle, jnp.asarray(False))

    def __call__(
        self, seen: Seen, carry: CookMemory, key: PRNGKeyArray
    ) -> tuple[Int[Array, ""], CookMemory]:
        world, seat = seen.state, seen.seat
        same = jax.tree.map(
            lambda before, after: (before == after).reshape(len(before), -1).all(axis=-1),
            carry.bodies,
            world.bodies,
        )
        idle = jnp.where(jax.tree.reduce(jnp.logical_and, same), carry.idle + 1, 0)
        errand = self._choose_errand(world, seat, idle)
        stuck = carry.walked & same.position[seat]
        action = self._walk(errand, world.bodies, seat, stuck, key)
        ahead = around(self.tiles, world.bodies.position[seat])
        walked = (action < len(ahead)) & (ahead[action % len(ahead)] == Tile.FLOOR)
        return action, CookMemory(world.bodies, idle, walked)

    def _choose_errand(
        self, world: World, seat: Int[Array, ""], idle: Int32[Array, " agents"]
    ) -> "_Errand":
        look = _look(self, world, seat, idle)
        holds = item_of(world.bodies.held[seat])
        brings_onions, brings_dishes = self.brings_onions, self.brings_dishes
        with_nothing = _first(
            (
                (True, look.unlit, True),
                (brings_dishes & look.serving.any(), look.soups, True),
                (brings_dishes & look.lacks_dishes, look.dishes, True),
                (brings_onions & look.lacks_onions, look.onions, True),
                (brings_onions, look.onions, True),
                (True, look.dishes, False),
            )
        )
        reaches_pots, has_to_switch = look.pots.any(), brings_dishes & look.lacks_dishes_now
        with_onion = _first(
            (
                (True, look.hungry, True),
                (~reaches_pots & (look.lacks_onions | has_to_switch), look.handover, True),
                (reaches_pots & (has_to_switch | look.unlit.any()), look.handover, True),
                (~brings_onions, look.handover, True),
                (True, look.pots, False),
                (True, look.handover, False),
            )
        )
        with_dish = _first(
            (
                (True, look.ready, True),
                (~reaches_pots | ~brings_dishes, look.handover, True),
                (True, look.cooking, False),
                (brings_onions | look.unlit.any(), look.handover, True),
                (True, look.pots, False),
                (True, look.handover, False),
            )
        )
        with_soup = _first(((True, look.serving, True), (True, look.handover, True)))
        errands = (with_nothing, with_onion, with_dish, with_soup)
        chosen = _Errand(look.handover, jnp.asarray(True))  # for items that the cook cannot use
        known = (Item.NOTHING, Item.ONION, Item.DISH, Item.SOUP)
        for item, errand in zip(known, errands, strict=True):
            held = holds == item
            chosen = _Errand(
                jnp.where(held, errand.targets, chosen.targets),
                jnp.where(held, errand.now, chosen.now),
            )
        return chosen

    def _walk(
        self,
        errand: "_Errand",
        bodies: Bodies,
        seat: Int[Array, ""],
        stuck: Bool[Array, ""],
        key: PRNGKeyArray,
    ) -> Int32[Array, ""]:
        """The next action of the cook towards its target."""
        drawn = jax.random.uniform(key, (6,))  # 4 to break ties, 1 for boldness, 1 for a move
        others = jnp.arange(bodies.direction.shape[0]) != seat
        here, floor = bodies.position[seat], self.tiles == Tile.FLOOR
        row, col = bodies.position[:, 0], bodies.position[:, 1]
        toll = jnp.zeros(floor.shape, jnp.int32).at[row, col].add(_TOLL * others.astype(jnp.int32))
        steps = count_steps(floor, errand.targets, toll)
        left, beside = steps[here[0], here[1]], around(errand.targets, here)
        further, crowd = around(steps, here), around(toll, here)
        nearer = jnp.argmin((further + crowd).astype(float) + drawn[:4])
        distant = jnp.where((further < FAR) & (crowd == 0), further.astype(float) + drawn[:4], -1.0)
        away = jnp.argmax(distant)
        faces = beside[bodies.direction[seat].astype(jnp.int32)]
        use = jnp.where(faces, INTERACT, jnp.argmax(beside))
        go = jnp.where(left == 0, use, nearer)
        wait = jnp.where(left > _WAITING_AT, nearer, jnp.where(left < _WAITING_AT, away, STAY))
        action = jnp.where(errand.now, go, wait)
        action = jnp.where(left >= FAR, STAY, action)
        idles = ~errand.now | (left >= FAR)
        bold = (stuck | (idles & (crowd > 0).any())) & (drawn[4] < _BOLDNESS)
        move = jnp.floor(drawn[5] * len(beside))
        return jnp.where(bold, move, action.astype(float)).astype(jnp.int32)


@final
class _Errand(eqx.Module):
    """The current goal of a cook: to stand next to one of `targets`, and to interact with it if
    `now`; otherwise to wait nearby.
    """

    targets: Bool[Array, "height width"]
    now: Bool[Array, ""]


@final
class _Look(eqx.Module):
    """The state of the kitchen for one cook. It can stand next to all marked cells.

    - `onions`, `dishes`: dispensers of them, and counters with one on them.
    - `soups`: counters with a soup on them.
    - `serving`: serving hatches.
    - `handover`: empty counters that another cook can reach, too.
    - `pots`: all pots; `hungry` ones need onions, `unlit` ones must be started by hand, `ready`
        ones can be plated, and `cooking` ones are not ready yet.
    - `lacks_onions`, `lacks_dishes`: whether more are needed than other cooks bring.
    - `lacks_dishes_now`: whether a dish is needed that no other cook has or could fetch.
    """

    onions: Bool[Array, "height width"]
    dishes: Bool[Array, "height width"]
    soups: Bool[Array, "height width"]
    serving: Bool[Array, "height width"]
    handover: Bool[Array, "height width"]
    pots: Bool[Array, "height width"]
    hungry: Bool[Array, "height width"]
    unlit: Bool[Array, "height width"]
    ready: Bool[Array, "height width"]
    cooking: Bool[Array, "height width"]
    lacks_onions: Bool[Array, ""]
    lacks_dishes: Bool[Array, ""]
    lacks_dishes_now: Bool[Array, ""]


def _look(
    cook: ScriptedCook, world: World, seat: Int[Array, ""], idle: Int32[Array, " agents"]
) -> _Look:
    tiles, bodies = cook.tiles, world.bodies
    others = jnp.arange(bodies.direction.shape[0]) != seat
    position = (bodies.position[:, 0], bodies.position[:, 1])
    own = cook.regions[position[0][seat], position[1][seat]]
    mine = next_to(cook.regions == own)
    code, clock = world.cells.object, world.cells.clock
    lies, counter, pot = item_of(code), tiles == Tile.COUNTER, tiles == Tile.POT
    size = soup_size(code).astype(jnp.int32)
    hungry = pot & (clock == IDLE) & (size < MAX_INGREDIENTS)
    ready, cooking = pot & (clock == 0), pot & (clock > 0)
    reaches_pots = (pot & mine).any()
    taken_from = counter & reaches_pots  # other cooks may have put items there to hand them over

    def supply(item: Item, steps: Int32[Array, "height width"]) -> tuple[Array, Array]:
        """The number of these items that other cooks already bring, and the number of other cooks
        that could fetch one: those closer to it than this cook, and all.
        """
        held = item_of(bodies.held)
        count = (others & (held == item)).sum() + jnp.where(
            reaches_pots, 0, (counter & (lies == item)).sum()
        )
        far, numbers = steps[position], jnp.arange(len(others))
        first = (far < far[seat]) | ((far == far[seat]) & (numbers < seat))
        free = others & (held == Item.NOTHING) & (idle < _PATIENCE) & (idle[seat] < _PATIENCE)
        free &= far < FAR
        return count, jnp.stack([(free & first).sum(), free.sum()])

    onions, rivals = supply(Item.ONION, cook.to_onions)
    wanted = jnp.where(hungry, MAX_INGREDIENTS - size, 0).sum()
    dishes, rivals_for_dish = supply(Item.DISH, cook.to_dishes)
    late = (ready | cooking).sum()
    soon = jnp.where(reaches_pots, (ready | (cooking & (clock <= _LEAD))).sum(), late)
    due = jnp.where(wanted == 0, late, soon)
    others_reach = jnp.ones(tiles.shape, bool)  # if there is only one cook
    if len(others) > 1:
        regions = jnp.where(others, cook.regions[position], -2)
        others_reach = next_to((cook.regions[None] == regions[:, None, None]).any(axis=0))
    return _Look(
        onions=mine & ((tiles == Tile.ONION_DISPENSER) | (taken_from & (lies == Item.ONION))),
        dishes=mine & ((tiles == Tile.DISH_DISPENSER) | (taken_from & (lies == Item.DISH))),
        soups=mine & counter & (lies == Item.SOUP),
        serving=mine & (tiles == Tile.SERVING),
        handover=mine & counter & (lies == Item.NOTHING) & others_reach,
        pots=mine & pot,
        hungry=mine & hungry,
        unlit=mine & pot & (clock == IDLE) & (size >= MAX_INGREDIENTS),
        ready=mine & ready,
        cooking=mine & cooking,
        lacks_onions=wanted > onions + rivals[0],
        lacks_dishes=due > dishes + rivals_for_dish[0],
        lacks_dishes_now=due > dishes + rivals_for_dish[1],
    )


def _first(
    choices: Sequence[tuple[Bool[Array, ""] | bool, Bool[Array, "height width"], bool]],
) -> _Errand:
    """The first errand whose condition is true and that has any target."""
    targets, now = jnp.zeros_like(choices[0][1]), jnp.asarray(False)
    for wanted, cells, at_once in reversed(choices):
        chosen = jnp.asarray(wanted) & cells.any()
        targets, now = jnp.where(chosen, cells, targets), jnp.where(chosen, at_once, now)
    return _Errand(targets, now)
