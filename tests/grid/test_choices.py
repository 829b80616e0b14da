"""Agents that make several choices in a step: a move and a word."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kitchen_checks import refused, unchecked
from small_worlds import BARE

from eqgrid import Discrete, MultiDiscrete, Vectorize, check_env
from eqgrid.grid import (
    MOVES,
    AbstractPhase,
    Action,
    Features,
    Forward,
    Go,
    GridWorld,
    Heard,
    Layout,
    LocalCollision,
    Others,
    Rotate,
    RuleEvents,
    Say,
    Speak,
    Stay,
    Step,
    Use,
    WeightedEventReward,
)

ROOM = Layout.parse("######\n#1   #\n# 2 3#\n######", BARE)
WALK: tuple[Action, ...] = (*MOVES, Stay(), Rotate("left"), Forward())
WORDS = ("left", "right")
TALK: tuple[Action, ...] = (Stay(), *(Say(word) for word in WORDS), Use("wave"))


def world_of(actions, observation=None):
    return GridWorld(
        ROOM,
        actions=actions,
        phases=(Go(LocalCollision()), Speak()),
        reward=WeightedEventReward({}, ("word",)),
        events=RuleEvents(word=Speak),
        observation=observation,
    )


def test_the_space_says_how_many_choices_there_are():
    assert isinstance(world_of(WALK).action_space, Discrete)
    space = world_of((WALK, TALK)).action_space
    assert isinstance(space, MultiDiscrete)
    assert space.ns == (7, 4)
    assert world_of((WALK,)).action_space.ns == (7,)


def test_both_choices_do_what_each_does_alone():
    both, walking = world_of((WALK, TALK)), world_of(WALK)
    rng = np.random.default_rng(0)
    step_both, step_walking = eqx.filter_jit(both.step), eqx.filter_jit(walking.step)
    _, one = both.reset(jax.random.key(0))
    _, other = walking.reset(jax.random.key(0))
    for number in range(40):
        action = np.stack([rng.integers(-1, 8, 3), rng.integers(-1, 5, 3)], axis=1)
        key = jax.random.key(number)
        timestep, one = step_both(key, one, jnp.asarray(action))
        _, other = step_walking(key, other, jnp.asarray(action[:, 0]))
        assert (one.bodies.position == other.bodies.position).all()
        assert (one.bodies.direction == other.bodies.direction).all()
        said = [word if word in (1, 2) else 0 for word in action[:, 1].tolist()]
        assert one.bodies.said.tolist() == said
        assert timestep.info["events"][:, 0].tolist() == [int(x > 0) for x in said]


def test_steps_say_what_was_chosen_in_any_choice():
    action = jnp.asarray([[0, 1], [4, 3], [5, 0]])
    step = Step(ROOM, action, jax.random.key(0), ROOM.start, ROOM.start, (WALK, TALK))
    assert step.chose(Say).tolist() == step.chose(Say("left")).tolist() == [True, False, False]
    assert step.chose(Rotate, Use).tolist() == [False, True, True]
    assert step.chose(Stay).tolist() == [False, True, True]
    assert step.uses(Use("wave")).tolist() == [False, True, False]


def test_words_are_heard_for_one_step():
    observation = Features((Heard(WORDS), Others()))
    env = world_of((WALK, TALK), observation)
    names = observation.names(env.layout)
    assert names[:4] == (
        *("other_1_says_left", "other_1_says_right"),
        *("other_2_says_left", "other_2_says_right"),
    )
    first, world = env.reset(jax.random.key(0))
    assert not first[:, :4].any()
    timestep, world = env.step(jax.random.key(0), world, jnp.asarray([[4, 1], [4, 2], [4, 0]]))
    heard = [[0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1]]
    assert timestep.observation[:, :4].tolist() == heard
    timestep, _ = env.step(jax.random.key(0), world, jnp.full((3, 2), 0))
    assert not timestep.observation[:, :4].any()


def test_a_world_with_two_choices_follows_the_protocol():
    check_env(world_of((WALK, TALK), Features((Heard(WORDS),))), steps=30)
    many = Vectorize(world_of((WALK, TALK)), 4)
    _, state = many.reset(jax.random.key(0))
    timestep, _ = many.step(jax.random.key(1), state, jnp.zeros((4, 3, 2), int))
    assert timestep.reward.shape == (4, 3)


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        *((none, "at least one action") for none in ((), ((),), (WALK, ()), (*WALK, TALK))),
        (("north", "stay"), "are objects such as"),
    ],
)
def test_actions_that_are_none_are_refused(actions, words):
    with refused(words):
        world_of(actions)


@pytest.mark.parametrize(
    ("actions", "shape", "words"),
    [
        ((WALK, TALK), (3,), "must be 2 choices"),
        ((WALK, TALK), (3, 1), "must be 2 choices"),
        (WALK, (3, 1), "must be one number"),
    ],
)
def test_actions_of_another_shape_are_refused(actions, shape, words):
    env = world_of(actions)
    _, world = env.reset(jax.random.key(0))
    with pytest.raises(ValueError, match=words):
        env.step(jax.random.key(0), world, jnp.zeros(shape, int))


def test_words_that_nobody_can_say_cannot_be_heard():
    with pytest.raises(ValueError, match="in this world: give it `Say` actions"):
        world_of(WALK, Features((Heard(WORDS),))).reset(jax.random.key(0))


@final
class Misspelt(AbstractPhase):
    wrong: object = eqx.field(static=True)

    def __call__(self, step):
        return step.then(step.world, Misspelt, step.chose(self.wrong))


@final
class Careless(AbstractPhase):
    def __call__(self, step):
        return step.world


@pytest.mark.parametrize(
    ("phase", "says"),
    [
        (Misspelt("wave"), "No agent can choose 'wave': the actions of the game are Move"),
        (Misspelt(Use("wav")), r"No agent can choose Use\(name='wav'\): the actions of"),
        (Careless(), "The phase Careless must return a Step, as step.then"),
    ],
)
def test_a_careless_phase_is_one_sentence(phase, says):
    env = world_of((WALK, TALK))
    env = eqx.tree_at(lambda e: e.phases, env, (*env.phases, phase))
    with unchecked(), pytest.raises(ValueError, match=says):
        env.step(jax.random.key(0), env.reset(jax.random.key(0))[1], jnp.zeros((3, 2), int))


def test_a_reward_weighs_the_events_of_the_world_in_their_order():
    reward = WeightedEventReward({"word": 1.0}, ("word", "move"))
    with pytest.raises(
        ValueError, match=r"weights for the events word, move, but .* events move, w"
    ):
        GridWorld(
            ROOM,
            actions=(WALK, TALK),
            phases=(Go(LocalCollision()), Speak()),
            events=RuleEvents(move=Go, word=Speak),
            reward=reward,
        )
