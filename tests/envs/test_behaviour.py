"""How cooks play, compared with a loop that reads it off the recorded states and actions alone."""

import statistics

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from kitchen_checks import (
    Blind,
    play,
    random_actions,
    random_layout,
    random_world,
    script,
    unchecked,
)

from eqgrid import RandomPartner, TimeLimit, Trajectories, make, record_play
from eqgrid.envs.overcooked import (
    STUCK_STEPS,
    Behaviour,
    Item,
    Overcooked,
    Tile,
    behaviour,
    parse_kitchen,
)
from eqgrid.envs.overcooked.plans import replay, stored_plans

pytestmark = pytest.mark.slow

ROWS = 60


def as_games(games):
    """Trajectories of several games, each given as its first world, actions and kitchen."""
    parts = []
    for env, world, actions in games:
        told, after = play(env, world, actions)
        before = jax.tree.map(lambda x, xs: np.concatenate([x[None], xs[:-1]]), world, after)
        parts.append((before, np.asarray(actions), told.reward, told.terminated, told.truncated))
    joined = jax.tree.map(lambda *xs: jnp.concatenate(xs), *parts)
    return Trajectories(*joined, jnp.asarray([len(part[1]) for part in parts], jnp.int32))


def random_games(seed, agents=2):
    """Two games of `ROWS` steps together, in one kitchen, from any states."""
    rng = np.random.default_rng(seed)
    layout = random_layout(rng, (5, 6), agents)
    env = Overcooked(layout, observation=Blind())
    first = int(rng.integers(20, 41))
    games = [
        (env, random_world(rng, layout), random_actions(rng, steps, agents))
        for steps in (first, ROWS - first)
    ]
    return env, as_games(games)


def naive(trajectories, layout, stuck_steps):
    """The fields of `Behaviour`, game by game, cook by cook and step by step."""
    tiles, at = np.asarray(layout.tiles), 0
    found = []
    for length in trajectories.length.tolist():
        rows = range(at, at + length)
        state, action = jax.tree.map(
            lambda x, rows=rows: np.asarray(x[rows.start : rows.stop]),
            (trajectories.state, trajectories.action),
        )
        found.append(naive_game(tiles, state, action, stuck_steps))
        at += length
    return {name: np.asarray([game[name] for game in found]) for name in found[0]}


def naive_game(tiles, state, action, stuck_steps):
    body, (steps, agents) = state.bodies, action.shape
    names = ("useless", "walks", "collisions", "turns", "bumps", "stuck", "soups")
    counts = {name: [0] * agents for name in names}
    actions = [[0] * 6 for _ in range(agents)]
    longest, visited = [0] * agents, [set() for _ in range(agents)]
    standing, delivered = [0] * agents, []
    for time in range(steps):
        wanted = [tuple(map(int, x)) for x in body.position[time]]
        was = list(wanted)
        for cook in range(agents):
            faced = int(body.direction[time, cook])
            pose = (was[cook], faced)
            same = time > 0 and pose == (
                tuple(body.position[time - 1, cook]),
                body.direction[time - 1, cook],
            )
            standing[cook] = standing[cook] + 1 if same else 1
            counts["stuck"][cook] += standing[cook] >= stuck_steps
            longest[cook] = max(longest[cook], standing[cook])
            visited[cook].add(was[cook])
            chosen = int(action[time, cook])
            actions[cook][chosen if 0 <= chosen < 6 else 4] += 1
            drow, dcol = [(-1, 0), (1, 0), (0, 1), (0, -1)][chosen if 0 <= chosen < 4 else faced]
            ahead = (was[cook][0] + drow, was[cook][1] + dcol)
            if 0 <= chosen < 4:
                if tiles[ahead] == Tile.FLOOR:
                    wanted[cook] = ahead
                else:
                    counts["bumps" if chosen == faced else "turns"][cook] += 1
            if chosen == 5 and time + 1 < steps:
                # Every rule of the classic dynamics changes what the cook holds.
                held = body.held[time : time + 2, cook]
                counts["useless"][cook] += held[0] == held[1]
                if tiles[ahead] == Tile.SERVING and held[0] >= Item.SOUP:
                    assert held[1] == Item.NOTHING
                    counts["soups"][cook] += 1
                    delivered.append(time)
        collide = any(
            wanted[a] == wanted[b] or (wanted[a] == was[b] and wanted[b] == was[a])
            for a in range(agents)
            for b in range(a)
        )
        for cook in range(agents):
            if wanted[cook] != was[cook]:
                counts["collisions" if collide else "walks"][cook] += 1
    gaps = np.diff(delivered).tolist()
    return {
        "steps": steps,
        "actions": actions,
        **counts,
        "longest_stuck": longest,
        "cells": [len(cells) for cells in visited],
        "mean_gap": statistics.mean(gaps) if gaps else np.nan,
        "median_gap": statistics.median(gaps) if gaps else np.nan,
    }


def assert_as_naive(found, expected):
    for name, numbers in expected.items():
        np.testing.assert_array_equal(getattr(found, name), numbers, err_msg=name)


def without_last_interactions(trajectories):
    """The same with a stay at the end of each game, after which nothing is recorded."""
    ends = np.cumsum(trajectories.length) - 1
    action = np.array(trajectories.action)
    action[ends] = 4
    return Trajectories(
        trajectories.state,
        jnp.asarray(action),
        trajectories.reward,
        trajectories.terminated,
        trajectories.truncated,
        trajectories.length,
    )


@pytest.mark.parametrize("agents", [1, 2, 3])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), stuck_steps=st.integers(1, 6))
def test_random_games_are_counted_as_by_hand(agents, seed, stuck_steps):
    env, games = random_games(seed, agents)
    games = without_last_interactions(games)
    found = behaviour(games, env, stuck_steps=stuck_steps)
    assert_as_naive(found, naive(games, env.layout, stuck_steps))


def test_a_team_is_the_mean_of_its_cooks():
    env, games = random_games(0)
    found = behaviour(games, env)
    each, whole = [found.numbers(cook) for cook in (0, 1)], found.numbers()
    np.testing.assert_allclose(each[0]["return"] + each[1]["return"], whole["return"])
    for name in ("stay", "interact", "stuck", "walks", "cells"):
        np.testing.assert_allclose((each[0][name] + each[1][name]) / 2, whole[name])
    shares = np.stack([own["soup_share"] for own in each])
    np.testing.assert_array_equal(shares.max(axis=0), whole["soup_share"])


@pytest.fixture(scope="module")
def plan():
    """The best plan for the ring, in which both cooks walk a lot, as one game."""
    env = Overcooked("ring", observation=Blind())
    actions = stored_plans()["ring", "classic", 400].joint_actions()
    states, rewards = replay(env, actions)
    return env, Trajectories(
        states,
        actions,
        jnp.stack([rewards] * 2, axis=1),
        jnp.zeros((400, 2), bool),
        jnp.arange(400) == 399,
        jnp.asarray([400], jnp.int32),
    )


def test_a_plan_is_counted_as_by_hand(plan):
    env, game = plan
    found = behaviour(game, env)
    value = stored_plans()["ring", "classic", 400].value
    assert found.soups.sum() * 20 == value == found.numbers()["return"][0]
    assert found.useless.sum() == 0
    whole = without_last_interactions(game)
    assert_as_naive(behaviour(whole, env), naive(whole, env.layout, STUCK_STEPS))


def test_the_first_steps_are_those_of_shorter_games():
    rng = np.random.default_rng(3)
    layout = random_layout(rng, (5, 6), 2)
    env = Overcooked(layout, observation=Blind())
    games = [(env, random_world(rng, layout), random_actions(rng, n, 2)) for n in (35, 20, 30)]
    shorter = [(env, world, actions[:25]) for env, world, actions in games]
    cut, expected = behaviour(as_games(games), env, steps=25), behaviour(as_games(shorter), env)
    assert cut.steps.tolist() == [25, 20, 25]
    jax.tree.map(np.testing.assert_array_equal, cut, expected)


ROOM = """
XPSXX
O1 2X
XDXXX
"""


def counted(letters, *, dynamics="classic"):
    """The counts of one game of 8 steps by two scripts; one length is compiled once."""
    env = Overcooked(parse_kitchen(ROOM), dynamics=dynamics, observation=Blind())
    actions = script(*(x.ljust(8, ".") for x in letters))
    return behaviour(as_games([(env, env.layout.start, actions)]), env)


def test_two_soups_may_be_delivered_in_one_step():
    layout = parse_kitchen("XSSXX\nO12PX\nXDXXX").with_start(held=[int(Item.SOUP) + 3] * 2)
    env = Overcooked(layout, observation=Blind())
    found = behaviour(as_games([(env, env.layout.start, script("I", "I"))]), env)
    assert (found.soups.tolist(), found.mean_gap.tolist()) == ([[1, 1]], [0.0])
    assert found.numbers()["soup_share"] == [0.5]


def test_an_interaction_is_useless_if_nothing_happens():
    """A cook takes an onion, cannot take another one, and puts it into the pot."""
    found = counted(("WIINIIE", "......."))
    assert found.useless.tolist() == [[2, 0]]
    started = counted(("WINII", "....."), dynamics="interactive")
    assert started.useless.tolist() == [[0, 0]]  # the last one starts the pot


def test_a_number_that_is_no_action_is_a_stay():
    env = Overcooked(parse_kitchen(ROOM), observation=Blind())
    actions = jnp.asarray([[-1, 6], [4, 99]], jnp.int32)
    found = behaviour(as_games([(env, env.layout.start, actions)]), env)
    assert found.actions.tolist() == [[[0, 0, 0, 0, 2, 0]] * 2]
    assert np.isnan(found.numbers()["collisions"]).all()
    assert np.isnan(found.numbers()["mean_gap"]).all()


def test_games_of_partners_are_counted(key):
    env = Overcooked("cramped", observation=Blind(), horizon=30)
    team = (RandomPartner(env.action_space),) * 2
    games = record_play(env, team, jax.random.split(key, 3), max_steps=30)
    found = behaviour(games, TimeLimit(env, 30))
    assert isinstance(found, Behaviour)
    assert found.steps.tolist() == [30] * 3
    assert 0.05 < found.numbers()["stay"].mean() < 0.3


def test_what_cannot_be_counted_is_one_sentence(plan):
    env, game = plan
    with unchecked():
        with pytest.raises(ValueError, match="needs the kitchen of the games"):
            behaviour(game, make("rescue"))
        for other in (Overcooked("ring", dynamics="interactive"), Overcooked("cramped")):
            with pytest.raises(ValueError, match="do not follow the rules of this kitchen"):
                behaviour(game, other)
        with pytest.raises(ValueError, match="needs steps of at least 1, not 0"):
            behaviour(game, env, steps=0)
        with pytest.raises(ValueError, match="needs stuck_steps of at least 1, not -1"):
            behaviour(game, env, stuck_steps=-1)
        nothing = jax.tree.map(lambda x: x[:0], game)
        with pytest.raises(ValueError, match="at least one game, and at least one step"):
            behaviour(nothing, env)
