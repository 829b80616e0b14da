"""States of the reference as dictionaries, to worlds and back: all recorded human states, and games
that are played in the reference."""

import json
from typing import Any

import jax
import pytest
from comparing import blank_record, differences
from kitchen_checks import assert_equal, unchecked
from raw_games import TEXTS, kitchen, read_games
from scripted_cooks import Cooks, Kitchen
from test_reference import (
    FOLDER,
    STEPS,
    build,
    mdp_module,
    orders,
    start_state,
    states_of,
    write,
)

from eqgrid.envs.overcooked import load_layout, parse_reference
from eqgrid.envs.overcooked.reference import (
    world_from_reference,
    world_to_reference,
    worlds_from_reference,
    worlds_to_reference,
)

pytestmark = pytest.mark.parity

NAMES = (
    "asymmetric_advantages_tomato",
    "bonus_order_test",
    "cramped_room_tomato",
    "long_cook_time",
    "multiplayer_schelling",
    "soup_coordination",
    "tutorial_1",  # a start of its own, with a soup in a pot
    "tutorial_3",
    "unident",
)
GAMES = 4


def normal(state: Any) -> dict:
    """What `to_dict` gives, with objects row by row and onions first, as a world has them."""
    written = state.to_dict()
    written["objects"].sort(key=lambda thing: thing["position"][::-1])
    held = [player["held_object"] for player in written["players"] if player["held_object"]]
    for thing in [*written["objects"], *held]:
        if thing["name"] == "soup":
            thing["_ingredients"].sort(key=lambda part: part["name"])
    return written


@pytest.mark.slow
def test_every_recorded_state_there_and_back():
    """The recorded states name no recipes, so they are given those of their games."""
    mdp_module.Recipe.configure({})
    recorded = {name: {} for name in TEXTS}
    count = 0
    for name, states, *_ in read_games():
        recorded[name] |= {str(state): state for state in states}
        count += len(states)
    more = {"all_orders": [{"ingredients": ["onion"] * 3}]}
    for name, distinct in recorded.items():
        layout, states = kitchen(name), list(distinct.values())
        with unchecked():  # checks of types would take most of the time
            worlds = worlds_from_reference(states, layout)
            ours = worlds_to_reference(worlds, layout)
            again = worlds_from_reference(ours, layout)
        assert_equal(again, worlds)
        for state, written in zip(states, ours, strict=True):
            listed = state | {"objects": [*state["objects"].values()]} | more
            theirs = normal(mdp_module.OvercookedState.from_dict(listed))
            assert written == theirs
    different = sum(map(len, recorded.values()))
    print(f"{count} recorded states, {different} of them different")
    assert (count, different) == (91_178, 55_959)


@pytest.mark.parametrize("name", NAMES)
def test_games_in_the_reference(name: str):
    mdp, steps = build(name), STEPS // (10 * GAMES)
    layout = parse_reference((FOLDER / f"{name}.layout").read_text())
    walks = Kitchen(["".join(row) for row in mdp.terrain_mtx], orders(mdp))
    pots = {(y, x) for x, y in mdp.get_pot_locations()}
    for seed in range(GAMES):
        state, act = start_state(mdp, seed), Cooks(walks, seed, by_hand=True).act
        record, states = blank_record(layout, 1, steps), []
        for time, (now, cooks) in enumerate(states_of(mdp, state, act, steps)):
            write(record, (0, time), now, cooks, pots)
            states.append(now)
        with unchecked():
            worlds = worlds_from_reference([state.to_dict() for state in states], layout)
            written = worlds_to_reference(worlds, layout)
            again = worlds_from_reference(json.loads(json.dumps(written)), layout)
        assert differences(jax.tree.map(lambda x: x[None], worlds), record) == {}
        for ours, state in zip(written, states, strict=True):
            assert ours == normal(state)
            assert ours == normal(mdp_module.OvercookedState.from_dict(ours))
        assert_equal(again, worlds)
        mdp._check_valid_state(mdp_module.OvercookedState.from_dict(written[-1]))


def test_the_reference_starts_where_we_do():
    for name in NAMES:
        mdp, layout = build(name), load_layout(name)
        start = mdp.get_standard_start_state()
        assert_equal(world_from_reference(start.to_dict(), layout), layout.start)
        assert world_to_reference(layout.start, layout) == normal(start)
