"""The kitchen as a whole: its timing, its rules between cooks, what is seen, and what varies."""

import hashlib
import itertools
import os
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import (
    Action,
    Blind,
    assert_equal,
    at_step,
    give,
    holds,
    lies,
    place,
    play,
    play_compiled,
    put,
    random_actions,
    random_world,
    script,
    stack,
    unchecked,
)

from eqgrid import AutoReset, Discrete, Vectorize
from eqgrid.envs.overcooked import (
    EVENT_NAMES,
    KITCHENS,
    TRAINING_SHAPING,
    Item,
    Overcooked,
    RandomHeld,
    RandomPots,
    Recipes,
    item_of,
    load_layout,
    lossless_planes,
    parse_kitchen,
    soup_contents,
)
from eqgrid.grid import IDLE, Direction, RandomDirections, RandomPositions

POT = (0, 2)
"""Where the pot of `cramped` is; cooks at (1, 2) who face north stand at it."""


def cramped(dynamics="classic", **options):
    return Overcooked("cramped", dynamics=dynamics, observation=Blind(), **options)


def at_the_pot(env, contents, hand, timer=IDLE):
    """The first cook at the pot with something in its hand, the other one out of the way."""
    world = place(env.layout.start, [(1, 2), (2, 3)], [Direction.NORTH, Direction.EAST])
    if sum(contents):
        world = put(world, POT, lies(Item.SOUP, contents, timer))
    return give(world, 0, hand)


def count(timesteps, name):
    """How often each agent did something."""
    return np.asarray(timesteps.info["events"])[..., EVENT_NAMES.index(name)].sum(axis=0).tolist()


# Timing


def test_the_third_onion_starts_a_classic_pot_which_is_ready_after_19_more_steps():
    env = cramped()
    world = at_the_pot(env, (2, 0), holds(Item.ONION))
    _, worlds = play(env, world, script("I" + "." * 24, "."))
    timers = worlds.cells.timer[:, *POT].tolist()
    assert timers[:21] == [*range(19, 0, -1), 0, 0]
    assert timers[19] == 0


@pytest.mark.parametrize(("plated_at", "works"), [(19, False), (20, True)])
def test_a_classic_soup_is_plated_20_steps_after_the_third_onion_at_the_earliest(plated_at, works):
    env = cramped()
    third = play(env, at_the_pot(env, (2, 0), holds(Item.ONION)), script("I" + "." * 24, "."))[1]
    world = give(at_step(third, plated_at - 1), 0, holds(Item.DISH))
    assert world.time == plated_at
    timesteps, worlds = play(env, world, script("I" + "." * 24, "."))
    assert count(timesteps, "soup_plating") == [int(works), 0]
    if works:
        assert item_of(worlds.bodies.held)[0, 0] == Item.SOUP
        assert soup_contents(worlds.bodies.held)[0, 0].tolist() == [3, 0]
        assert item_of(worlds.cells.object)[0, *POT] == Item.NOTHING


@pytest.mark.parametrize("contents", [(1, 0), (2, 0), (3, 0), (1, 1)])
def test_an_interactive_pot_waits_for_a_hand(contents):
    env = cramped("interactive")
    world = at_the_pot(env, contents, holds(Item.NOTHING))
    timesteps, worlds = play(env, world, script("." * 5 + "I" + "." * 19, "."))
    timers = worlds.cells.timer[:, *POT].tolist()
    assert timers == [IDLE] * 5 + list(range(19, -1, -1))
    assert count(timesteps, "cooking_start") == [1, 0]


def test_a_classic_pot_is_not_started_by_hand():
    env = cramped()
    world = at_the_pot(env, (2, 0), holds(Item.NOTHING))
    timesteps, worlds = play(env, world, script("I" * 25, "."))
    assert (worlds.cells.timer == IDLE).all()
    assert count(timesteps, "cooking_start") == [0, 0]


def test_a_ready_soup_waits_for_ever():
    env = cramped()
    world = at_the_pot(env, (3, 0), holds(Item.NOTHING), timer=1)
    _, worlds = play(env, world, script("." * 25, "."))
    assert (worlds.cells.timer[:, *POT] == 0).all()


OPENING = ("NWISENIWISE" + "." * 19, "EIWNIEIWNIWSINEN" + "." * 13 + "I")
CYCLE = ("NIWIENIWISE" + "." * 19, "ESINEI.WNIWSINEN" + "." * 13 + "I")


@pytest.fixture(scope="module")
def long_games():
    """In `cramped`, for 400 steps: one game by a script, and 30 at random."""
    env = cramped()
    letters = [opening + 13 * cycle for opening, cycle in zip(OPENING, CYCLE, strict=True)]
    randomly = jax.random.randint(jax.random.key(0), (30, 400, 2), 0, 6)
    actions = jnp.concatenate([script(*letters)[None, :400], randomly])
    play_many = eqx.filter_vmap(play_compiled, in_axes=(None, None, 0))
    timesteps, _ = play_many(env, env.layout.start, actions)
    return jax.tree.map(np.asarray, timesteps)


def test_the_known_optimum_of_cramped_is_reached_by_a_script(long_games):
    """13 soups, the first in step 32 and then one every 30 steps: what dynamic programming over
    joint plans finds to be the most that is possible without counters."""
    game = jax.tree.map(lambda x: x[0], long_games)
    paid = np.flatnonzero(game.reward[:, 0])
    assert paid.tolist() == list(range(32, 400, 30))
    assert game.reward[paid].tolist() == [[20.0, 20.0]] * 13
    assert game.reward.sum(axis=0).tolist() == [260.0, 260.0]
    assert count(game, "soup_delivery") == [0, 13]


def test_random_play_delivers_nothing(long_games):
    games = jax.tree.map(lambda x: x[1:], long_games)
    assert games.reward.sum() == 0
    assert games.info["events"][..., EVENT_NAMES.index("onion_potting")].sum() > 0


def test_an_episode_is_cut_by_the_horizon_and_never_ends():
    env = Overcooked("cramped", observation=Blind(), horizon=20)
    timesteps, _ = play(env, env.layout.start, script("." * 25, "."))
    assert timesteps.truncated.tolist() == [False] * 19 + [True] * 6
    assert not timesteps.terminated.any()


# Between cooks


def two_at_one_pot(env, contents, hands, timer=IDLE):
    """Cooks on both sides of the pot."""
    world = place(env.layout.start, [(1, 1), (1, 3)], [Direction.EAST, Direction.WEST])
    if sum(contents):
        world = put(world, (1, 2), lies(Item.SOUP, contents, timer))
    for agent, hand in enumerate(hands):
        world = give(world, agent, hand)
    return world


SHARED = Overcooked("XXXXX\nO1P2D\nX X X\nXXSXX", observation=Blind())
"""One pot between two cooks."""


def one_step(env, world, letters):
    timesteps, worlds = play(env, world, script(*letters))
    return at_step(timesteps, 0), at_step(worlds, 0)


def test_only_the_first_of_two_third_onions_goes_in_and_is_paid():
    onions = [holds(Item.ONION)] * 2
    timestep, world = one_step(SHARED, two_at_one_pot(SHARED, (2, 0), onions), "II")
    assert timestep.info["shaped_reward"].tolist() == [3.0, 0.0]
    assert item_of(world.bodies.held).tolist() == [Item.NOTHING, Item.ONION]
    assert soup_contents(world.cells.object)[1, 2].tolist() == [3, 0]


def test_two_onions_go_into_one_pot_in_one_step():
    onions = [holds(Item.ONION)] * 2
    timestep, world = one_step(SHARED, two_at_one_pot(SHARED, (1, 0), onions), "II")
    assert timestep.info["shaped_reward"].tolist() == [3.0, 3.0]
    assert soup_contents(world.cells.object)[1, 2].tolist() == [3, 0]
    assert world.cells.timer[1, 2] == 19


def test_a_soup_is_plated_and_the_pot_filled_again_in_one_step():
    hands = [holds(Item.DISH), holds(Item.ONION)]
    world = two_at_one_pot(SHARED, (3, 0), hands, timer=0)
    timestep, after = one_step(SHARED, world, "II")
    assert timestep.info["shaped_reward"].tolist() == [5.0, 3.0]
    assert item_of(after.bodies.held).tolist() == [Item.SOUP, Item.NOTHING]
    assert soup_contents(after.cells.object)[1, 2].tolist() == [1, 0]


def test_who_puts_a_soup_down_in_training_gives_back_what_it_was_paid_for():
    env = Overcooked(SHARED.layout, observation=Blind(), shaping=TRAINING_SHAPING)
    hands = [holds(Item.DISH), holds(Item.ONION)]
    timesteps, _ = play(env, two_at_one_pot(env, (3, 0), hands, timer=0), script("INII", "...."))
    assert timesteps.info["shaped_reward"].tolist() == [[3, 0], [0, 0], [-3, 0], [3, 0]]


def test_the_second_cook_can_take_what_the_first_puts_down_but_not_the_other_way_round():
    env = Overcooked("XXXXX\nO1X2D\nX X X\nXXSXX", observation=Blind())
    for giver in (0, 1):
        world = place(env.layout.start, [(1, 1), (1, 3)], [Direction.EAST, Direction.WEST])
        _, after = one_step(env, give(world, giver, holds(Item.DISH)), "II")
        on_counter = giver == 1
        assert (item_of(after.cells.object)[1, 2] == Item.DISH) == on_counter
        assert (item_of(after.bodies.held)[1 - giver] == Item.DISH) != on_counter


def test_a_cook_interacts_with_what_it_faced_before_anybody_moved():
    world = two_at_one_pot(SHARED, (0, 0), [holds(Item.ONION), holds(Item.NOTHING)])
    timestep, after = one_step(SHARED, world, "IS")
    assert timestep.info["shaped_reward"].tolist() == [3.0, 0.0]
    assert after.bodies.position.tolist() == [[1, 1], [2, 3]]


def test_both_deliver_in_one_step_and_everybody_is_paid_for_both():
    env = Overcooked("XSXSX\nO1X2D\nX X X\nXXPXX", observation=Blind())
    soup = holds(Item.SOUP, (2, 1))
    world = give(give(env.layout.start, 0, soup), 1, soup)
    timestep, after = one_step(env, world, "II")
    assert timestep.reward.tolist() == [40.0, 40.0]
    assert timestep.info["shaped_reward"].tolist() == [0.0, 0.0]
    assert item_of(after.bodies.held).tolist() == [Item.NOTHING] * 2


DISHES = Overcooked(
    "XDXDXX\nX1 2PO\nXPXXXX\nXXXXXX".replace("XPXXXX", "X    S"), observation=Blind()
)
"""Each cook under a dish dispenser, and one pot."""


@pytest.mark.parametrize(
    ("contents", "timer", "useful"),
    [((0, 0), IDLE, 0), ((1, 0), IDLE, 1), ((2, 0), IDLE, 1), ((3, 0), 5, 1), ((3, 0), 0, 1)],
)
def test_a_dish_is_useful_while_a_pot_waits_for_one(contents, timer, useful):
    world = DISHES.layout.start
    if sum(contents):
        world = put(world, (1, 4), lies(Item.SOUP, contents, timer))
    timestep, _ = one_step(DISHES, world, "I.")
    assert timestep.info["shaped_reward"].tolist() == [3.0 * useful, 0.0]


def test_a_full_pot_that_nobody_started_is_no_use_for_a_dish():
    env = eqx.tree_at(lambda e: e.layout, cramped("interactive"), DISHES.layout)
    world = put(DISHES.layout.start, (1, 4), lies(Item.SOUP, (3, 0)))
    timestep, _ = one_step(env, world, "I.")
    assert timestep.info["shaped_reward"].tolist() == [0.0, 0.0]


def test_a_second_dish_in_the_same_step_is_of_no_use_for_one_pot():
    world = put(DISHES.layout.start, (1, 4), lies(Item.SOUP, (3, 0), 5))
    timestep, after = one_step(DISHES, world, "II")
    assert timestep.info["shaped_reward"].tolist() == [3.0, 0.0]
    assert item_of(after.bodies.held).tolist() == [Item.DISH] * 2


def test_a_dish_on_a_counter_makes_others_useless():
    world = put(DISHES.layout.start, (1, 4), lies(Item.SOUP, (3, 0), 5))
    timestep, _ = one_step(DISHES, put(world, (0, 0), lies(Item.DISH)), "I.")
    assert timestep.info["shaped_reward"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("potter", [0, 1])
def test_a_dish_is_judged_by_the_pots_as_they_were_before_anybody_acted(potter):
    """The reference looks at the pots once, before the first cook acts."""
    positions, headings = [(1, 1), (1, 1)], [Direction.NORTH, Direction.NORTH]
    positions[potter], headings[potter] = (1, 3), Direction.EAST
    world = place(DISHES.layout.start, positions, headings)
    timestep, after = one_step(DISHES, give(world, potter, holds(Item.ONION)), "II")
    assert item_of(after.bodies.held)[1 - potter] == Item.DISH
    assert soup_contents(after.cells.object)[1, 4].tolist() == [1, 0]
    assert timestep.info["shaped_reward"][potter] == 3.0
    assert timestep.info["shaped_reward"][1 - potter] == 0.0


def test_no_dish_is_useful_to_a_cook_alone():
    env = Overcooked("XDXXX\nX1  P\nX   S\nXXXXX", observation=Blind())
    world = put(env.layout.start, (1, 4), lies(Item.SOUP, (3, 0), 5))
    timestep, after = one_step(env, world, "I")
    assert item_of(after.bodies.held).tolist() == [Item.DISH]
    assert timestep.info["shaped_reward"].tolist() == [0.0]


@pytest.mark.slow
def test_twelve_cooks_share_a_kitchen():
    text = "\n".join(["XOXDXSXX", *["X      X"] * 3, "XXPXPXXX"])
    starts = [(row, col) for row in (1, 2) for col in range(1, 7)]
    layout = parse_kitchen(text, starts=starts)
    env = Overcooked(layout, observation=Blind())
    assert env.num_agents == 12
    world = put(layout.start, (4, 2), lies(Item.SOUP, (1, 0)))
    actions = jax.random.randint(jax.random.key(1), (80, 12), 0, 6).at[0].set(Action.INTERACT)
    timesteps, worlds = play(env, world, actions)
    assert timesteps.reward.shape == (80, 12)
    for positions in worlds.bodies.position.tolist():
        assert len({tuple(p) for p in positions}) == 12
    seen = np.asarray(
        eqx.filter_jit(lossless_planes())(layout, at_step(worlds, -1), jnp.asarray(320))
    )
    assert seen.shape == (12, 5, 8, 26)
    for agent, (row, col) in enumerate(worlds.bodies.position[-1].tolist()):
        assert seen[agent, ..., 0].sum() == seen[agent, row, col, 0] == 1
        assert seen[agent, ..., 1].sum() == 11
        assert seen[agent, row, col, 1] == 0
    assert timesteps.info["events"][0, 0, EVENT_NAMES.index("onion_pickup")] == 1
    assert timesteps.info["events"][0, 2, EVENT_NAMES.index("dish_pickup")] == 1
    assert sum(count(timesteps, "useful_dish_pickup")) == 0  # that is for two cooks only


# What is seen


@pytest.mark.parametrize(("drow", "dcol"), [(0, 1), (0, -1), (1, 0), (-1, 0)])
def test_a_neighbour_is_seen_on_its_side_also_in_a_kitchen_that_is_not_square(drow, dcol):
    env = Overcooked("XXXXXXX\nX1 2  X\nX     X\nXPODSXX", horizon=400)
    mine, other = (2, 3), (2 + drow, 3 + dcol)
    start = env.layout.start
    if drow == 1:
        mine, other = (1, 3), (2, 3)
    world = place(start, [mine, other], [Direction.EAST, Direction.SOUTH])
    views = env.observe(world)
    assert views.shape == (2, 4, 7, 26)
    for own, them, agent in ((mine, other, 0), (other, mine, 1)):
        assert np.argwhere(views[agent, ..., 0]).tolist() == [list(own)]
        assert np.argwhere(views[agent, ..., 1]).tolist() == [list(them)]
    assert np.argwhere(views[0, ..., 2 + Direction.EAST]).tolist() == [list(mine)]
    assert np.argwhere(views[0, ..., 6 + Direction.SOUTH]).tolist() == [list(other)]
    assert np.argwhere(views[1, ..., 2 + Direction.SOUTH]).tolist() == [list(other)]
    assert np.argwhere(views[1, ..., 6 + Direction.EAST]).tolist() == [list(mine)]
    assert views[:, ..., 2:10].sum() == 4


def test_what_is_built_and_what_lies_around_is_seen_where_it_is():
    env = Overcooked("XXXXXXX\nX1 2  T\nX     X\nXPODSPX", horizon=100)
    world = put(env.layout.start, (3, 1), lies(Item.SOUP, (2, 1), 7))
    world = put(put(world, (3, 5), lies(Item.SOUP, (1, 0))), (0, 4), lies(Item.DISH))
    world = put(put(world, (0, 5), lies(Item.TOMATO)), (0, 6), lies(Item.SOUP, (1, 2)))
    world = give(world, 1, holds(Item.ONION))
    seen = np.asarray(env.observe(world)[0])
    places = {
        10: [(3, 1), (3, 5)],
        12: [(3, 2)],
        13: [(1, 6)],
        14: [(3, 3)],
        15: [(3, 4)],
        16: [(3, 5)],
        17: [],
        18: [(0, 6), (3, 1)],
        19: [(0, 6), (3, 1)],
        20: [(3, 1)],
        21: [(0, 6)],
        22: [(0, 4)],
        23: [(1, 3)],
        24: [(0, 5)],
        25: [],
    }
    for plane, where in places.items():
        assert [tuple(p) for p in np.argwhere(seen[..., plane]).tolist()] == where, plane
    assert (seen[..., 11] == (np.asarray(env.layout.tiles) == 1)).all()
    assert (seen[3, 1, 18], seen[3, 1, 19], seen[3, 1, 20]) == (2, 1, 7)
    assert (seen[0, 6, 18], seen[0, 6, 19]) == (1, 2)


@pytest.mark.parametrize(("time", "urgent"), [(59, 0), (60, 0), (61, 1), (99, 1)])
def test_the_last_39_steps_are_urgent(time, urgent):
    env = Overcooked("cramped", horizon=100)
    world = eqx.tree_at(lambda w: w.time, env.layout.start, jnp.asarray(time, jnp.int32))
    assert (env.observe(world)[..., 25] == urgent).all()


def test_the_observation_of_a_step_is_that_of_its_state():
    env = Overcooked("cramped")
    first, world = env.reset(jax.random.key(0))
    assert_equal(first, env.observe(world))
    timesteps, worlds = play(env, world, random_actions(np.random.default_rng(0), 120, 2))
    assert_equal(timesteps.observation, np.asarray(jax.jit(jax.vmap(env.observe))(worlds)))
    assert_equal(timesteps.observation, timesteps.final_observation)


@pytest.mark.parametrize("number", [-1, -100, 6, 7, 99, 256, 260, 2**31 - 1, -(2**31)])
def test_a_number_that_is_no_action_means_stay(key, number):
    env = Overcooked("cramped")
    step = eqx.filter_jit(env.step)
    _, state = env.reset(key)
    state = give(state, 0, holds(Item.ONION))
    for other in Action:
        odd = step(key, state, jnp.asarray([number, other]))
        plain = step(key, state, jnp.asarray([Action.STAY, other]))
        assert eqx.tree_equal(odd, plain)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 2)])
def test_actions_of_a_wrong_shape_are_one_sentence(key, shape):
    env = Overcooked("cramped")
    _, state = env.reset(key)
    many = Vectorize(AutoReset(env), 4)
    _, states = many.reset(key)
    with unchecked():
        with pytest.raises(ValueError, match=r"`action` must lead with 2 agents, but has"):
            env.step(key, state, jnp.zeros(shape, int))
        with pytest.raises(ValueError, match=r"must lead with 4 envs, 2 agents, but has"):
            many.step(key, states, jnp.zeros((4, *shape), int)[0])


def test_says_what_its_agents_may_do_and_what_is_counted():
    env = cramped()
    assert env.num_agents == 2
    assert env.action_space == Discrete(6)
    assert env.event_names == EVENT_NAMES
    timestep, _ = one_step(env, env.layout.start, "..")
    assert set(timestep.info) == {"shaped_reward", "events"}
    assert timestep.info["events"].shape == (2, len(EVENT_NAMES))


# One program for many kitchens


@pytest.mark.slow
def test_a_padded_kitchen_is_the_same_kitchen():
    rng = np.random.default_rng(1)
    layout = parse_kitchen("XXPXX\nO1 2T\nX   X\nXDXSX")
    world, actions = random_world(rng, layout), random_actions(rng, 120, 2)
    padded = layout.pad(6, 8)
    cells = jax.tree.map(lambda start, x: start.at[:4, :5].set(x), padded.start.cells, world.cells)
    world_padded = eqx.tree_at(lambda w: w.cells, world, cells)
    told, worlds = play(Overcooked(layout), world, actions)
    told_padded, worlds_padded = play(Overcooked(padded), world_padded, actions)
    assert_equal(worlds_padded.bodies, worlds.bodies)
    assert_equal(jax.tree.map(lambda x: x[:, :4, :5], worlds_padded.cells), worlds.cells)
    assert_equal((told_padded.reward, told_padded.info), (told.reward, told.info))
    planes = np.asarray(told_padded.observation)
    np.testing.assert_array_equal(planes[:, :, :4, :5], told.observation)
    assert planes[:, :, 4:, :, :25].max() == planes[:, :, :, 5:, :25].max() == 0
    assert np.asarray(told.info["events"]).sum() > 20


@pytest.mark.slow
def test_different_kitchens_are_one_batch_and_one_compilation():
    layouts = [load_layout(name).pad(5, 9) for name in KITCHENS]
    envs = stack([Overcooked(layout, observation=Blind()) for layout in layouts])
    traces = []

    @eqx.filter_jit
    def step(envs, worlds, actions):
        traces.append(1)
        one = lambda env, world, action: env.step(jax.random.key(0), world, action)  # noqa: E731
        return eqx.filter_vmap(one)(envs, worlds, actions)

    actions = random_actions(np.random.default_rng(2), 30, 2)
    worlds = envs.layout.start
    for action in actions:
        _, worlds = step(envs, worlds, jnp.broadcast_to(action, (len(layouts), 2)))
    assert traces == [1]
    for i, layout in enumerate(layouts):
        _, alone = play(Overcooked(layout, observation=Blind()), layout.start, actions)
        assert_equal(at_step(worlds, i), at_step(alone, -1))


def test_values_cook_times_and_weights_vary_within_one_batch():
    values, times, weights = (5.0, 20.0, 50.0), (1, 20, 30), (0.0, 3.0, 7.0)
    envs = stack(
        [
            Overcooked(
                parse_kitchen(KITCHENS["cramped"], Recipes(values=value, cook_times=time)),
                observation=Blind(),
                shaping={"onion_potting": weight},
            )
            for value, time, weight in zip(values, times, weights, strict=True)
        ]
    )
    world = at_the_pot(cramped(), (2, 0), holds(Item.ONION))
    world = give(world, 1, holds(Item.SOUP, (3, 0)))
    world = place(world, [(1, 2), (2, 3)], [Direction.NORTH, Direction.SOUTH])
    timesteps, worlds = eqx.filter_vmap(play_compiled, in_axes=(eqx.if_array(0), None, None))(
        envs, world, script("I.", "I.")
    )
    assert timesteps.reward[:, 0, 0].tolist() == list(values)
    assert timesteps.info["shaped_reward"][:, 0, 0].tolist() == list(weights)
    assert worlds.cells.timer[:, 0, *POT].tolist() == [time - 1 for time in times]


@pytest.mark.slow
def test_runs_without_compilation():
    env, key = Overcooked("cramped"), jax.random.key(0)
    world, action = at_the_pot(env, (2, 0), holds(Item.ONION)), jnp.asarray([5, 0], jnp.int32)
    compiled = eqx.filter_jit(env.step)(key, world, action)
    # Uncompiled, JAX takes the members of an `IntEnum` for strongly typed integers.
    with jax.disable_jit(), jax.numpy_dtype_promotion("standard"):
        assert_equal(env.reset(key), (env.observe(env.layout.start), env.layout.start))
        assert_equal(env.step(key, world, action), compiled)


def test_equal_keys_give_equal_episodes():
    starts = (RandomPositions(), RandomDirections(), RandomHeld(), RandomPots())
    env = cramped(starts=starts)
    reset = eqx.filter_jit(env.reset)
    actions = random_actions(np.random.default_rng(3), 40, 2)
    first, again, other = (
        play(cramped(), reset(jax.random.key(seed))[1], actions) for seed in (1, 1, 2)
    )
    assert_equal(first, again)
    assert (first[1].bodies.position != other[1].bodies.position).any()


# Nothing is global


def kitchen_with(value, time, weight, dynamics):
    recipes = Recipes(values=value, cook_times=time)
    layout = eqx.tree_at(lambda x: x.params, load_layout("cramped"), recipes)
    return Overcooked(
        layout, dynamics=dynamics, shaping={"onion_potting": weight}, observation=Blind()
    )


VARIANTS = (
    (20.0, 20, 5.0, "classic"),
    (7.0, 3, 1.0, "interactive"),
    (50.0, 9, 2.0, "classic"),
)


def digest(env):
    """What an environment does, in a few letters."""
    world = place(env.layout.start, [(1, 2), (2, 3)], [Direction.NORTH, Direction.SOUTH])
    world = put(world, POT, lies(Item.SOUP, (2, 0)))
    world = give(give(world, 0, holds(Item.ONION)), 1, holds(Item.SOUP, (3, 0)))
    actions = random_actions(np.random.default_rng(11), 38, 2)
    timesteps, worlds = play(env, world, jnp.concatenate([script("II", "I."), actions]))
    assert timesteps.reward.sum() > 0
    assert timesteps.info["shaped_reward"].sum() > 0
    assert (worlds.cells.timer > 0).any()
    told = (timesteps.reward, timesteps.info, worlds)
    data = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(told))
    return hashlib.sha256(data).hexdigest()


@pytest.mark.slow
def test_building_a_second_environment_never_changes_the_first():
    code = "import test_overcooked as t; print(t.digest(t.kitchen_with(*t.VARIANTS[0])))"
    fresh = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    alone = [digest(kitchen_with(*variant)) for variant in VARIANTS]
    assert len(set(alone)) == len(VARIANTS)
    assert alone[0] == fresh
    for order in itertools.permutations(range(len(VARIANTS))):
        built = {i: kitchen_with(*VARIANTS[i]) for i in order}
        assert [digest(built[i]) for i in range(len(VARIANTS))] == alone
