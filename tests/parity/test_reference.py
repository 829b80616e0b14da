"""The simulator in the `overcooked-ai` wheel (`interactive` dynamics), on all its two-cook layouts.

The reference keeps the recipes of a kitchen in class attributes: building one changes every other.
Here one kitchen is built per test, all of its games are played before the next is built, and the
recipes are checked to be its own when they have been.

`EQGRID_PARITY_STEPS=100000 pytest -m parity` plays that many joint steps on each layout.
"""

import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import at, blank_record, differences, number, replay
from kitchen_checks import stack
from scripted_cooks import Cooks, Kitchen, Scene

from eqgrid.envs.overcooked import EVENT_NAMES, Item, Overcooked, load_layout, parse_reference
from eqgrid.grid import Layout, World

mdp_module = pytest.importorskip(
    "overcooked_ai_py.mdp.overcooked_mdp",
    reason="needs the [parity] extra: pip install -e '.[test,parity]'",
)
actions_module = pytest.importorskip("overcooked_ai_py.mdp.actions")
pytestmark = pytest.mark.parity

FOLDER = Path(importlib.util.find_spec("overcooked_ai_py").origin).parent / "data" / "layouts"
OTHER_COMPANY = {"cramped_room_single": 1, "multiplayer_schelling": 4}
NAMES = sorted({path.stem for path in FOLDER.glob("*.layout")} - set(OTHER_COMPANY))
QUICK = (
    "cramped_room",
    "asymmetric_advantages",
    "coordination_ring",
    "forced_coordination",
    "counter_circuit",
    "cramped_room_tomato",
)
STEPS = int(os.environ.get("EQGRID_PARITY_STEPS", "5000"))
GAMES, HORIZON = 13, 400
LARGEST = (9, 14)
"""Every kitchen is padded to this size, for one compilation of all; what the padding does is tested
elsewhere."""

EVENTS = {
    "onion_pickup": "onion_pickup",
    "dish_pickup": "dish_pickup",
    "soup_pickup": "soup_pickup",
    "useful_dish_pickup": "useful_dish_pickup",
    "onion_drop": "onion_drop",
    "tomato_drop": "tomato_drop",
    "dish_drop": "dish_drop",
    "soup_drop": "soup_drop",
    "onion_potting": "potting_onion",
    "tomato_potting": "potting_tomato",
    "soup_delivery": "soup_delivery",
}
"""Our events that the reference logs, too. It does not log the start or the plating of a soup, nor
taking a tomato from a dispenser (but from a counter, it does)."""
LOGGED = [EVENT_NAMES.index(name) for name in EVENTS]


Team = Callable[[Scene], list[int]]
"""What chooses the next action of every cook."""


@dataclass
class Played:
    """What the reference said about some games: `[games, steps, ...]`."""

    actions: np.ndarray
    worlds: World
    told: dict[str, np.ndarray]
    delivered: list[list[tuple[int, int]]]


def contents(soup: Any) -> tuple[int, int]:
    return soup.ingredients.count("onion"), soup.ingredients.count("tomato")


def scene(state: Any) -> Scene:
    """The reference's state, with positions `(row, col)`."""
    cooks = []
    for player in state.players:
        held = player.held_object
        cooks.append(
            (
                player.position[::-1],
                actions_module.Direction.DIRECTION_TO_INDEX[player.orientation],
                Item[held.name.upper()].value if held else 0,
            )
        )
    things = {}
    for (x, y), thing in state.objects.items():
        if thing.name == "soup":
            timer = -1 if thing.is_idle else thing.cook_time_remaining
            things[y, x] = (Item.SOUP.value, contents(thing), timer)
        else:
            things[y, x] = (Item[thing.name.upper()].value, (0, 0), -1)
    return Scene(cooks, things)


def write(record: World, index: tuple[int, int], state: Any, seen: Scene, pots: set) -> None:
    """Fills one state of a game into the record."""
    cells, bodies = record.cells, record.bodies
    for where, (item, inside, timer) in seen.things.items():
        cells.object[(*index, *where)] = number(item, inside)
        cells.timer[(*index, *where)] = timer if where in pots else -1
    for i, (position, heading, item) in enumerate(seen.cooks):
        bodies.position[index][i] = position
        bodies.direction[index][i] = heading
        inside = contents(state.players[i].held_object) if item == Item.SOUP else (0, 0)
        bodies.held[index][i] = number(item, inside)
    record.time[index] = state.timestep


def build(name: str) -> Any:
    # A layout with a start of its own cannot be read before any recipes are configured.
    mdp_module.Recipe.configure({})
    return mdp_module.OvercookedGridworld.from_layout_name(name)


def orders(mdp: Any) -> list[tuple[int, int]]:
    return [
        (list(order["ingredients"]).count("onion"), list(order["ingredients"]).count("tomato"))
        for order in mdp.start_all_orders
    ]


def start_state(mdp: Any, seed: int) -> Any:
    """Every other game starts with random things in hands and pots."""
    if seed % 2 == 0:
        return mdp.get_standard_start_state()
    np.random.seed(seed)  # noqa: NPY002 (what the reference draws from)
    return mdp.get_random_start_state_fn(rnd_obj_prob_thresh=0.4)()


def states_of(mdp: Any, state: Any, act: Team, steps: int) -> Iterator[tuple[Any, Scene]]:
    """The states of a game in the reference, also as cooks see them."""
    for _ in range(steps):
        now = scene(state)
        yield state, now
        joint = tuple(actions_module.Action.INDEX_TO_ACTION[move] for move in act(now))
        state, _ = mdp.get_state_transition(state, joint)


def play(mdp: Any, layout: Layout, starts: list, teams: list[Team], steps: int) -> Played:
    """Plays one game per start and team in the reference."""
    record = blank_record(layout, len(starts), steps + 1)
    pots = {(y, x) for x, y in mdp.get_pot_locations()}
    shape = (len(starts), steps)
    planes = np.zeros((*shape, 2, *LARGEST, 26), np.uint8)
    moves = np.zeros((*shape, 2), int)
    told = {
        "reward": np.zeros((*shape, 2), np.float32),
        "shaped_reward": np.zeros((*shape, 2), np.float32),
        "events": np.zeros((*shape, 2, len(EVENTS)), np.int32),
        "planes": planes,
    }
    delivered: list[list[tuple[int, int]]] = [[] for _ in starts]
    for game, (state, act) in enumerate(zip(starts, teams, strict=True)):
        seen = scene(state)
        write(record, (game, 0), state, seen, pots)
        for time in range(steps):
            now = game, time
            moves[now] = act(seen)
            joint = tuple(actions_module.Action.INDEX_TO_ACTION[move] for move in moves[now])
            hands = [player.held_object for player in state.players]
            state, info = mdp.get_state_transition(state, joint)
            seen = scene(state)
            write(record, (game, time + 1), state, seen, pots)
            told["reward"][now] = sum(info["sparse_reward_by_agent"])
            told["shaped_reward"][now] = info["shaped_reward_by_agent"]
            happened = info["event_infos"]
            told["events"][now] = np.transpose([happened[theirs] for theirs in EVENTS.values()])
            for cook, seen_planes in enumerate(mdp.lossless_state_encoding(state)):
                planes[now][cook, : mdp.height, : mdp.width] = seen_planes.swapaxes(0, 1)
            delivered[game] += [
                contents(soup)
                for soup, done in zip(hands, happened["soup_delivery"], strict=True)
                if done
            ]
    planes[..., 25] = planes[..., :1, :1, 25]  # ones everywhere, in the padding too
    return Played(moves, record, told, delivered)


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[pytest.mark.slow] * (x not in QUICK)) for x in NAMES]
)
def test_follows_the_reference_on(name: str):
    mdp = build(name)
    recipes = {soup.ingredients: (soup.value, soup.time) for soup in mdp_module.Recipe.ALL_RECIPES}
    text_rows = ["".join(row) for row in mdp.terrain_mtx]
    kitchen = Kitchen(text_rows, orders(mdp))
    layout = parse_reference((FOLDER / f"{name}.layout").read_text()).pad(*LARGEST)
    env = stack([Overcooked(layout, dynamics="interactive", horizon=HORIZON)] * GAMES)
    deliveries: list[list[tuple[int, int]]] = []
    rewards = 0.0
    for batch in range(-(-STEPS // (GAMES * HORIZON))):
        seeds = range(batch * GAMES, (batch + 1) * GAMES)
        starts = [start_state(mdp, seed) for seed in seeds]
        teams = [Cooks(kitchen, seed, by_hand=True).act for seed in seeds]
        played = play(mdp, layout, starts, teams, HORIZON)
        start = at(played.worlds, slice(None), 0)
        if batch == 0:
            ours = jax.tree.map(lambda x: x[None, None], layout.start)
            assert differences(ours, at(start, slice(1), None)) == {}
        worlds, told = replay(env, start, jnp.asarray(played.actions))
        told["events"] = told["events"][..., LOGGED]
        theirs = at(played.worlds, slice(None), slice(1, None))
        assert differences((worlds, told), (theirs, played.told)) == {}
        deliveries += played.delivered
        rewards += played.told["reward"][..., 0].sum()

    assert recipes == {
        soup.ingredients: (soup.value, soup.time) for soup in mdp_module.Recipe.ALL_RECIPES
    }
    steps = len(deliveries) * HORIZON
    assert steps >= STEPS
    assert all(deliveries), "there is a game without a delivery"
    kinds = {soup for game in deliveries for soup in game}
    assert rewards > 0
    assert kinds & set(orders(mdp))
    assert len(kinds) >= min(3, len(kitchen.makeable))
    print(f"{name}: {steps} steps, {sum(map(len, deliveries))} soups of {len(kinds)} recipes")


def test_every_event_fires_and_is_the_references():
    """One cook does everything there is to do in `cramped_room_tomato`, after the other has put a
    tomato in the pot; on the way, each thing is put on a counter and taken back.

        XXPXX
        O  2T
        X1  X
        XDXSX
    """
    first = "........NWINIIENIIWSSIWIINEN" + "." * 9 + "IWNIISEESI"
    second = "EINIIWNIE"
    steps = len(first)
    scripts = zip(first, second.ljust(steps, "."), strict=True)
    script = iter([["NSEW.I".index(letter) for letter in joint] for joint in scripts])
    mdp = build("cramped_room_tomato")
    layout = load_layout(FOLDER / "cramped_room_tomato.layout").pad(*LARGEST)
    played = play(mdp, layout, [mdp.get_standard_start_state()], [lambda _: next(script)], steps)
    env = stack([Overcooked(layout, dynamics="interactive")])
    worlds, told = replay(env, at(played.worlds, slice(None), 0), jnp.asarray(played.actions))

    happened = np.asarray(told["events"]).sum(axis=(0, 1))
    totals = {name: happened[:, i].tolist() for i, name in enumerate(EVENT_NAMES)}
    assert totals == {
        "onion_pickup": [2, 0],
        "tomato_pickup": [0, 2],  # once from the dispenser, which the reference does not log
        "dish_pickup": [2, 0],
        "soup_pickup": [2, 0],
        "useful_dish_pickup": [1, 0],
        "onion_drop": [1, 0],
        "tomato_drop": [0, 1],
        "dish_drop": [1, 0],
        "soup_drop": [1, 0],
        "onion_potting": [1, 0],
        "tomato_potting": [0, 1],
        "cooking_start": [1, 0],  # nor does it log this
        "soup_plating": [1, 0],  # nor this
        "soup_delivery": [1, 0],
    }
    assert np.asarray(told["shaped_reward"]).sum(axis=(0, 1)).tolist() == [3 + 5 + 3, 3]
    assert np.asarray(told["reward"]).sum(axis=(0, 1)).tolist() == [50, 50]
    told["events"] = told["events"][..., LOGGED]
    theirs = at(played.worlds, slice(None), slice(1, None))
    assert differences((worlds, told), (theirs, played.told)) == {}
