"""The adapters to Gymnasium: its own checks, and equality with the environment itself."""

import gymnasium
import numpy as np
import pytest
from alone import episode
from cart_pole import CartPole
from compilations import counted
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from pendulum import Pendulum
from signals import Signals

from eqgrid import AutoReset, TimeLimit, make
from eqgrid.interop import to_gymnasium, to_gymnasium_vector

# What nobody told us the bounds of has none, as in Gymnasium's own cart-pole; and its pendulum is
# pushed by up to 2.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:.*{text}:UserWarning")
    for text in ("infinity. This is probably too", "a symmetric and normalized")
]

KITCHEN = """
XXPXX
O1  O
X   X
XDXSX"""
COOK = make("overcooked", layout=KITCHEN, horizon=7)
WALKER = make("goals", num_agents=1, horizon=9)
SIGNALS = Signals(num_agents=1, masked=False)
WORLDS = {"cook": COOK, "walker": WALKER, "pendulum": TimeLimit(Pendulum(), 5), "pole": CartPole()}
WORLDS["signals"] = SIGNALS
worlds = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)


@worlds
def test_gymnasium_accepts_it(world):
    env = to_gymnasium(world)
    check_env(env)
    space = env.observation_space
    assert space.dtype == env.reset(seed=0)[0].dtype == env.step(env.action_space.sample())[0].dtype


@pytest.mark.filterwarnings("error:.*infinity:UserWarning")
def test_gymnasium_makes_it_and_accepts_pictures_without_a_word():
    env = to_gymnasium(COOK)
    check_env(env)
    assert isinstance(gymnasium.make(env.spec).unwrapped, type(env))


@pytest.mark.slow
def test_gymnasium_accepts_a_body():
    bodies = pytest.importorskip("eqgrid.envs.bodies")
    env = to_gymnasium(TimeLimit(bodies.CartPole(), 5))
    check_env(env, skip_render_check=True)
    assert env.metadata["render_fps"] == 50
    envs = to_gymnasium_vector(TimeLimit(bodies.CartPole(), 5), 3)
    envs.reset(seed=0)
    told = [envs.step(envs.action_space.sample()) for _ in range(5)]
    assert told[-1][3].all()
    assert not told[-2][3].any()


def drawn_actions(env, count):
    env.action_space.seed(0)
    return [env.action_space.sample() for _ in range(count)]


@worlds
def test_an_episode_is_that_of_the_environment(world):
    env = to_gymnasium(world)
    actions = drawn_actions(env, 9)
    first, timesteps, _ = episode(world, 7, [np.asarray(a)[None] for a in actions])
    observation, info = env.reset(seed=7)
    np.testing.assert_array_equal(observation, first[0])
    assert info == {}
    for action, timestep in zip(actions, timesteps, strict=True):
        observation, reward, terminated, truncated, info = env.step(action)
        np.testing.assert_array_equal(observation, timestep.observation[0])
        assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
        assert (reward, terminated) == (timestep.reward[0], timestep.terminated[0])
        assert truncated == timestep.truncated
        assert info.keys() == timestep.info.keys()
        for name, value in info.items():
            np.testing.assert_array_equal(value, timestep.info[name][0])
        if terminated or truncated:
            break
    if terminated or truncated:
        with pytest.raises(ResetNeeded, match="No episode is running"):
            env.step(actions[0])


def play(env, seed, count=5):
    told = [env.reset(seed=seed)]
    for action in drawn_actions(env, count):
        told.append(env.step(action))
        if np.any(told[-1][2:4]) and not isinstance(env, gymnasium.vector.VectorEnv):
            break
    return told


@pytest.mark.parametrize("build", [to_gymnasium, lambda env: to_gymnasium_vector(env, 4)])
def test_an_episode_follows_from_its_seed(build):
    one, other = build(WALKER), build(WALKER)
    for seed in (3, None, None):
        assert data_equivalence(play(one, seed), play(other, seed), exact=True)
    starts = [one.reset(seed=seed)[0].tobytes() for seed in range(8)]
    assert len({*starts, *(one.reset()[0].tobytes() for _ in range(4))}) > 9


@pytest.mark.parametrize("build", [to_gymnasium, lambda env: to_gymnasium_vector(env, 4)])
def test_nothing_is_compiled_anew(build):
    play(build(WALKER), 0)
    with counted() as compilations:
        env = build(WALKER)
        for seed in (1, 2, None):
            play(env, seed)
    assert not compilations


def there(infos):
    """The entries of infos of a vector environment, where there are any."""
    shown = {}
    for name, value in infos.items():
        mask = infos.get(f"_{name}")
        if mask is None:
            continue
        for i in np.flatnonzero(mask):
            shown[name, i] = (
                {k: v[i] for k, v in value.items() if value.get(f"_{k}", mask)[i]}
                if isinstance(value, dict)
                else value[i]
            )
    return shown


def test_many_are_as_gymnasium_steps_them_one_by_one():
    """In a kitchen in which nothing is random, since a batch draws other keys than its copies."""
    envs = to_gymnasium_vector(COOK, 3)
    makers = [lambda: to_gymnasium(COOK)] * 3
    peers = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    for name in ("single_action_space", "single_observation_space", "action_space"):
        assert getattr(envs, name) == getattr(peers, name)
    assert envs.observation_space == peers.observation_space
    assert envs.metadata["autoreset_mode"] == peers.metadata["autoreset_mode"]
    assert data_equivalence(envs.reset(seed=0)[0], peers.reset(seed=0)[0], exact=True)
    for number, action in enumerate(drawn_actions(envs, 16), 1):
        *told, infos = envs.step(action)
        *known, known_infos = peers.step(action)
        assert data_equivalence(told, known, exact=True)
        assert data_equivalence(there(infos), there(known_infos), exact=True)
        assert ("final_obs" in infos) == (number % 7 == 0)


def test_where_an_episode_ends_the_next_one_begins():
    envs = to_gymnasium_vector(WALKER, 16)
    observation, _ = envs.reset(seed=0)
    ended_some = 0
    for action in drawn_actions(envs, 25):
        observation, reward, terminated, truncated, infos = envs.step(action)
        ended = terminated | truncated
        assert observation in envs.observation_space
        assert reward.dtype == np.float64
        np.testing.assert_array_equal(infos["_shaped_reward"], ~ended)
        if not ended.any():
            assert "final_obs" not in infos
            continue
        ended_some += not ended.all()
        np.testing.assert_array_equal(infos["_final_obs"], ended)
        final = infos["final_info"]
        np.testing.assert_array_equal(final["_events"], ended)
        np.testing.assert_array_equal(final["events"][:, 0], terminated)
        for i, last in enumerate(infos["final_obs"]):
            assert (last is None) == (not ended[i])
            assert last is None or not np.array_equal(last, observation[i])
    assert ended_some


def test_a_lazy_reset_is_left_as_it_is():
    eager, lazy = (to_gymnasium_vector(e, 4) for e in (WALKER, AutoReset(WALKER, lazy=True)))
    assert data_equivalence(play(eager, 0, 12), play(lazy, 0, 12))


def test_pictures_are_those_of_the_environment():
    env = to_gymnasium(COOK, render_mode="rgb_array")
    actions = drawn_actions(env, 3)
    env.reset(seed=0)
    for action in actions:
        env.step(action)
    *_, state = episode(COOK, 0, [np.asarray(a)[None] for a in actions])
    picture = COOK.render(state)
    shown = env.render()[: len(picture), : picture.shape[1]]  # without a row that makes it even
    np.testing.assert_array_equal(shown, picture)
    envs = to_gymnasium_vector(COOK, 2, render_mode="rgb_array")
    envs.reset(seed=0)
    for action in actions:
        envs.step(np.array([action, 4]))
    np.testing.assert_array_equal(envs.render()[0], env.render())
    assert not np.array_equal(*envs.render())
    env.close()
    envs.close()


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: to_gymnasium(make("overcooked")), "one agent, .* has 2: use to_pettingzoo"),
        (lambda: to_gymnasium_vector(make("goals"), 2), "one agent, .* has 2: use to_pettingzoo"),
        (lambda: to_gymnasium(AutoReset(COOK)), "leave it out"),
        (lambda: to_gymnasium_vector(COOK, 0), "at least 1 environment"),
        (lambda: to_gymnasium_vector(COOK, 2, render_mode="human"), "choose 'rgb_array' or None"),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(build, says):
    with pytest.raises(ValueError, match=says) as error:
        build()
    assert "\n" not in str(error.value)


def test_wrong_actions_are_one_sentence():
    env, envs = to_gymnasium(Pendulum()), to_gymnasium_vector(COOK, 2)
    for adapter, action in ((env, [0.0]), (envs, [0, 0])):
        with pytest.raises(ResetNeeded, match=r"call reset\(\) first"):
            adapter.step(np.array(action))
        adapter.reset(seed=0)
    for bad in (3.0, [2.5], "left", [[0.0]], [np.nan]):
        with pytest.raises(ValueError, match=r"^The agent cannot do .* of Box\(-2.0, 2.0"):
            env.step(bad)
    for bad in (0, [0], [0, 6], [0.5, 1], None):
        with pytest.raises(ValueError, match=r"^The batch cannot do .* of MultiDiscrete\(\[6 6\]"):
            envs.step(bad)
    signals = to_gymnasium(SIGNALS)
    assert signals.action_space == gymnasium.spaces.MultiDiscrete([3, 5])
    signals.reset(seed=0)
    with pytest.raises(ValueError, match=r"cannot do .* of MultiDiscrete\(\[3 5\]"):
        signals.step(np.array([3, 0]))
