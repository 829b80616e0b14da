"""The reference's vector of features, `featurize_state`, bit by bit.

`EQGRID_PARITY_STEPS=100000 pytest -m parity` compares twenty times as many states.
"""

from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from comparing import at, blank_record, differences, pad_to
from kitchen_checks import random_world, stack, unchecked
from raw_games import TEXTS, kitchen, read_games
from scripted_cooks import Cooks, Kitchen
from test_reference import (
    FOLDER,
    LARGEST,
    STEPS,
    build,
    mdp_module,
    orders,
    start_state,
    states_of,
    write,
)

from eqgrid.envs.overcooked import load_layout
from eqgrid.envs.overcooked.reference import (
    ReferenceFeatures,
    worlds_from_reference,
    worlds_to_reference,
)
from eqgrid.grid import Layout, World

planners = pytest.importorskip("overcooked_ai_py.planning.planners")
pytestmark = pytest.mark.parity

CLASSIC = (
    "cramped_room",
    "asymmetric_advantages",
    "coordination_ring",
    "forced_coordination",
    "counter_circuit_o_1order",
)
OTHERS = (
    "asymmetric_advantages_tomato",  # a dispenser for each side
    "bottleneck",
    "centre_pots",  # two pots that are often equally near
    "cramped_corridor",  # two of most stations
    "forced_coordination_tomato",
    "large_room",
    "multiplayer_schelling",  # four cooks
    "pipeline",
    "soup_coordination",
    "unident",
    "you_shall_not_pass",
)
GAMES = 5
RECORDED = STEPS // 5
"""How many recorded states of each kitchen are compared, spread evenly over all of them."""


@pytest.fixture(autouse=True)
def old_numpy(monkeypatch):
    """The planner of the reference uses a name that NumPy 2 no longer has."""
    monkeypatch.setattr(np, "Inf", np.inf, raising=False)


def planner_of(mdp: Any) -> Any:
    """What `featurize_state` asks for distances: the motion planner of `NO_COUNTERS_PARAMS`. The
    rest of a `MediumLevelActionManager` plans for two, takes minutes to build and is not asked."""
    counters = planners.NO_COUNTERS_PARAMS["counter_goals"]
    return SimpleNamespace(motion_planner=planners.MotionPlanner(mdp, counters))


@eqx.filter_jit
def observe(features: ReferenceFeatures, layout: Layout, worlds: World) -> jax.Array:
    """The features of `[games, steps]` worlds."""
    see = jax.vmap(jax.vmap(lambda world: features(layout, world, jnp.asarray(0, jnp.int32))))
    return see(worlds)


def play(mdp: Any, layout: Layout, states: list[Any], teams: list[Any], steps: int) -> Any:
    """The states of some games in the reference, and their features."""
    record = blank_record(layout, len(states), steps)
    seen = np.zeros((len(states), steps, layout.num_agents, 48 * layout.num_agents), np.float32)
    pots = {(y, x) for x, y in mdp.get_pot_locations()}
    planner = planner_of(mdp)
    for game, (state, act) in enumerate(zip(states, teams, strict=True)):
        for time, (now, cooks) in enumerate(states_of(mdp, state, act, steps)):
            write(record, (game, time), now, cooks, pots)
            seen[game, time] = mdp.featurize_state(now, planner)
    return record, seen


def check_varied(seen: np.ndarray) -> None:
    """Soups are held, and pots are empty, full, cooking and ready; each of these at times only."""
    numbers = seen[..., [5, 16, 23, 24, 25, 26, 27, 29]]
    assert (numbers.max(axis=(0, 1, 2)) > numbers.min(axis=(0, 1, 2))).all()


@pytest.mark.parametrize("name", [*CLASSIC, *OTHERS])
def test_follows_the_reference_on(name: str):
    mdp = build(name)
    layout = load_layout(FOLDER / f"{name}.layout").pad(*LARGEST)
    cooks = layout.num_agents
    walks = Kitchen(["".join(row) for row in mdp.terrain_mtx], orders(mdp))
    rng = np.random.default_rng(0)
    teams = [Cooks(walks, seed, by_hand=True).act for seed in range(GAMES - 1)]
    teams.append(lambda _: rng.integers(0, 6, cooks).tolist())
    states = [start_state(mdp, seed) for seed in range(GAMES)]
    record, theirs = play(mdp, layout, states, teams, STEPS // (5 * GAMES))
    ours = observe(ReferenceFeatures(layout), layout, at(record, slice(None)))
    assert ours.dtype == jnp.float32
    assert differences(ours, theirs) == {}
    if name in CLASSIC:
        check_varied(theirs)
    print(f"{name}: {theirs[..., 0, 0].size} states")


@pytest.mark.parametrize("num_pots", [1, 3])
def test_any_number_of_pots(num_pots: int):
    mdp, layout = build("centre_pots"), load_layout("centre_pots")
    planner, state = planner_of(mdp), start_state(mdp, 1)
    theirs = np.stack(mdp.featurize_state(state, planner, num_pots=num_pots))
    world = worlds_from_reference([state.to_dict()], layout)
    ours = observe(ReferenceFeatures(layout, num_pots), layout, stack([world]))
    np.testing.assert_array_equal(ours[0, 0], theirs.astype(np.float32), strict=True)


@pytest.mark.parametrize("name", ["asymmetric_advantages", "unident"])
def test_follows_the_reference_in_any_world(name: str):
    """What is where is random, as no game would have it, and written as states of the reference."""
    mdp, layout = build(name), load_layout(name)
    planner, parse = planner_of(mdp), mdp_module.OvercookedState.from_dict
    rng = np.random.default_rng(0)
    worlds = stack([random_world(rng, layout) for _ in range(STEPS // 20)])
    with unchecked():
        states = [parse(written) for written in worlds_to_reference(worlds, layout)]
    for state in states:
        mdp._check_valid_state(state)
    theirs = np.asarray([mdp.featurize_state(x, planner) for x in states], np.float32)
    ours = observe(ReferenceFeatures(layout), layout, jax.tree.map(lambda x: x[None], worlds))
    assert differences(ours, theirs[None]) == {}


@pytest.mark.slow
def test_follows_the_reference_in_recorded_games():
    games = read_games()
    layouts = dict(zip(TEXTS, pad_to([kitchen(name) for name in TEXTS]), strict=True))
    for name, text in TEXTS.items():
        rows = [row.strip() for row in text.strip().splitlines()]
        mdp = mdp_module.OvercookedGridworld.from_grid(rows)
        recorded = [state for game, states, *_ in games if game == name for state in states]
        chosen = np.linspace(0, len(recorded) - 1, RECORDED).astype(int)
        states = [recorded[i] | {"objects": [*recorded[i]["objects"].values()]} for i in chosen]
        with unchecked():  # checks of types would take most of the time
            worlds = worlds_from_reference(states, layouts[name])
        planner, parse = planner_of(mdp), mdp_module.OvercookedState.from_dict
        theirs = np.asarray([mdp.featurize_state(parse(x), planner) for x in states], np.float32)
        features = ReferenceFeatures(layouts[name])
        ours = observe(features, layouts[name], jax.tree.map(lambda x: x[None], worlds))
        assert differences(ours, theirs[None]) == {}
        print(f"{name}: {len(states)} of {len(recorded)} recorded states")
