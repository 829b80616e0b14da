"""Scripted partners: a cook that brings onions, a cook that brings dishes, and a cook that does
both.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias, final, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Int32, PRNGKeyArray, Shaped, UInt8

from ..._partner import AbstractPartner, PartnerInput
from ...grid import IDLE, Bodies, Layout, World, next_to
from ...typing import PyTree
from ._contents import MAX_INGREDIENTS, Item, Tile, item_of, soup_size
from ._overcooked import INTERACT, STAY
from ._ways import FAR, STEPS, around, count_steps, label_regions
from .layouts import load_layout


@final
class HandsOff(AbstractPartner):
    """A wrapper of a partner that replaces interactions with certain cells by `stay`.

    **Arguments:**

    - `partner`: the wrapped partner, which acts in a kitchen.
    - `cells`: the cells with which it must not interact.
    """

    partner: AbstractPartner
    cells: Bool[Array, "height width"]

    def initial_carry(self) -> PyTree[Shaped[Array, "..."]]:
        return self.partner.initial_carry()

    def __call__(
        self, seen: PartnerInput, carry: PyTree[Shaped[Array, "..."]], key: PRNGKeyArray
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
_LEAD = 10  # a cook fetches a dish when a soup will be ready in at most this number of steps
_PATIENCE = 6  # a cook that has been idle for this number of steps is not expected to help
_WAITING_DISTANCE = 2  # the distance from a station at which a cook waits until it can be used
_BOLDNESS = 0.5  # the probability of a random move where two cooks block each other


@final
class CookMemory(eqx.Module):
    """The memory of a `ScriptedCook`.

    **Arguments:**

    - `bodies`: the bodies of all cooks before the last step.
    - `idle`: the number of steps for which each cook's body has not changed.
    - `walked`: whether the cook's own last action was a move towards a floor cell.
    """

    bodies: Bodies
    idle: Int32[Array, " agents"]
    walked: Bool[Array, ""]


@final
class ScriptedCook(AbstractPartner):
    """A scripted partner that goes to the nearest station for its role along a shortest path.

    It cooks soups of three onions, with the `classic` and the `interactive` dynamics, and works
    only in the kitchen for which it was built. If it cannot use or deliver the item that it holds,
    it puts the item on a counter that another cook can reach, if there is such a counter. It does
    not fetch an item that another cook is already bringing. If another cook blocks its path, it
    goes around the other cook, or makes a random move, so that two scripted cooks do not wait for
    each other for ever.

    ```python
    import jax

    from eqgrid import make, play
    from eqgrid.envs.overcooked import ScriptedCook

    team = ScriptedCook("cramped", "onion"), ScriptedCook("cramped", "dish")
    print(play(make("overcooked"), team, jax.random.key(0)).episode_return)
    ```

    **Arguments:**

    - `tiles`: the kinds of tiles of the kitchen.
    - `regions`: a label for every floor cell, equal for connected cells.
    - `to_onions`, `to_dishes`: the number of steps from every cell to the nearest dispenser.
    - `brings_onions`, `brings_dishes`: the tasks of the cook. A cook that brings dishes also
        delivers soups.
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
        self, seen: PartnerInput, carry: CookMemory, key: PRNGKeyArray
    ) -> tuple[Int[Array, ""], CookMemory]:
        world, seat = seen.state, seen.seat
        same = jax.tree.map(
            lambda before, after: (before == after).reshape(len(before), -1).all(axis=-1),
            carry.bodies,
            world.bodies,
        )
        idle = jnp.where(jax.tree.reduce(jnp.logical_and, same), carry.idle + 1, 0)
        errand = self._choose_errand(world, seat, idle)
        blocked = carry.walked & same.position[seat]
        action = self._act(errand, world.bodies, seat, blocked, key)
        ahead = around(self.tiles, world.bodies.position[seat])
        walked = (action < len(ahead)) & (ahead[action % len(ahead)] == Tile.FLOOR)
        return action, CookMemory(world.bodies, idle, walked)

    def _choose_errand(
        self, world: World, seat: Int[Array, ""], idle: Int32[Array, " agents"]
    ) -> "_Errand":
        """The errand for the item that the cook holds. Each list has the possible errands by
        priority, as `(condition, targets, now)`.
        """
        view = _view(self, world, seat, idle)
        held = item_of(world.bodies.held[seat])
        brings_onions, brings_dishes = self.brings_onions, self.brings_dishes
        with_nothing = _first(
            (
                (True, view.unlit, True),
                (brings_dishes & view.serving.any(), view.soups, True),
                (brings_dishes & view.lacks_dishes, view.dishes, True),
                (brings_onions & view.lacks_onions, view.onions, True),
                (brings_onions, view.onions, True),
                (True, view.dishes, False),
            )
        )
        # A cook with an onion puts it down to fetch a dish that no other cook can fetch.
        reaches_pots, must_fetch_dish = view.pots.any(), brings_dishes & view.lacks_dishes_now
        with_onion = _first(
            (
                (True, view.hungry, True),
                (~reaches_pots & (view.lacks_onions | must_fetch_dish), view.handover, True),
                (reaches_pots & (must_fetch_dish | view.unlit.any()), view.handover, True),
                (~brings_onions, view.handover, True),
                (True, view.pots, False),
                (True, view.handover, False),
            )
        )
        with_dish = _first(
            (
                (True, view.ready, True),
                (~reaches_pots | ~brings_dishes, view.handover, True),
                (True, view.cooking, False),
                (brings_onions | view.unlit.any(), view.handover, True),
                (True, view.pots, False),
                (True, view.handover, False),
            )
        )
        with_soup = _first(((True, view.serving, True), (True, view.handover, True)))
        errands = {
            Item.NOTHING: with_nothing,
            Item.ONION: with_onion,
            Item.DISH: with_dish,
            Item.SOUP: with_soup,
        }
        chosen = _Errand(view.handover, jnp.asarray(True))  # for items that the cook cannot use
        for item, errand in errands.items():
            matches = held == item
            chosen = _Errand(
                jnp.where(matches, errand.targets, chosen.targets),
                jnp.where(matches, errand.now, chosen.now),
            )
        return chosen

    def _act(
        self,
        errand: "_Errand",
        bodies: Bodies,
        seat: Int[Array, ""],
        blocked: Bool[Array, ""],
        key: PRNGKeyArray,
    ) -> Int32[Array, ""]:
        """The next action of the cook for its errand."""
        uniform = jax.random.uniform(key, (6,))  # 4 to break ties, 1 for boldness, 1 for a move
        others = jnp.arange(bodies.direction.shape[0]) != seat
        here, floor = bodies.position[seat], self.tiles == Tile.FLOOR
        row, col = bodies.position[:, 0], bodies.position[:, 1]
        toll = jnp.zeros(floor.shape, jnp.int32).at[row, col].add(_TOLL * others.astype(jnp.int32))
        steps = count_steps(floor, errand.targets, toll)
        left, is_target = steps[here[0], here[1]], around(errand.targets, here)
        # Of the four cells around the cook: the steps that are left from there, and the tolls.
        left_after, crowd = around(steps, here), around(toll, here)
        nearer = jnp.argmin((left_after + crowd).astype(float) + uniform[:4])
        is_free = (left_after < FAR) & (crowd == 0)
        away = jnp.argmax(jnp.where(is_free, left_after.astype(float) + uniform[:4], -1.0))
        faces_target = is_target[bodies.direction[seat].astype(jnp.int32)]
        use = jnp.where(faces_target, INTERACT, jnp.argmax(is_target))
        go = jnp.where(left == 0, use, nearer)
        keep_away = jnp.where(left < _WAITING_DISTANCE, away, STAY)
        wait = jnp.where(left > _WAITING_DISTANCE, nearer, keep_away)
        action = jnp.where(errand.now, go, wait)
        action = jnp.where(left >= FAR, STAY, action)
        # If cooks block each other, or wait next to each other, random moves separate them.
        waits = ~errand.now | (left >= FAR)
        bold = (blocked | (waits & (crowd > 0).any())) & (uniform[4] < _BOLDNESS)
        move = jnp.floor(uniform[5] * len(is_target))
        return jnp.where(bold, move, action.astype(float)).astype(jnp.int32)


@final
class _Errand(eqx.Module):
    """The current goal of a cook.

    - `targets`: the cells to stand next to; the cook goes to the nearest one.
    - `now`: whether to interact with a target, or else to wait near it.
    """

    targets: Bool[Array, "height width"]
    now: Bool[Array, ""]


@final
class _View(eqx.Module):
    """The state of the kitchen for one cook. The cook can stand next to all marked cells.

    - `onions`, `dishes`: the dispensers of onions or dishes, and counters with such an item.
    - `soups`: counters with a soup.
    - `serving`: serving hatches.
    - `handover`: empty counters that another cook can reach, too.
    - `pots`: all pots.
    - `hungry`: pots that need onions.
    - `unlit`: pots that must be started by hand.
    - `ready`, `cooking`: pots with a soup that is ready, or not yet ready.
    - `lacks_onions`, `lacks_dishes`: whether more items are needed than other cooks bring or could
        fetch sooner.
    - `lacks_dishes_now`: whether more dishes are needed than other cooks bring or could fetch.
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


def _view(
    cook: ScriptedCook, world: World, seat: Int[Array, ""], idle: Int32[Array, " agents"]
) -> _View:
    tiles, bodies = cook.tiles, world.bodies
    others = jnp.arange(bodies.direction.shape[0]) != seat
    position = (bodies.position[:, 0], bodies.position[:, 1])
    own_region = cook.regions[position[0][seat], position[1][seat]]
    near = next_to(cook.regions == own_region)
    code, clock = world.cells.object, world.cells.clock
    item_at, counter, pot = item_of(code), tiles == Tile.COUNTER, tiles == Tile.POT
    size = soup_size(code).astype(jnp.int32)
    hungry = pot & (clock == IDLE) & (size < MAX_INGREDIENTS)
    ready, cooking = pot & (clock == 0), pot & (clock > 0)
    reaches_pots = (pot & near).any()
    # Only a cook that reaches pots takes items from counters. A cook that reaches no pot has put
    # them there itself for other cooks.
    source = counter & reaches_pots

    def supply(item: Item, steps: Int32[Array, "height width"]) -> tuple[Array, Array]:
        """The number of these items that are already on their way to a pot, and two numbers of
        other cooks that could fetch one: those closer to the dispenser than this cook, and all.
        """
        held = item_of(bodies.held)
        count = (others & (held == item)).sum() + jnp.where(
            reaches_pots, 0, (counter & (item_at == item)).sum()
        )
        distance, seats = steps[position], jnp.arange(len(others))
        closer = (distance < distance[seat]) | ((distance == distance[seat]) & (seats < seat))
        free = others & (held == Item.NOTHING) & (idle < _PATIENCE) & (idle[seat] < _PATIENCE)
        free &= distance < FAR
        return count, jnp.stack([(free & closer).sum(), free.sum()])

    onions, onion_helpers = supply(Item.ONION, cook.to_onions)
    needed_onions = jnp.where(hungry, MAX_INGREDIENTS - size, 0).sum()
    dishes, dish_helpers = supply(Item.DISH, cook.to_dishes)
    # Dishes are needed for all soups if the cook reaches no pot, or if no pot needs onions.
    # Otherwise they are needed only for soups that will be ready soon.
    soups = (ready | cooking).sum()
    soon = jnp.where(reaches_pots, (ready | (cooking & (clock <= _LEAD))).sum(), soups)
    needed_dishes = jnp.where(needed_onions == 0, soups, soon)
    others_reach = jnp.ones(tiles.shape, bool)  # if there is only one cook
    if len(others) > 1:
        regions = jnp.where(others, cook.regions[position], -2)
        others_reach = next_to((cook.regions[None] == regions[:, None, None]).any(axis=0))
    return _View(
        onions=near & ((tiles == Tile.ONION_DISPENSER) | (source & (item_at == Item.ONION))),
        dishes=near & ((tiles == Tile.DISH_DISPENSER) | (source & (item_at == Item.DISH))),
        soups=near & counter & (item_at == Item.SOUP),
        serving=near & (tiles == Tile.SERVING),
        handover=near & counter & (item_at == Item.NOTHING) & others_reach,
        pots=near & pot,
        hungry=near & hungry,
        unlit=near & pot & (clock == IDLE) & (size >= MAX_INGREDIENTS),
        ready=near & ready,
        cooking=near & cooking,
        lacks_onions=needed_onions > onions + onion_helpers[0],
        lacks_dishes=needed_dishes > dishes + dish_helpers[0],
        lacks_dishes_now=needed_dishes > dishes + dish_helpers[1],
    )


def _first(
    choices: Sequence[tuple[Bool[Array, ""] | bool, Bool[Array, "height width"], bool]],
) -> _Errand:
    """The first errand whose condition is true and that has at least one target.

    **Arguments:**

    - `choices`: a condition and the `targets` and `now` of an errand, by descending priority.
    """
    targets, now = jnp.zeros_like(choices[0][1]), jnp.asarray(False)
    for condition, cells, at_once in reversed(choices):
        chosen = jnp.asarray(condition) & cells.any()
        targets, now = jnp.where(chosen, cells, targets), jnp.where(chosen, at_once, now)
    return _Errand(targets, now)
