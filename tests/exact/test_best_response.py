"""Best responses: their values against plain Python, plans, and games in the environment."""

import dataclasses
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import Blind, unchecked
from plans_by_hand import best_by_hand, tiny

from eqgrid import ConstantPartner, PartnerInput
from eqgrid.envs.overcooked import INTERACT, STAY, HandsOff, Overcooked, item_of
from eqgrid_exact import (
    BestResponse,
    JointModel,
    Layers,
    reachable_counters,
    solve,
    tabulate,
    trace,
)

TABLE = np.random.default_rng(0).dirichlet(np.ones(6), size=(4, 8)).astype(np.float32)
"""Action probabilities of a partner by its direction and what it holds."""


@pytest.mark.slow
def test_the_value_is_that_of_plain_python():
    env = tiny("classic", 5)
    model = JointModel(env, reachable_counters(env.layout), whole=True)
    for seat in (0, 1):

        def chances(world, other=1 - seat):
            item = item_of(world.bodies.held[other]).astype(jnp.int32)
            return jnp.asarray(TABLE)[world.bodies.direction[other].astype(jnp.int32), item]

        table = tabulate(model, chances)
        assert table.sum(axis=1) == pytest.approx(1, abs=1e-6)
        expected = best_by_hand(env, False, 3, seat, lambda way, item: TABLE[way, item])
        found = BestResponse(model, seat).solve(lambda _, table=table: table, 3)
        assert found == pytest.approx(expected, rel=1e-5)
        assert expected > 0


@pytest.mark.slow
def test_the_best_response_to_the_best_plan_is_that_plan():
    env, horizon = Overcooked("cramped", observation=Blind()), 80
    merged, whole = JointModel(env), JointModel(env, whole=True)
    assert whole.num_states > merged.num_states
    with unchecked(), tempfile.TemporaryFile() as file:
        layers = Layers(merged, file)
        best = solve(merged, horizon, layers)
        plan = trace(merged, horizon, layers)
    sure = np.eye(6, dtype=np.float32)[:, :, None]
    shape = whole.num_pairs, 6, whole.num_objects
    for seat in (0, 1):
        with unchecked():
            found = BestResponse(whole, seat).solve(
                lambda steps, seat=seat: np.broadcast_to(
                    sure[plan[horizon - steps, 1 - seat]], shape
                ),
                horizon,
            )
        assert found == best > 20


def test_a_tiny_kitchen_all_of_whose_states_are_found_again():
    model = JointModel(tiny("classic", 5), whole=True)
    with pytest.raises(ValueError, match="whole=True"):
        tabulate(JointModel(model.env), lambda _: jnp.ones(6))
    rng = np.random.default_rng(0)
    for _ in range(5):
        pair = int(rng.integers(model.num_pairs))
        objects = rng.integers(model.num_objects, size=50)
        found = model.locate(model.worlds(pair, objects))
        assert (found == np.stack([np.full(50, pair), objects], axis=1)).all()


def test_actions_are_kept_in_a_file():
    model = JointModel(tiny("classic", 5), whole=True)
    even = np.full((model.num_pairs, 6, model.num_objects), 1 / 6, np.float32)
    with pytest.raises(ValueError, match="give a file"):
        BestResponse(model, 0).act(1, np.zeros((1, 2), int))
    with tempfile.TemporaryFile() as file:
        response = BestResponse(model, 0, file)
        response.solve(lambda _: even, 2)
        states = np.stack([np.arange(model.num_pairs), np.zeros(model.num_pairs, int)], axis=1)
        actions = response.act(2, states)
        assert actions.max() <= INTERACT
        for pair in np.flatnonzero(actions == INTERACT):
            outcome = model.outcomes(int(pair))[1]
            assert (outcome[INTERACT] != outcome[STAY]).any()
        with pytest.raises(ValueError, match="solve for more steps"):
            response.act(3, states)


def test_hands_off():
    env = Overcooked("cramped")
    world = env.layout.start
    cells = np.zeros(env.layout.tiles.shape, bool)
    cells[0, 1] = True
    for place, direction, expected in (((1, 1), 0, STAY), ((1, 1), 1, INTERACT), ((1, 2), 0, 5)):
        bodies = dataclasses.replace(
            world.bodies,
            position=world.bodies.position.at[0].set(jnp.asarray(place, jnp.int8)),
            direction=world.bodies.direction.at[0].set(direction),
        )
        here = dataclasses.replace(world, bodies=bodies)
        seen = PartnerInput(jnp.zeros((2, 1)), here, jnp.asarray(0))
        for action in range(6):
            partner = HandsOff(ConstantPartner(action), jnp.asarray(cells))
            taken, _ = partner(seen, partner.initial_carry(), jax.random.key(0))
            assert taken == (expected if action == INTERACT else action)
