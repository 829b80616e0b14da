"""Action masks in the conventions of other libraries, compared with the masks of the world."""

import gymnasium
import jax
import jax.numpy as jnp
import jaxnasium
import numpy as np
import pytest
from alone import episode
from gymnasium.utils.env_checker import check_env
from masked_world import Trapdoors
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test
from pettingzoo.utils import parallel_to_aec
from signals import NS, Signals

from eqgrid import LogEpisodes, MultiDiscrete
from eqgrid.interop import to_gymnasium, to_gymnasium_vector, to_jaxnasium, to_pettingzoo

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:.*{text}:UserWarning")
    for text in ("infinity. This is probably too", "a symmetric and normalized")
]
WORLDS = {"one choice": LogEpisodes(Trapdoors()), "two choices": Signals()}
worlds = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
alone = pytest.mark.parametrize("world", [Trapdoors(1), Signals(1)], ids=WORLDS)


def joined(mask):
    """The mask of an agent as eqgrid has it, from the mask for a space's `sample`."""
    choices = mask if isinstance(mask, tuple) else (mask,)
    assert {choice.dtype for choice in choices} == {np.dtype(np.int8)}
    return np.concatenate(choices).astype(bool)


@worlds
def test_pettingzoo_accepts_masks(world):
    parallel_api_test(to_pettingzoo(world), num_cycles=30)
    parallel_seed_test(lambda: to_pettingzoo(world), num_cycles=5)


@pytest.mark.filterwarnings("ignore:.* is not a NumPy array:UserWarning")
@pytest.mark.filterwarnings("ignore:.* numpy array is all zeros:UserWarning")
@pytest.mark.filterwarnings("ignore:.*space for each agent probably should be:UserWarning")
@worlds
def test_pettingzoo_accepts_masks_of_agents_that_act_one_after_the_other(world):
    api_test(parallel_to_aec(to_pettingzoo(world)), num_cycles=60)
    seed_test(lambda: parallel_to_aec(to_pettingzoo(world)), num_cycles=30)


def sampled(env, observations, forbidden):
    """An action of each agent, which its mask allows unless `forbidden`."""
    return {
        name: env.action_space(name).sample(None if forbidden else seen["action_mask"])
        for name, seen in observations.items()
    }


@worlds
@pytest.mark.parametrize("seed", [0, 1])
def test_masks_of_pettingzoo_are_those_of_the_world(world, seed):
    env = to_pettingzoo(world)
    observations, _ = env.reset(seed=seed)
    told, actions = [observations], []
    for name in env.agents:
        env.action_space(name).seed(seed)
    while env.agents:
        here = {name: observations[name] for name in env.agents}
        chosen = sampled(env, here, forbidden=len(actions) % 3 == 2)
        zeros = np.zeros_like(next(iter(chosen.values())))
        actions.append(np.stack([chosen.get(name, zeros) for name in env.possible_agents]))
        observations, *_ = env.step(chosen)
        told.append(observations)
    first, timesteps, _ = episode(world, seed, actions)
    expected = [first, *(timestep.observation for timestep in timesteps)]
    for seen, whole in zip(told, expected, strict=True):
        for name, row in seen.items():
            i = env.possible_agents.index(name)
            assert row in env.observation_space(name)
            np.testing.assert_array_equal(row["observation"], whole.observation[i])
            np.testing.assert_array_equal(joined(row["action_mask"]), whole.action_mask[i])


def test_agents_that_have_terminated_keep_the_mask_of_the_world():
    env = to_pettingzoo(Trapdoors())
    observations, _ = env.reset(seed=0)
    fall = {name: np.flatnonzero(x["action_mask"] == 0)[0] for name, x in observations.items()}
    observations, _, terminations, *_ = env.step(fall)
    assert all(terminations.values())
    assert not any(x["action_mask"].any() for x in observations.values())


@alone
def test_gymnasium_accepts_masks_in_its_info(world):
    env = to_gymnasium(world)
    check_env(env, skip_render_check=True)
    assert isinstance(env.observation_space, gymnasium.spaces.Box)
    (observation, info), actions = env.reset(seed=3), []
    told = [(observation, info["action_mask"])]
    env.action_space.seed(0)
    for _ in range(6):
        actions.append(env.action_space.sample(info["action_mask"])[None])
        observation, _, _, truncated, info = env.step(actions[-1][0])
        told.append((observation, info["action_mask"]))
    assert truncated  # nobody fell
    first, timesteps, _ = episode(world, 3, actions)
    expected = [first, *(timestep.observation for timestep in timesteps)]
    for (observation, mask), whole in zip(told, expected, strict=True):
        np.testing.assert_array_equal(observation, whole.observation[0])
        np.testing.assert_array_equal(joined(mask), whole.action_mask[0])


def named(observation):
    """The mask of `Signals`, from its observation."""
    hot = np.split(observation, [NS[0]], axis=-1)
    return np.concatenate([x + np.roll(x, 1, axis=-1) for x in hot], axis=-1) > 0


def test_a_batch_of_gymnasium_has_the_masks_of_the_next_actions():
    envs = to_gymnasium_vector(Signals(1), 3)
    observations, infos = envs.reset(seed=0)
    for number in range(1, 13):
        assert infos["_action_mask"].all()
        for observation, mask in zip(observations, infos["action_mask"], strict=True):
            np.testing.assert_array_equal(joined(mask), named(observation))
        space = envs.single_action_space
        actions = np.stack([space.sample(mask) for mask in infos["action_mask"]])
        observations, _, _, truncated, infos = envs.step(actions)
        assert truncated.all() == (number % 6 == 0)
        if truncated.all():
            final = infos["final_info"]
            assert final["_action_mask"].all()
            for observation, mask in zip(infos["final_obs"], final["action_mask"], strict=True):
                np.testing.assert_array_equal(joined(mask), named(observation))


def test_a_batch_of_gymnasium_has_an_array_of_masks_of_one_choice():
    envs = to_gymnasium_vector(Trapdoors(1), 3)
    _, infos = envs.reset(seed=0)
    lengths = np.zeros(3, int)
    for _ in range(8):
        mask = infos["action_mask"]
        assert (mask.shape, mask.dtype) == ((3, 5), np.int8)
        _, _, terminated, truncated, infos = envs.step(envs.action_space.sample(tuple(mask)))
        assert not terminated.any()
        lengths = np.where(truncated, 0, lengths + 1)
    assert (lengths == 2).all()


JAXNASIUM = {
    "one agent": (Trapdoors(1), (5,)),
    "several agents": (Trapdoors(), (5,)),
    "two choices": (Signals(action_space=MultiDiscrete((4, 4))), (2, 4)),
}


@pytest.mark.parametrize(("world", "shape"), JAXNASIUM.values(), ids=JAXNASIUM)
def test_masks_of_jaxnasium_are_those_of_the_world(world, shape, key):
    env = to_jaxnasium(world)
    seen, state = env.reset_env(key)
    expected, own = world.reset(key)
    is_agent = lambda x: isinstance(x, jaxnasium.AgentObservation)  # noqa: E731
    for space in jax.tree.leaves(env.observation_space, is_leaf=is_agent):
        assert (space.action_mask.shape, space.action_mask.dtype) == (shape, bool)
    for i in range(6):
        rows = jax.tree.leaves(seen, is_leaf=is_agent)
        for j, row in enumerate(rows):
            np.testing.assert_array_equal(row.observation, expected.observation[j])
            np.testing.assert_array_equal(row.action_mask.ravel(), expected.action_mask[j])
            assert row.action_mask.shape == shape
        assert len(rows) == world.num_agents
        step_key = jax.random.fold_in(key, i)
        action = env.sample_action(step_key)
        (seen, *_), state = env.step_env(step_key, state, action)
        timestep, own = world.step(step_key, own, jnp.stack(jax.tree.leaves(action)))
        expected = timestep.observation
    over = timestep.terminated
    assert over.any() == (len(shape) == 1)
    assert not expected.action_mask[over].any()  # nothing is allowed to agents that fell


@pytest.mark.slow
def test_the_ppo_of_jaxnasium_learns_with_masks(key):
    algorithms = pytest.importorskip("jaxnasium.algorithms")
    ppo = algorithms.PPO(total_timesteps=512, num_envs=4, num_steps=32, warmup_steps=32)
    for world, _ in JAXNASIUM.values():
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            env = to_jaxnasium(world)
            agents, _ = ppo.train(key, env)
            seen, state = env.reset(key)
            action = agents.get_action(key, seen)
            actions = jnp.stack(jax.tree.leaves(action))
        mask = world.observe(state.env_state if hasattr(state, "env_state") else state).action_mask
        for i, choice in enumerate(world.action_space.split(mask)):
            chosen = actions.reshape(world.num_agents, -1)[:, i]
            assert jnp.take_along_axis(choice, chosen[:, None], axis=1).all()


def test_jaxnasium_has_no_masks_of_choices_that_differ():
    with pytest.raises(ValueError, match=r"no convention for the action mask .* \(3, 5\)"):
        to_jaxnasium(Signals())
