"""The kitchen as a whole: its timing, its rules between cooks, what is seen, and what varies."""

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

from eqgrid import AutoReset, Vectorize
from eqgrid.envs.overcooked import (
    EVENT_NAMES,
    KITCHENS,
    TRAINING_SHAPING,
    Item,
    Overcooked,
    Recipes,
    item_of,
    load_layout,
    parse_kitchen,
    soup_contents,
)
from eqgrid.grid import IDLE, Direction

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


OPENING = ("NWISENIWISE" + "." * 19, "EIWNIEIWNIWSINEN" + "." * 13 + "I")
CYCLE = ("NIWIENIWISE" + "." * 19, "ESINEI.WNIWSINEN" + "." * 13 + "I")


def test_the_known_optimum_of_cramped_is_reached_by_a_script():
    """13 soups, the first in step 32 and then one every 30 steps: the most that is possible
    without counters, as dynamic programming over joint plans finds."""
    env = cramped()
    letters = [opening + 13 * cycle for opening, cycle in zip(OPENING, CYCLE, strict=True)]
    game, _ = play(env, env.layout.start, script(*letters)[:400])
    paid = np.flatnonzero(game.reward[:, 0])
    assert paid.tolist() == list(range(32, 400, 30))
    assert game.reward[paid].tolist() == [[20.0, 20.0]] * 13
    assert count(game, "soup_delivery") == [0, 13]


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


EMPTY, ONION, DISH = (holds(item) for item in (Item.NOTHING, Item.ONION, Item.DISH))
AT_ONE_POT = {
    # in the pot, hands, actions -> shaped rewards, hands, in the pot, steps to cook
    "one third onion of two": (
        *((2, 0), IDLE, (ONION, ONION), "II"),
        *([3, 0], [Item.NOTHING, Item.ONION], [3, 0], 19),
    ),
    "two onions": (
        *((1, 0), IDLE, (ONION, ONION), "II"),
        *([3, 3], [Item.NOTHING, Item.NOTHING], [3, 0], 19),
    ),
    "plated and filled again": (
        *((3, 0), 0, (DISH, ONION), "II"),
        *([5, 3], [Item.SOUP, Item.NOTHING], [1, 0], IDLE),
    ),
    "what was faced before anybody moved": (
        *((0, 0), IDLE, (ONION, EMPTY), "IS"),
        *([3, 0], [Item.NOTHING, Item.NOTHING], [1, 0], IDLE),
    ),
}


@pytest.mark.parametrize("name", AT_ONE_POT)
def test_two_cooks_act_at_one_pot_in_one_step(name):
    contents, timer, hands, letters, shaped, hands_after, contents_after, left = AT_ONE_POT[name]
    timestep, world = one_step(SHARED, two_at_one_pot(SHARED, contents, hands, timer), letters)
    assert timestep.info["shaped_reward"].tolist() == shaped
    assert item_of(world.bodies.held).tolist() == hands_after
    assert soup_contents(world.cells.object)[1, 2].tolist() == contents_after
    assert world.cells.timer[1, 2] == left


def test_who_puts_a_soup_down_in_training_gives_back_what_it_was_paid_for():
    env = Overcooked(SHARED.layout, observation=Blind(), shaping=TRAINING_SHAPING)
    world = two_at_one_pot(env, (3, 0), (DISH, ONION), timer=0)
    timesteps, _ = play(env, world, script("INII", "...."))
    assert timesteps.info["shaped_reward"].tolist() == [[3, 0], [0, 0], [-3, 0], [3, 0]]


def test_both_deliver_in_one_step_and_everybody_is_paid_for_both():
    env = Overcooked("XSXSX\nO1X2D\nX X X\nXXPXX", observation=Blind())
    soup = holds(Item.SOUP, (2, 1))
    world = give(give(env.layout.start, 0, soup), 1, soup)
    timestep, after = one_step(env, world, "II")
    assert timestep.reward.tolist() == [40.0, 40.0]
    assert timestep.info["shaped_reward"].tolist() == [0.0, 0.0]
    assert item_of(after.bodies.held).tolist() == [Item.NOTHING] * 2


DISHES = Overcooked("XDXDXX\nX1 2PO\nX    S\nXXXXXX", observation=Blind())
"""Each cook under a dish dispenser, and one pot."""


@pytest.mark.parametrize(
    ("contents", "timer", "on_counter", "letters", "shaped"),
    [
        ((0, 0), IDLE, Item.NOTHING, "I.", [0, 0]),
        ((1, 0), IDLE, Item.NOTHING, "I.", [3, 0]),
        ((2, 0), IDLE, Item.NOTHING, "I.", [3, 0]),
        ((3, 0), 5, Item.NOTHING, "I.", [3, 0]),
        ((3, 0), 0, Item.NOTHING, "I.", [3, 0]),
        ((3, 0), 5, Item.NOTHING, "II", [3, 0]),
        ((3, 0), 5, Item.DISH, "I.", [0, 0]),
    ],
)
def test_a_dish_is_useful_while_a_pot_waits_for_one(contents, timer, on_counter, letters, shaped):
    world = put(DISHES.layout.start, (0, 0), lies(on_counter))
    if sum(contents):
        world = put(world, (1, 4), lies(Item.SOUP, contents, timer))
    timestep, _ = one_step(DISHES, world, letters)
    assert timestep.info["shaped_reward"].tolist() == shaped


def test_a_full_pot_that_nobody_started_is_no_use_for_a_dish():
    env = eqx.tree_at(lambda e: e.layout, cramped("interactive"), DISHES.layout)
    world = put(DISHES.layout.start, (1, 4), lies(Item.SOUP, (3, 0)))
    timestep, _ = one_step(env, world, "I.")
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


@pytest.mark.parametrize(
    ("text", "letters"),
    [("XDXXX\nX1  P\nX   S\nXXXXX", "I"), ("XDXXX\nX1  P\nX2 3S\nXXXXX", "I..")],
)
def test_dishes_are_useful_to_two_cooks_only(text, letters):
    env = Overcooked(text, observation=Blind())
    world = put(env.layout.start, (1, 4), lies(Item.SOUP, (3, 0), 5))
    timestep, after = one_step(env, world, letters)
    assert item_of(after.bodies.held)[0] == Item.DISH
    assert not timestep.info["shaped_reward"].any()


# What is seen


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
