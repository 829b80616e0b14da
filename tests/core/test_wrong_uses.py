"""Wrong uses of environments, states, actions, partners and policies, as a new user tries them: the
error of each use is a sentence that names both sides.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from corridor import Corridor
from kitchen_checks import unchecked

from agents import (
    CNN,
    GRU,
    PPO,
    PartnerTeam,
    PolicyPartner,
    actor_critic,
    collect_rollout,
    evaluate,
    init_runner,
    init_train_state,
    record_episodes,
    train,
    trained_policy,
)
from eqgrid import (
    AutoReset,
    ConstantPartner,
    Discrete,
    LogEpisodes,
    MultiDiscrete,
    NormalizeObservation,
    NormalizeReward,
    OneOf,
    RandomPartner,
    TimeLimit,
    Vectorize,
    WithPartner,
    check_env,
    make,
    play,
    play_step,
    record_play,
    unwrap_state,
)

KEY = jax.random.key(0)
KITCHEN = make("overcooked", layout="cramped", observation="features")
GOALS = make("goals", layout="room", num_agents=2)
CORRIDOR = Corridor(Discrete(2))
STAY = ConstantPartner(4)
PPO_OF_4 = PPO(rollout_length=4, num_minibatches=1)


def batch(env, number=3):
    return Vectorize(AutoReset(LogEpisodes(env)), number)


def state_of(env):
    return env.reset(KEY)[1]


LIMITED, ONE, ENVS = TimeLimit(KITCHEN, 5), AutoReset(LogEpisodes(KITCHEN)), batch(KITCHEN)
IMAGES = batch(make("overcooked", layout="cramped"))
TWO, MANY = jnp.zeros(2, int), jnp.zeros((3, 2), int)


class Returns(Corridor):
    """A corridor whose steps return something else."""

    result: Any = None

    def step(self, key, state, action):
        return self.result


@pytest.fixture(scope="module")
def made():
    """What takes time to make: a policy, a runner and a training state, by name."""
    with unchecked():
        policy = actor_critic(ENVS, KEY)
        return {
            "policy": policy,
            "trained": trained_policy(policy, ENVS),
            "gru": actor_critic(ENVS, KEY, network=GRU),
            "cnn": actor_critic(IMAGES, KEY, network=CNN),
            "three": actor_critic(batch(make("goals", layout="room", num_agents=3)), KEY),
            "runner": init_runner(policy, ENVS, KEY),
            "state": init_train_state(PPO_OF_4, ENVS, KEY),
        }


USES = {
    # environments
    "class": (lambda _: TimeLimit(Corridor, 5), "TimeLimit .* Corridor is a class"),
    "no methods": (lambda _: TimeLimit(Discrete(2), 5), "TimeLimit .* Discrete has no method"),
    "swapped": (lambda _: Vectorize(4, KITCHEN), "Vectorize .* 4 is of the type int"),
    "many in check_env": (lambda _: check_env(ENVS), "Vectorize .* check_env checks one"),
    "many in play": (lambda _: play(ENVS, (STAY, STAY), KEY), "play needs one .* Vectorize"),
    "many in record_play": (
        lambda _: record_play(ENVS, (STAY, STAY), jax.random.split(KEY), max_steps=2),
        "play needs one .* Vectorize",
    ),
    "many in a partner": (
        lambda made: PolicyPartner(made["trained"], env=ENVS),
        "PolicyPartner needs one .* Vectorize",
    ),
    "one in init_train_state": (
        lambda _: init_train_state(PPO_OF_4, ONE, KEY),
        "init_train_state needs a batch .* AutoReset",
    ),
    "one in train": (
        lambda made: train(PPO_OF_4, ONE, made["state"], num_updates=1),
        "Block needs a batch .* AutoReset",
    ),
    "one in evaluate": (
        lambda made: evaluate(made["policy"], ONE, KEY),
        "evaluate needs a batch .* AutoReset",
    ),
    "one in record_episodes": (
        lambda made: record_episodes(made["policy"], ONE, KEY, max_steps=2),
        "record_episodes needs a batch .* AutoReset",
    ),
    "one in init_runner": (
        lambda made: init_runner(made["policy"], ONE, KEY),
        "init_runner needs a batch .* AutoReset",
    ),
    "one in collect_rollout": (
        lambda made: collect_rollout(made["policy"], ONE, made["runner"], KEY, 2),
        "collect_rollout needs a batch .* AutoReset",
    ),
    "one in actor_critic": (lambda _: actor_critic(ONE, KEY), "actor_critic .* AutoReset"),
    "one in wrap": (lambda made: made["trained"].wrap(ONE), "policy.wrap .* AutoReset"),
    # results of steps
    "four results": (
        lambda _: step(AutoReset(Returns(Discrete(2), result=(1, 2, 3, 4)))),
        "Returns.step .* TimeStep and a state, but returns tuple of length 4",
    ),
    "a dict": (
        lambda _: step(AutoReset(Returns(Discrete(2), result=({}, 0)))),
        "Returns.step .* TimeStep.* dict has no field observation, reward",
    ),
    # actions
    "list": (lambda _: step(LIMITED, action=[0, 1]), "action.* array .* type list"),
    "list of many": (lambda _: step(ENVS, action=[[0, 1]] * 3), "action.* array .* type list"),
    "real numbers": (lambda _: step(KITCHEN, action=jnp.zeros(2)), "Overcooked .* int.* float32"),
    "choices": (
        lambda _: step(KITCHEN, action=jnp.zeros((2, 3), int)),
        r"Overcooked must be one number, .* \(2, 3\)",
    ),
    "one choice": (
        lambda _: step(TimeLimit(Corridor(MultiDiscrete((2, 3))), 5), action=jnp.zeros(1, int)),
        r"Corridor must be 2 choices, .* \(1,\)",
    ),
    "no agents": (
        lambda _: step(TimeLimit(CORRIDOR, 5), action=jnp.asarray(1)),
        r"lead with 1 agents, but has the shape \(\)",
    ),
    "no envs": (lambda _: step(ENVS, action=TWO), r"3 envs, 2 agents, but has the shape \(2,\)"),
    # states
    "inner state": (lambda _: step(LIMITED, state_of(KITCHEN)), "TimeLimit .* got World"),
    "outer state": (lambda _: step(KITCHEN, state_of(LIMITED)), "Overcooked .* got StepCountState"),
    "outer state to observe": (
        lambda _: KITCHEN.observe(state_of(LIMITED)),
        "Overcooked .* got StepCountState",
    ),
    "outer state to render": (
        lambda _: KITCHEN.render(state_of(LIMITED)),
        "Overcooked .* got StepCountState",
    ),
    "state of many": (lambda _: step(ONE, state_of(ENVS)), "LogEpisodes is one .* states of 3"),
    "state of many to a world": (
        lambda _: step(KITCHEN, unwrap_state(state_of(ENVS))),
        "Overcooked is one .* states of 3",
    ),
    "state of many to observe": (
        lambda _: LIMITED.observe(state_of(Vectorize(LIMITED, 3))),
        "TimeLimit is one .* states of 3",
    ),
    "state of one": (
        lambda _: step(ENVS, state_of(ONE)),
        r"Vectorize has 3 .* LogEpisodesState, .* the shape \(4, 5\)",
    ),
    "state of one to observe": (
        lambda _: ENVS.observe(state_of(ONE)),
        r"Vectorize has 3 .* LogEpisodesState, .* the shape \(4, 5\)",
    ),
    "other number": (
        lambda _: step(NormalizeReward(ENVS), state_of(NormalizeReward(batch(KITCHEN, 4)))),
        r"NormalizeReward .* \(3, 2\), but has \(4, 2\)",
    ),
    "other world": (
        lambda _: step(KITCHEN, state_of(GOALS)),
        r"Overcooked .* \(4, 5\), but has \(8, 9\)",
    ),
    "without the wrapper's state": (
        lambda _: step(NormalizeObservation(ENVS), state_of(ENVS)),
        "NormalizeObservationState .* got LogEpisodesState",
    ),
    "result of reset": (lambda _: step(KITCHEN, KITCHEN.reset(KEY)), "World .* got tuple"),
    "key and state": (lambda _: KITCHEN.step(state_of(KITCHEN), KEY, TWO), "World .* got an array"),
    "time step": (lambda _: KITCHEN.observe(step(KITCHEN)[0]), "World .* got TimeStep"),
    "state in play_step": (
        lambda _: play_step(KITCHEN, (STAY, STAY), state_of(KITCHEN)),
        "PlayState.* got World",
    ),
    # partners
    "policy in play": (
        lambda made: play(KITCHEN, (made["trained"], STAY), KEY),
        "AbstractPartner, .* TrainedPolicy",
    ),
    "no team": (lambda _: play(KITCHEN, STAY, KEY), "sequence, .* ConstantPartner"),
    "no list": (lambda _: OneOf(STAY), "sequence, .* ConstantPartner"),
    "list of partners": (lambda _: WithPartner(KITCHEN, [STAY]), r"OneOf\(partners\), .* list"),
    "other actions": (
        lambda _: play(KITCHEN, (STAY, ConstantPartner(TWO)), KEY),
        r"different shapes: ConstantPartner \(\), ConstantPartner \(2,\)",
    ),
    "space": (lambda _: RandomPartner(KITCHEN), "action space, .* Overcooked"),
    "actor-critics in a team": (
        lambda made: PartnerTeam((made["policy"],) * 2),
        "AbstractPartner, .* ActorCritic",
    ),
    "partner of an actor-critic": (
        lambda made: PolicyPartner(made["policy"]),
        "PolicyPartner needs a TrainedPolicy, .* got ActorCritic",
    ),
    # policies and training states
    "class of PPO": (lambda _: init_train_state(PPO, ENVS, KEY), "PPO is a class"),
    "env first": (lambda _: init_train_state(ENVS, PPO, KEY), "AbstractAlgorithm, .* Vectorize"),
    "policy in train": (
        lambda made: train(PPO_OF_4, ENVS, made["policy"], num_updates=1),
        "A block needs a state .* got ActorCritic",
    ),
    "train with other number": (
        lambda made: PPO_OF_4.update(batch(KITCHEN, 4), made["state"], num_updates=1),
        "runner has 3 environments, but the environment has 4",
    ),
    "train in another world": (
        lambda made: PPO_OF_4.update(batch(GOALS), made["state"], num_updates=1),
        "policy has 6 outputs .* need 5",
    ),
    "train with other observations": (
        lambda made: PPO_OF_4.update(IMAGES, made["state"], num_updates=1),
        r"runner has .* float32\[3, 2, 97\], but .* uint8\[3, 2, 4, 5, 26\]",
    ),
    "state as runner": (
        lambda made: collect_rollout(made["policy"], ENVS, state_of(ENVS), KEY, 2),
        "RunnerState, .* LogEpisodesState",
    ),
    "carry of another policy": (
        lambda made: collect_rollout(made["gru"], ENVS, made["runner"], KEY, 2),
        r"needs the carry \[0\] float32\[3, 2, 64\] .* has nothing",
    ),
    "trained policy in a rollout": (
        lambda made: collect_rollout(made["trained"], ENVS, made["runner"], KEY, 2),
        "must be an ActorCritic, .* TrainedPolicy",
    ),
    "no carry": (
        lambda made: made["gru"](ENVS.reset(KEY)[0][0], None),
        r"GRU needs a carry of shape \(64,\), .* got None",
    ),
    "state in evaluate": (
        lambda made: evaluate(made["state"], ENVS, KEY),
        "ActorCritic, .* TrainState",
    ),
    "partners in evaluate": (lambda _: evaluate((STAY, STAY), ENVS, KEY), "PartnerTeam.* tuple"),
    "evaluate in another world": (
        lambda made: evaluate(made["policy"], batch(GOALS), KEY),
        r"MLP reads 97 numbers, .* \(22,\)",
    ),
    "evaluate with other images": (
        lambda made: evaluate(made["cnn"], batch(make("overcooked", layout="ring")), KEY),
        r"CNN reads images of 20 cells and 26 channels, .* \(5, 5, 26\)",
    ),
    "evaluate with other agents": (
        lambda made: evaluate(made["three"], batch(GOALS), KEY),
        "acts for 3 agents, but the environment has 2",
    ),
    "evaluate with other actions": (
        lambda _: evaluate(actor_critic(batch(Corridor(Discrete(3))), KEY), batch(CORRIDOR), KEY),
        r"policy has 3 outputs .* Discrete\(n=2\), need 2",
    ),
    "evaluate with other choices": (
        lambda _: evaluate(
            actor_critic(batch(Corridor(MultiDiscrete((2, 2)))), KEY), batch(CORRIDOR), KEY
        ),
        r"MultiCategoricalHead .* MultiDiscrete, .* Discrete\(n=2\)",
    ),
    "trained in another world": (
        lambda made: trained_policy(made["policy"], batch(GOALS)),
        r"MLP reads 97 numbers, .* \(22,\)",
    ),
}


def step(env, state=None, action=None):
    """One step, with the state and the actions that fit unless others are given."""
    state = state_of(env) if state is None else state
    shape = (3, 2) if hasattr(env, "num_envs") else (env.num_agents,)
    return env.step(KEY, state, jnp.zeros(shape, int) if action is None else action)


@pytest.mark.parametrize("name", USES)
def test_a_wrong_use_names_both_sides(name, made):
    use, words = USES[name]
    with unchecked(), pytest.raises((ValueError, TypeError), match=words):
        eqx.filter_eval_shape(lambda: (use(made), None)[1])
