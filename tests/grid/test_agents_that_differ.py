"""Agents with other actions and observations than their partners: one sees, another walks."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from kitchen_checks import refused
from small_worlds import BARE

from eqgrid import Masked, check_env
from eqgrid.grid import (
    MOVES,
    AbstractActionMask,
    Action,
    Around,
    Features,
    Go,
    GridWorld,
    Heard,
    Layout,
    LocalCollision,
    OwnActions,
    OwnPosition,
    PerAgent,
    Planes,
    RuleEvents,
    Say,
    Speak,
    Stay,
    WeightedEventReward,
)

ROOM = Layout.parse("######\n#1   #\n# 2 3#\n######", BARE)
WALK: tuple[Action, ...] = (*MOVES, Stay())
TALK: tuple[Action, ...] = (Stay(), Say("left"), Say("right"))
ALL: tuple[Action, ...] = (*WALK, Say("left"), Say("right"))
LONG, SHORT = (
    Features((OwnPosition(), Around())),
    Features((OwnPosition(), Heard(("left", "right")))),
)


def world_of(actions=ALL, mask=None, observation=None):
    return GridWorld(
        ROOM,
        actions=actions,
        phases=(Go(LocalCollision()), Speak()),
        reward=WeightedEventReward({"word": 1.0}, ("word",)),
        events=RuleEvents(word=Speak),
        observation=observation or LONG,
        action_mask=mask,
    )


MASKS = {
    "one choice": (ALL, OwnActions((TALK, WALK, ALL))),
    "two choices": ((WALK, TALK), OwnActions((TALK, WALK, ALL))),
}


@pytest.mark.parametrize(("actions", "mask"), MASKS.values(), ids=MASKS)
def test_the_world_keeps_the_protocol(actions, mask):
    check_env(world_of(actions, mask, PerAgent((LONG, SHORT, LONG))), steps=20)


def test_each_agent_observes_what_is_its_own_padded():
    env = world_of(mask=OwnActions((TALK, WALK, ALL)), observation=PerAgent((LONG, SHORT, LONG)))
    observation, state = env.reset(jax.random.key(0))
    one = [world_of(observation=x).observe(state) for x in (LONG, SHORT)]
    expected = np.zeros((3, 10), np.float32)
    expected[[0, 2]], expected[1, : one[1].shape[1]] = one[0][jnp.asarray([0, 2])], one[1][1]
    np.testing.assert_array_equal(observation.observation, expected)
    has = [[x in own for x in ALL] for own in (TALK, WALK, ALL)]
    np.testing.assert_array_equal(observation.action_mask, has)


def test_windows_of_other_sizes_are_padded():
    env = world_of(observation=PerAgent((Planes(radius=1), Planes(radius=2), Planes(radius=1))))
    observation, state = env.reset(jax.random.key(0))
    near, far = (world_of(observation=Planes(radius=r)).observe(state) for r in (1, 2))
    np.testing.assert_array_equal(observation[1], far[1])
    np.testing.assert_array_equal(observation[2, :3, :3], near[2])
    assert not observation[2, 3:].any()
    assert not observation[2, :, 3:].any()


STEPS = {
    name: (eqx.filter_jit(world_of(actions, mask).step), eqx.filter_jit(world_of(actions).step))
    for name, (actions, mask) in MASKS.items()
}


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(sorted(MASKS)), st.integers(0, 2**31 - 1))
def test_a_forbidden_action_does_nothing(name, seed):
    actions, mask = MASKS[name]
    masked, free = STEPS[name]
    rng, key = np.random.default_rng(seed), jax.random.key(seed)
    choices = (WALK, TALK) if name == "two choices" else (ALL,)
    _, state = world_of(actions, mask).reset(key)
    for _ in range(4):
        action = np.stack([rng.integers(-2, len(c) + 2, 3) for c in choices], axis=1)
        allowed = np.array(action)
        for agent, own in enumerate(mask.actions):
            for i, choice in enumerate(choices):
                number = action[agent, i]
                if not (0 <= number < len(choice) and choice[number] in own):
                    allowed[agent, i] = -1
        shape = (3, 2) if name == "two choices" else (3,)
        timestep, after = masked(key, state, jnp.asarray(action.reshape(shape)))
        expected, same = free(key, state, jnp.asarray(allowed.reshape(shape)))
        assert eqx.tree_equal(after, same)
        assert eqx.tree_equal(timestep.reward, expected.reward)
        assert isinstance(timestep.observation, Masked)
        state = after


class Silence(AbstractActionMask):
    """Nobody speaks twice in a row."""

    def __call__(self, layout, world, actions):
        words = jnp.asarray([isinstance(action, Say) for action in actions])
        return ~(words[None] & (world.bodies.said > 0)[:, None])


def test_a_mask_may_follow_from_the_state():
    env = world_of(mask=Silence())
    check_env(env, steps=20)
    _, state = env.reset(jax.random.key(0))
    loud, quiet = jnp.asarray([5, 4, 4]), jnp.asarray([4, 6, 4])
    rewards = []
    for action in (loud, loud, quiet, loud):
        timestep, state = env.step(jax.random.key(0), state, action)
        rewards.append(timestep.reward.tolist())
    assert rewards == [[1, 0, 0], [0, 0, 0], [0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (
            lambda: world_of(mask=OwnActions((TALK, WALK))),
            "each of the 3 agents, but has the actions of 2",
        ),
        (
            lambda: world_of(WALK, OwnActions((TALK, WALK, ALL))),
            "which is not an action of the game",
        ),
        (
            lambda: world_of((WALK, TALK[1:]), OwnActions((ALL, WALK, ALL))),
            "without any action in a choice: give it one",
        ),
        (lambda: world_of(observation=PerAgent((LONG, SHORT))), "each of the 3 agents, but has 2"),
        (
            lambda: world_of(observation=PerAgent((LONG, Planes(), LONG))),
            r"not float32\[10\], uint8\[4, 6, \d+\], float32\[10\]: give all",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence(build, says):
    with refused(says):
        build().reset(jax.random.key(0))
