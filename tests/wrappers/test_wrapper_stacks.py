"""The contract that every wrapper keeps, in every order in which wrappers can be put together."""

import itertools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from cart_pole import CartPole
from drift import Drift
from kitchen_checks import unchecked
from race import Race
from wrapper_checks import (
    assert_close,
    assert_same,
    python_rollout,
    reset,
    rollout,
    sample_actions,
    step,
)

from eqgrid import (
    AppendAgentId,
    AutoReset,
    LogEpisodes,
    NormalizeObservation,
    NormalizeObservationState,
    NormalizeReward,
    NormalizeRewardState,
    ShapedReward,
    TimeLimit,
    Vectorize,
    unwrap,
    unwrap_state,
)

STEPS = 40
LIMIT = 5
SCHEDULE = optax.linear_schedule(2.0, 0.0, STEPS)
SINGLE = {
    "TimeLimit": lambda env: TimeLimit(env, LIMIT),
    "AutoReset": AutoReset,
    "LogEpisodes": lambda env: LogEpisodes(env, totals=("events",)),
    "ShapedReward": lambda env: ShapedReward(env, SCHEDULE),
    "AppendAgentId": AppendAgentId,
}
VECTOR = {"NormalizeObservation": NormalizeObservation, "NormalizeReward": NormalizeReward}

# (outer, inner): refused, however many wrappers are in between.
REFUSED = {
    ("TimeLimit", "AutoReset"),
    ("TimeLimit", "LogEpisodes"),
    ("AutoReset", "ShapedReward"),
    ("LogEpisodes", "ShapedReward"),
    *((name, name) for name in SINGLE if name != "TimeLimit"),
}


def builds(order):
    """Whether this order, from the innermost wrapper to the outermost, breaks no rule."""
    return not any((outer, inner) in REFUSED for inner, outer in itertools.combinations(order, 2))


def stack(order, env):
    for name in order:
        env = {**SINGLE, **VECTOR}[name](env)
    return env


ORDERS = list(itertools.permutations(SINGLE))
GOOD_ORDERS = [order for order in ORDERS if builds(order)]
VECTOR_ORDERS = [
    *itertools.permutations(VECTOR),
    ("NormalizeObservation",),
]
QUICK_ORDERS = [
    ("TimeLimit", "AutoReset", "LogEpisodes", "ShapedReward", "AppendAgentId"),
    ("AppendAgentId", "TimeLimit", "LogEpisodes", "AutoReset", "ShapedReward"),
    ("NormalizeObservation", "NormalizeReward"),
]
"""In which every good pair of wrappers of one environment is; the other orders are slow."""


def marked(orders):
    """These orders, for a fixture."""
    for order in orders:
        name = "-".join(re.sub("[a-z]", "", name) for name in order)
        marks = () if order in QUICK_ORDERS else pytest.mark.slow
        yield pytest.param(order, marks=marks, id=name)


@pytest.fixture(scope="module", params=marked(GOOD_ORDERS))
def episodes(request):
    """A stack of all single-environment wrappers, and steps through several episodes of it."""
    env = stack(request.param, Race())
    actions = sample_actions(env, jax.random.key(1), STEPS)
    first, timesteps, states = rollout(env, jax.random.key(2), actions)
    done = np.asarray(timesteps.done)
    assert done.sum() > 3
    assert timesteps.truncated.any()
    assert timesteps.terminated.all(axis=1).any()
    return request.param, env, actions, first, timesteps, states


@pytest.fixture(scope="module", params=marked(VECTOR_ORDERS))
def batches(request):
    """A stack of vector wrappers around all the single ones, and steps through episodes of it."""
    env = stack(request.param, Vectorize(stack(GOOD_ORDERS[0], Race()), 4))
    actions = sample_actions(env, jax.random.key(1), STEPS)
    first, timesteps, states = rollout(env, jax.random.key(2), actions)
    return request.param, env, actions, first, timesteps, states


def states_before(first, states):
    """The state that each step started from."""
    return jax.tree.map(lambda x, xs: jnp.concatenate([x[None], xs[:-1]]), first[1], states)


# Nesting: what is refused, and how


@pytest.mark.parametrize(("outer", "inner"), list(itertools.product(SINGLE, SINGLE)))
@pytest.mark.parametrize("between", [(), ("AppendAgentId",)], ids=["directly", "further in"])
def test_nestings_of_two(outer, inner, between):
    order = (inner, *(name for name in between if name not in (inner, outer)), outer)
    if builds(order):
        stack(order, Race())
        return
    with unchecked(), pytest.raises(ValueError, match=r"^[A-Z][^\n]*\.$") as error:
        stack(order, Race())
    advice = str(error.value)
    if outer == inner:
        assert f": {outer}(env" in advice
    else:
        named = re.search(r": (\w+)\((\w+)\(env", advice)
        assert named is not None
        assert set(named.groups()) == {outer, inner}
        assert builds(tuple(reversed(named.groups())))


def test_the_quick_orders_have_all_good_pairs():
    pairs, quick = (
        {pair for order in orders for pair in itertools.combinations(order, 2)}
        for orders in (GOOD_ORDERS, QUICK_ORDERS[:2])
    )
    assert pairs == quick


@pytest.mark.parametrize("name", [*SINGLE, "Vectorize"])
def test_nestings_of_a_batch_in_a_wrapper_of_one(name):
    wrap = {**SINGLE, "Vectorize": lambda env: Vectorize(env, 2)}[name]
    advice = rf"^{name} needs one environment, but Vectorize is a batch of 2"
    with unchecked(), pytest.raises(ValueError, match=advice):
        wrap(Vectorize(Race(), 2))


@pytest.mark.parametrize("name", VECTOR)
def test_nestings_of_one_in_a_wrapper_of_a_batch(name):
    advice = rf"AutoReset is one environment: .* as in {name}\(Vectorize\(env, num_envs\)\)\."
    with unchecked(), pytest.raises(ValueError, match=advice):
        VECTOR[name](AutoReset(Race()))


@pytest.mark.parametrize("name", VECTOR)
def test_nestings_of_a_vector_wrapper_in_itself(name):
    other = next(other for other in VECTOR if other != name)
    for between in [(), (other,)]:
        with unchecked(), pytest.raises(ValueError, match=f"One {name} is enough"):
            stack((name, *between, name), Vectorize(Race(), 2))


@pytest.mark.parametrize("name", [*SINGLE, *VECTOR])
@pytest.mark.parametrize("thing", [None, {"env": 1}, Race], ids=["None", "dict", "class"])
def test_nestings_around_no_environment(name, thing):
    with unchecked(), pytest.raises(TypeError, match="env"):
        {**SINGLE, **VECTOR}[name](thing)


SEEN = ("observation", "final_observation")
OWN_PARTS = {
    "TimeLimit": ("truncated",),
    "AppendAgentId": SEEN,
    "LogEpisodes": (),
    "ShapedReward": ("reward",),
    "NormalizeObservation": SEEN,
    "NormalizeReward": ("reward",),
}
"""What each wrapper changes of a timestep; `LogEpisodes` adds entries of `info`."""


@pytest.mark.parametrize("name", OWN_PARTS)
def test_a_wrapper_changes_its_own_part_alone(name, key):
    env = Vectorize(AutoReset(TimeLimit(Race(), 4)), 2) if name in VECTOR else Race()
    actions = sample_actions(env, key, 8)
    _, plain, _ = rollout(env, key, actions)
    _, wrapped, _ = rollout({**SINGLE, **VECTOR}[name](env), key, actions)
    wrapped = eqx.tree_at(lambda t: t.info, wrapped, {x: wrapped.info[x] for x in plain.info})
    for part in ("observation", "final_observation", "reward", "terminated", "truncated", "info"):
        ours, theirs = getattr(wrapped, part), getattr(plain, part)
        if part in OWN_PARTS[name]:
            assert not eqx.tree_equal(ours, theirs)
        else:
            assert_same(ours, theirs)


# The contract, for one environment


def test_observe_gives_what_came_with_the_state(episodes):
    _, env, _, (observation, state), timesteps, states = episodes
    assert_same(eqx.filter_jit(env.observe)(state), observation)
    assert_same(eqx.filter_jit(eqx.filter_vmap(env.observe))(states), timesteps.observation)


def test_final_observation_is_transformed_like_observation(episodes):
    order, _, actions, first, timesteps, states = episodes
    never_resets = stack([name for name in order if name != "AutoReset"], Race())
    keys = jax.random.split(jax.random.key(3), STEPS)
    step = eqx.filter_jit(eqx.filter_vmap(never_resets.step))
    led_to, _ = step(keys, states_before(first, states), actions)
    assert_same(timesteps.final_observation, led_to.observation)


def test_observation_after_an_end_opens_an_episode(episodes):
    _, _, _, _, timesteps, states = episodes
    done = np.asarray(timesteps.done)
    np.testing.assert_array_equal(np.asarray(unwrap_state(states).time) == 0, done)
    position = np.asarray(timesteps.observation["vector"][..., 0])
    final = np.asarray(timesteps.final_observation["vector"][..., 0])
    assert (position[done] < 2).all()
    assert (final[done] != position[done]).all()
    np.testing.assert_array_equal(final[~done], position[~done])


def test_time_limit_counts_within_the_episode(episodes):
    _, _, _, _, timesteps, _ = episodes
    np.testing.assert_array_equal(timesteps.truncated, timesteps.info["time"] == LIMIT)


def test_logged_return_is_the_plain_sum_of_raw_rewards(episodes):
    _, _, _, _, timesteps, _ = episodes
    info = jax.tree.map(np.asarray, timesteps.info)
    total, events, length = np.zeros(3), np.zeros((3, 2)), 0
    active = np.ones(3, bool)
    for index, done in enumerate(np.asarray(timesteps.done)):
        total = total + np.where(active, info["raw_reward"][index], 0.0)
        active &= ~np.asarray(timesteps.terminated[index])
        events = events + info["events"][index]
        length += 1
        assert info["episode_done"][index] == done
        np.testing.assert_allclose(info["episode_return"][index], done * total)
        np.testing.assert_array_equal(info["episode_events"][index], done * events)
        assert info["episode_length"][index] == done * length
        if done:
            total, events, length = np.zeros(3), np.zeros((3, 2)), 0
            active = np.ones(3, bool)
    assert info["episode_events"].max() > 255


def test_shaping_follows_its_schedule_over_all_episodes(episodes):
    _, _, _, _, timesteps, _ = episodes
    weight = np.linspace(2.0, 0.0, STEPS, endpoint=False)[:, None]
    shaped = timesteps.info["raw_reward"] + weight * np.asarray(timesteps.info["shaped_reward"])
    np.testing.assert_allclose(timesteps.reward, shaped, rtol=1e-5)


def test_agent_ids_are_on_every_observation(episodes):
    _, _, _, first, timesteps, _ = episodes
    for observation in (timesteps.observation, timesteps.final_observation):
        ids = np.broadcast_to(np.eye(3), (STEPS, 3, 3))
        np.testing.assert_array_equal(observation["vector"][..., -3:], ids)
        planes = np.broadcast_to(ids[:, :, None, None], (STEPS, 3, 2, 3, 3))
        np.testing.assert_array_equal(observation["picture"][..., -3:], planes)
        assert observation["picture"].dtype == jnp.uint8
    np.testing.assert_array_equal(first[0]["vector"][..., -3:], np.eye(3))


def test_a_typed_key_in_the_state_survives(episodes):
    _, _, _, first, _, states = episodes
    inner = unwrap_state(states)
    assert jnp.issubdtype(inner.key.dtype, jax.dtypes.prng_key)
    data = np.asarray(
        jax.random.key_data(jnp.concatenate([unwrap_state(first[1]).key[None], inner.key]))
    )
    assert len(np.unique(data, axis=0)) == STEPS + 1


# The contract, for many environments


def test_vector_observe_gives_what_came_with_the_state(batches):
    _, env, _, (observation, state), timesteps, states = batches
    assert_same(eqx.filter_jit(env.observe)(state), observation)
    assert_same(eqx.filter_jit(eqx.filter_vmap(env.observe))(states), timesteps.observation)


def test_vector_final_observation_is_transformed_like_observation(batches):
    _, env, actions, first, timesteps, states = batches
    never_resets = [name for name in GOOD_ORDERS[0] if name != "AutoReset"]
    never_resets = Vectorize(stack(never_resets, Race()), 4)
    keys = jax.random.split(jax.random.key(3), STEPS)
    before = core_state(states_before(first, states))
    _, led_to = eqx.filter_jit(eqx.filter_vmap(never_resets.step))(keys, before, actions)
    # What the stack would have shown, had it been left in that state with the moments of that step.
    observe = eqx.filter_jit(eqx.filter_vmap(env.observe))
    assert_same(timesteps.final_observation, observe(with_core_state(states, led_to)))


def core_state(state):
    """What is inside the states of the vector wrappers."""
    while isinstance(state, NormalizeObservationState | NormalizeRewardState):
        state = state.env_state
    return state


def with_core_state(state, core):
    return eqx.tree_at(core_state, state, core)


# Under JAX's transformations


def one():
    return stack(GOOD_ORDERS[0], Race())


def many_cart_poles():
    logged = LogEpisodes(AutoReset(TimeLimit(CartPole(), LIMIT)))
    return stack(VECTOR, Vectorize(ShapedReward(AppendAgentId(logged), 0.5), 3))


@pytest.fixture(scope="module", params=[one, many_cart_poles])
def full(request):
    """A stack of everything."""
    return request.param()


@pytest.mark.slow
def test_a_scan_a_loop_and_disable_jit_agree(full):
    actions = sample_actions(full, jax.random.key(1), LIMIT + 1)
    key = jax.random.key(2, impl="unsafe_rbg")  # the default needs hundreds of ops for a number
    first, timesteps, states = rollout(full, key, actions)
    assert_close((first, timesteps, states), python_rollout(full, key, actions))
    # Op by op is slow: the first observation, and one step that ends an episode.
    reset_key, scan_key = jax.random.split(key)
    ends = np.asarray(timesteps.done).reshape(LIMIT + 1, -1).any(axis=1)
    end = 1 + np.flatnonzero(ends[1:])[0]
    with jax.disable_jit():
        assert_close(first, full.reset(reset_key))
        step_key = jax.random.split(scan_key, LIMIT + 1)[end]
        again = full.step(step_key, at(states, end - 1), actions[end])
    assert_close((at(timesteps, end), at(states, end)), again)


def at(tree, index):
    return jax.tree.map(lambda x: x[index], tree)


@pytest.mark.slow
def test_filter_vmap_twice_nested_is_a_loop(full):
    keys = jax.random.split(jax.random.key(3), (2, 2))
    actions = sample_actions(full, jax.random.key(1), 4)
    actions = actions.reshape(2, 2, *actions.shape[1:])
    first = eqx.filter_jit(eqx.filter_vmap(eqx.filter_vmap(full.reset)))(keys)
    then = eqx.filter_jit(eqx.filter_vmap(eqx.filter_vmap(full.step)))(keys, first[1], actions)
    for index in itertools.product(range(2), range(2)):
        assert_close(at(first, index), reset(full, keys[index]))
        assert_close(at(then, index), step(full, keys[index], at(first[1], index), actions[index]))


def test_one_compilation_for_all_steps(full):
    traced = []

    @eqx.filter_jit
    def counted_step(env, key, state, action):
        traced.append(1)
        return env.step(key, state, action)

    actions = sample_actions(full, jax.random.key(1), 12)
    _, state = reset(full, jax.random.key(0))
    ends = 0
    for action in actions:
        timestep, state = counted_step(full, jax.random.key(1), state, action)
        ends += int(timestep.done.sum())
    assert ends > 0
    assert len(traced) == 1


def test_one_compilation_for_environments_of_other_parameters():
    traced = []

    @eqx.filter_jit
    def counted_reset(env, key):
        traced.append(1)
        return env.reset(key)

    for goal, limit, weight in [(4.0, 3, 1.0), (5.0, 4, 0.5)]:
        env = ShapedReward(AutoReset(TimeLimit(Race(goal=goal), limit)), weight)
        counted_reset(NormalizeReward(Vectorize(env, 2), gamma=weight), jax.random.key(0))
    assert len(traced) == 1


@pytest.mark.parametrize("order", [*QUICK_ORDERS[:2], VECTOR], ids=["one", "other", "vector"])
def test_the_key_of_a_step_reaches_the_core(order):
    """Agents that only this key moves go elsewhere with another one, and so does each copy."""
    inner = Vectorize(stack(GOOD_ORDERS[0], Drift()), 4) if order is VECTOR else Drift()
    env = stack(order, inner)
    action = sample_actions(env, jax.random.key(1), 1)[0]
    _, state = reset(env, jax.random.key(0))
    keys = [jax.random.key(seed) for seed in (2, 2, 3)]
    went = [unwrap_state(step(env, key, state, action)[1]) - unwrap_state(state) for key in keys]
    np.testing.assert_array_equal(went[0], went[1])
    assert len(np.unique(np.concatenate([went[0], went[2]]))) == 2 * action.size


def test_unwrap_finds_the_core():
    race = Race()
    single = stack(GOOD_ORDERS[0], race)
    many = stack(VECTOR, Vectorize(single, 2))
    assert unwrap(single) is race
    core = unwrap(many)
    assert isinstance(core, Vectorize)
    assert unwrap(core.env) is race
    assert all(env.num_agents == 3 and env.action_space.n == 3 for env in (single, many))
    assert many.num_envs == 2
