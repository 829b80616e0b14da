"""Partners that know no game: noise, recordings, and one of many."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chances import Marked, check_counts

from eqgrid import (
    Box,
    ConstantPartner,
    DelayedPartner,
    Discrete,
    Masked,
    NoisyPartner,
    OneOf,
    PartnerInput,
    RandomPartner,
    RecordedPartner,
    stack_partners,
)

SPACE = Discrete(5)
SEEN = PartnerInput(jnp.zeros((2, 3)), None, jnp.asarray(0))


@eqx.filter_jit
def actions(partner, seen, keys):
    """What a partner does in as many steps as there are keys."""

    def step(carry, key):
        action, carry = partner(seen, carry, key)
        return carry, action

    return jax.lax.scan(step, partner.initial_carry(), keys)[1]


def in_seat(seat):
    return PartnerInput(SEEN.observation, None, jnp.asarray(seat))


def test_random_and_stay(key):
    keys = jax.random.split(key, 2000)
    drawn = np.bincount(actions(RandomPartner(SPACE), SEEN, keys), minlength=5) / 2000
    np.testing.assert_allclose(drawn, 0.2, atol=0.05)
    assert (actions(ConstantPartner(4), SEEN, keys) == 4).all()


@pytest.mark.parametrize("level", [0.0, 0.3, 1.0])
def test_noise_replaces_a_share_of_the_actions(key, level):
    keys = jax.random.split(key, 2000)
    did = np.asarray(actions(NoisyPartner(ConstantPartner(4), level, SPACE), SEEN, keys))
    # One drawn action in five is the one that it replaces.
    assert abs((did != 4).mean() - 0.8 * level) < 0.04
    if level == 0:
        assert (did == 4).all()


@pytest.mark.parametrize("allowed", [[True] * 5, [True, True, False, True, True]])
def test_noise_its_actions_and_those_it_replaces_are_independent(key, allowed):
    level = 0.4
    mask = jnp.asarray([allowed, [True] * 5])
    seen = SEEN if all(allowed) else PartnerInput(Masked(SEEN.observation, mask), None, SEEN.seat)
    partner = NoisyPartner(Marked(RandomPartner(SPACE), 5), level, SPACE)
    act = eqx.filter_jit(jax.vmap(lambda key: partner(seen, partner.initial_carry(), key)))
    did, wanted = map(np.asarray, act(jax.random.split(key, 8000)))
    assert (did[did >= 5] == wanted[did >= 5] + 5).all()
    uniform = np.asarray(allowed) / np.sum(allowed)
    # In a row of its own: what is not replaced.
    done = np.append(level * uniform, 1 - level)
    check_counts(np.outer(done, uniform), np.minimum(did, 5), wanted)


def test_noise_in_a_box_is_uniform(key):
    partner = NoisyPartner(ConstantPartner(jnp.full(2, 7.0)), 0.4, Box(0.0, 1.0, (2,)))
    did = np.asarray(actions(partner, SEEN, jax.random.split(key, 4000)))
    np.testing.assert_array_equal(did[:, 0] == 7, did[:, 1] == 7)
    for numbers in did.T:
        check_counts([0.04] * 10 + [0.6], np.where(numbers == 7, 10, 10 * numbers))


def test_a_recording_is_played_by_seat_and_then_ends(key):
    recording = jnp.array([[0, 1], [2, 3], [4, 0]])
    partner = RecordedPartner(recording, then=4)
    keys = jax.random.split(key, 5)
    assert actions(partner, in_seat(0), keys).tolist() == [0, 2, 4, 4, 4]
    assert actions(partner, in_seat(1), keys).tolist() == [1, 3, 0, 4, 4]
    with pytest.raises(ValueError, match="at least one step"):
        RecordedPartner(recording[:0], then=4)


@pytest.fixture
def several():
    recording = jnp.array([[0, 1], [2, 3], [4, 0]])
    return [
        ConstantPartner(1),
        RecordedPartner(recording, then=4),
        ConstantPartner(3),
        RandomPartner(SPACE),
        NoisyPartner(ConstantPartner(2), 0.5, SPACE),
        RecordedPartner(recording + 1, then=0),
        NoisyPartner(ConstantPartner(0), 0.1, SPACE),
    ]


def test_stacks_have_what_differs_only_in_numbers(several):
    stacks = stack_partners(several)
    assert [numbers for _, numbers in stacks] == [(0, 2), (1, 5), (3,), (4, 6)]
    assert stacks[0][0].action.tolist() == [1, 3]
    assert stacks[3][0].level.tolist() == pytest.approx([0.5, 0.1])


def test_one_of_many_does_what_it_does_alone(several, key):
    keys = jax.random.split(key, 20)
    one_of = OneOf(several)
    assert one_of.num_partners == 7
    play = eqx.filter_vmap(lambda number, seat: actions(one_of.pick(number), in_seat(seat), keys))
    for seat in (0, 1):
        seats = jnp.full(7, seat)
        together = eqx.filter_jit(play)(jnp.arange(7), seats)
        for partner, did in zip(several, together, strict=True):
            np.testing.assert_array_equal(did, actions(partner, in_seat(seat), keys))


def test_one_of_many_alone(several, key):
    keys, one_of = jax.random.split(key, 20), OneOf(several)
    for number, partner in enumerate(several):
        alone = one_of.alone(jnp.asarray(number))
        assert {len(x) for x in jax.tree.leaves(alone.stacks)} == {1}
        did = actions(alone, in_seat(1), keys)
        np.testing.assert_array_equal(did, actions(partner, in_seat(1), keys))


def test_one_of_none():
    with pytest.raises(ValueError, match="at least 1 partner"):
        OneOf([])


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_delayed_partner_does_what_it_would_have_done_before(steps, key):
    chosen = [1, 2, 3, 0, 0]
    partner = RecordedPartner(jnp.asarray([[x, 4] for x in chosen]), then=4)
    did = actions(DelayedPartner(partner, steps, 4), in_seat(0), jax.random.split(key, 5))
    assert did.tolist() == [4] * steps + chosen[: 5 - steps]


@pytest.mark.parametrize("steps", [-1, True])
def test_a_delay_is_a_number_of_steps(steps):
    with pytest.raises(ValueError, match="steps"):
        DelayedPartner(ConstantPartner(4), steps, 4)
