"""An episode of partners, compared with a loop that anybody would write."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learners import GRU, Clock, build, loud_mlp

from agents import PolicyPartner, trained_policy
from eqgrid import (
    AbstractPartner,
    ConstantPartner,
    PartnerInput,
    RandomPartner,
    RecordedPartner,
    TimeLimit,
    Vectorize,
    play,
    play_step,
    record_play,
    start_play,
)


def by_hand(env, team, key):
    """The returns and the length of an episode, step by step."""
    key, reset_key = jax.random.split(key)
    observation, state = env.reset(reset_key)
    carries = [partner.initial_carry() for partner in team]
    returns, length, active = np.zeros(env.num_agents), 0, np.ones(env.num_agents, bool)
    while True:
        key, env_key, *keys = jax.random.split(key, 2 + len(team))
        actions = []
        for seat, partner in enumerate(team):
            seen = PartnerInput(observation, state, jnp.asarray(seat))
            action, carries[seat] = partner(seen, carries[seat], keys[seat])
            actions.append(action)
        timestep, state = env.step(env_key, state, jnp.stack(actions))
        observation = timestep.observation
        returns, length = returns + np.where(active, timestep.reward, 0), length + 1
        active = active & ~np.asarray(timestep.terminated)
        if timestep.done:
            return returns, length


@eqx.filter_jit
def play_many(env, team, keys):
    return eqx.filter_vmap(lambda key: play(env, team, key))(keys)


def policy_of(network, key):
    env = Vectorize(Clock(), 2)
    return trained_policy(build(env, key, network=network), env)


@pytest.fixture(scope="module")
def recurrent():
    return PolicyPartner(policy_of(GRU, jax.random.key(1)))


def test_episodes_are_those_of_a_loop(key, recurrent):
    env, keys = Clock(), jax.random.split(key, 4)
    team = (recurrent, RandomPartner(env.action_space))
    games = play_many(env, team, keys)
    for i, game_key in enumerate(keys):
        returns, length = by_hand(env, team, game_key)
        np.testing.assert_allclose(games.episode_return[i], returns, rtol=1e-6)
        assert games.episode_length[i] == length
    assert games.finished.all()
    assert len(set(games.episode_length.tolist())) > 1


def test_recorded_episodes_are_those_of_play(key):
    """Every row is a step from its state, and the next row follows from it."""
    env, keys = TimeLimit(Clock(), 4), jax.random.split(key, 6)
    team = [RandomPartner(env.action_space)] * 2
    recorded = record_play(env, team, keys, max_steps=5)
    games = play_many(env, tuple(team), keys)
    np.testing.assert_array_equal(recorded.length, games.episode_length)
    assert len(set(recorded.length.tolist())) > 1
    returns, row = [], 0
    for game_key, length in zip(keys, recorded.length.tolist(), strict=True):
        _, state = Clock().reset(jax.random.split(game_key)[1])
        for _ in range(length):
            np.testing.assert_array_equal(recorded.state[row], state)
            told, state = Clock().step(key, state, recorded.action[row])
            assert (recorded.terminated[row] == told.terminated).all()
            assert recorded.truncated[row] == told.truncated | (state[0] == 4)
            row += 1
        returns.append(recorded.reward[row - length : row].sum(axis=0))
    np.testing.assert_allclose(returns, games.episode_return, rtol=1e-6)
    assert row == len(recorded.reward)


def test_an_episode_that_does_not_end_is_not_recorded(key):
    team = (ConstantPartner(0), ConstantPartner(0))
    with pytest.raises(ValueError, match=r"did not end in 1 steps: .* raise max_steps\.$"):
        record_play(Clock(), team, key[None], max_steps=1)


def test_a_wrapper_hides_nothing_of_the_state(key):
    seen = []

    class Spy(AbstractPartner):
        def initial_carry(self):
            return None

        def __call__(self, seen_now, carry, key):
            seen.append(seen_now.state)
            return jnp.asarray(0), None

    game = play(TimeLimit(Clock(), 2), (Spy(), ConstantPartner(1)), key)
    assert game.episode_length == 2
    assert seen[0].shape == (3,)


@pytest.mark.parametrize("network", [loud_mlp, GRU])
def test_a_policy_acts_as_in_a_team_of_its_own(network, key):
    """In each seat, with greedy actions, for three steps."""
    policy, env = policy_of(network, key), Clock()
    observation, state = env.reset(key)
    carry, own = policy.initial_carry(), [PolicyPartner(policy, True).initial_carry()] * 2
    for _ in range(3):
        expected, carry = policy.act(observation, carry, None, greedy=True)
        for seat in (0, 1):
            seen = PartnerInput(observation, state, jnp.asarray(seat))
            action, own[seat] = PolicyPartner(policy, True)(seen, own[seat], key)
            assert action == expected[seat]
        timestep, state = env.step(key, state, expected)
        observation = timestep.observation


def test_drawn_actions_are_as_probable(key):
    policy, env = policy_of(loud_mlp, key), Clock()
    observation, state = env.reset(key)
    seen = PartnerInput(observation, state, jnp.asarray(1))
    act = jax.vmap(lambda key: PolicyPartner(policy)(seen, None, key)[0])
    drawn = np.bincount(act(jax.random.split(key, 4000)), minlength=3) / 4000
    expected = jax.nn.softmax(policy.outputs(observation, None)[0][1])
    np.testing.assert_allclose(drawn, expected, atol=0.04)


def test_step_by_step_it_is_the_same_game(key):
    """With a person, who decides before each step, in the place of a recording."""
    env, pressed = TimeLimit(Clock(), 5), jnp.asarray([[2, 0], [1, 0], [0, 0], [2, 0], [1, 0]])
    team = (RecordedPartner(pressed, then=0), RandomPartner(env.action_space))
    recorded = record_play(env, team, key[None], max_steps=5)
    state, step, rows = start_play(env, team, key), eqx.filter_jit(play_step), []
    while not state.game.finished:
        now = (ConstantPartner(pressed[len(rows), 0]), team[1])
        with_person = eqx.tree_at(lambda x: x.carries, state, (None, state.carries[1]))
        after, row = step(env, now, with_person)
        state = eqx.tree_at(lambda x: x.carries[0], after, 0, is_leaf=lambda x: x is None)
        rows.append(row)
    joined = jax.tree.map(lambda *x: jnp.stack(x), *rows)
    for name, expected in vars(recorded).items():
        if name in joined:
            assert jax.tree.all(jax.tree.map(jnp.array_equal, joined[name], expected))
    game = play(env, team, key)
    assert jax.tree.all(jax.tree.map(jnp.array_equal, state.game, game))


def test_a_game_may_be_cut(key):
    team = (RecordedPartner(jnp.zeros((1, 2), int), then=0), ConstantPartner(0))
    game = play(Clock(), team, key, max_steps=2)
    assert (game.episode_length, game.finished) == (2, False)


def test_everybody_needs_a_partner(key):
    with pytest.raises(ValueError, match="has 2 agents, so play needs a team of 2 partners"):
        play(Clock(), (ConstantPartner(0),), key)
    with pytest.raises(ValueError, match="has 2 agents, so play needs a team of 2 partners"):
        record_play(Clock(), (ConstantPartner(0),), key[None], max_steps=3)
