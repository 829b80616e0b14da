"""Teaches networks the actions of a teacher in a kitchen, and writes and evaluates these networks.

The teacher is a plan for all states of the kitchen, or a search.
"""

import dataclasses
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from agents import (
    AbstractNetwork,
    BehaviorCloning,
    Demonstrations,
    SharedParameters,
    actor_critic,
    save_policy,
    trained_policy,
    write_atomic,
)
from eqgrid import AbstractEnv, Discrete
from eqgrid.envs.overcooked.plans import PlanTable
from eqgrid.grid import AbstractGridWorld, World

from ..folders import write_json
from ..settings import Experiment, default_settings, shipped_script, to_table
from ..show import running_return, with_last
from ..worlds import Kitchen

Teacher: TypeAlias = Callable[[World], Int[np.ndarray, "*states agents"]]
"""A function from states to the actions to learn in them."""

_LEVELS = (0.0, 0.05, 0.15, 0.4)
"""The shares of random actions in the games from which a network learns."""
_LATE, _LATE_RATE = 0.7, 0.1
"""The learning rate is multiplied by `_LATE_RATE` after the share `_LATE` of the rounds."""
_TEACHER_EVERY = 8
"""One of this many examples is from the teacher's own game."""


@final
class Played(NamedTuple):
    """Games that a team with one network has played from given states.

    - `observations`: the observations of all agents before each step.
    - `worlds`: the state before each step.
    - `rewards`: the reward of the team in each step.
    - `last`: the state after the last step.
    """

    observations: Float[Array, "games steps agents features"]
    worlds: World
    rewards: Float[Array, "games steps"]
    last: World


@eqx.filter_jit
def play_from(
    env: AbstractEnv,
    network: AbstractNetwork,
    worlds: World,
    levels: Float[Array, " games"],
    key: PRNGKeyArray,
    steps: int,
    greedy: bool = False,
) -> Played:
    """Plays games from given states.

    **Arguments:**

    - `env`: the kitchen, with the observation of the network.
    - `network`: a network without memory, whose outputs are one logit for each action.
    - `worlds`: the state of `env` at the beginning of each game.
    - `levels`: the probability that an action is replaced by a random one, for each game.
    - `key`: the source of randomness.
    - `steps`: the number of steps of each game.
    - `greedy`: whether to take the most probable actions instead of sampling them.
    """

    def one(
        world: World, level: Float[Array, ""], key: PRNGKeyArray
    ) -> tuple[Float[Array, "steps agents features"], World, Float[Array, " steps"], World]:
        last, rows = jax.lax.scan(
            lambda now, own: _step(env, network, level, greedy, now, own),
            world,
            jax.random.split(key, steps),
        )
        return *rows, last

    return Played(*jax.vmap(one)(worlds, levels, jax.random.split(key, len(levels))))


def _step(
    env: AbstractEnv,
    network: AbstractNetwork,
    level: Float[Array, ""],
    greedy: bool,
    world: World,
    key: PRNGKeyArray,
) -> tuple[World, tuple[Float[Array, "agents features"], World, Float[Array, ""]]]:
    """One step of a game: the next state, and a row of `Played`."""
    own_key, random_key, level_key, env_key = jax.random.split(key, 4)
    observation = env.observe(world)
    logits = jax.vmap(lambda x: network(x, None)[0])(observation)
    own = logits.argmax(axis=-1) if greedy else jax.random.categorical(own_key, logits)
    random = jax.random.randint(random_key, own.shape, 0, logits.shape[-1], own.dtype)
    action = jnp.where(jax.random.bernoulli(level_key, level, own.shape), random, own)
    timestep, after = env.step(env_key, world, action.astype(jnp.int32))
    return after, (observation, world, timestep.reward.mean())


@final
@dataclasses.dataclass(frozen=True)
class Distillation:
    """Teaches a network the actions of a teacher by DAgger: the network plays, also with random
    actions, and learns the teacher's actions in the states of these games (Ross et al. 2011, "A
    Reduction of Imitation Learning and Structured Prediction to No-Regret Online Learning").

    - `rounds`: the number of rounds. Each plays new games, and learns from all games so far.
    - `games`: the number of games of a round, a multiple of 4. A quarter of them have no random
        actions.
    - `examples`: the number of actions from which a round learns. One in eight is from the
        teacher's own game, in which a single mistake may cost a soup. The others are sampled from
        all games so far.
    - `learner`: the settings of supervised learning.
    """

    rounds: int = 40
    games: int = 64
    examples: int = 2**19
    learner: BehaviorCloning = dataclasses.field(
        default_factory=lambda: BehaviorCloning(batch_size=2048)
    )

    def __post_init__(self) -> None:
        if self.games % len(_LEVELS):
            raise ValueError(f"games must be a multiple of {len(_LEVELS)}, but it is {self.games}.")

    def teach(
        self,
        env: AbstractGridWorld,
        teacher: Teacher,
        network: AbstractNetwork,
        key: PRNGKeyArray,
        on_round: Callable[[int, float, float], None] = lambda number, loss, mean_return: None,
    ) -> AbstractNetwork:
        """Teaches a network.

        **Arguments:**

        - `env`: the kitchen, with the observation of the network.
        - `teacher`: returns the actions to learn.
        - `network`: a network without memory.
        - `key`: the source of randomness.
        - `on_round`: called after each round with its number from 1, the loss in nats, and the mean
            return of the games without random actions.

        **Returns:** the best network of the rounds with the lower learning rate, by the return of
        its most probable actions; the last of several equal ones.
        """
        learn_key, key = jax.random.split(key)
        horizon = int(env.horizon)
        state, rng = self.learner.init(network, learn_key), np.random.default_rng(0)
        observation, start = env.reset(key)
        one, starts = repeat(start, 1), repeat(start, self.games)
        levels = jnp.repeat(jnp.asarray(_LEVELS), self.games // len(_LEVELS))
        # All observations and actions: first of the teacher's own game, then of each round.
        per_game = env.num_agents * horizon
        per_round = self.games * per_game
        size = per_game + self.rounds * per_round
        observations = np.empty((size, observation.shape[-1]), np.float32)
        actions = np.empty(size, np.int32)
        for time, (worlds, taught, _) in enumerate(play_teacher(env, teacher, one)):
            step = slice(env.num_agents * time, env.num_agents * (time + 1))
            observations[step], actions[step] = np.asarray(_observe(env, worlds))[0], taught[0]
        best, best_return = state.network, -np.inf
        for number in range(1, self.rounds + 1):
            key, play_key = jax.random.split(key)
            played = play_from(env, state.network, starts, levels, play_key, horizon)
            new = slice(per_game + (number - 1) * per_round, per_game + number * per_round)
            observations[new] = np.asarray(played.observations).reshape(per_round, -1)
            actions[new] = teacher(played.worlds).reshape(-1)
            sample = rng.integers(new.stop, size=self.examples)
            sample[: self.examples // _TEACHER_EVERY] %= per_game  # from the teacher's own game
            shown = Demonstrations(  # each of a single step
                jnp.asarray(observations[sample][:, None]),
                jnp.asarray(actions[sample][:, None]),
                jnp.ones((len(sample), 1), bool),
            )
            late = number > _LATE * self.rounds
            rate = self.learner.learning_rate * (_LATE_RATE if late else 1.0)
            learner = dataclasses.replace(self.learner, learning_rate=rate)
            state, loss = _epoch(learner, state, shown)
            without_noise = played.rewards[: self.games // len(_LEVELS)].sum(axis=-1).mean()
            on_round(number, float(loss), float(without_noise))
            if late:
                game = play_from(env, state.network, one, levels[:1], play_key, horizon, True)
                if (value := float(game.rewards.sum())) >= best_return:
                    best, best_return = state.network, value
        return best


_epoch = eqx.filter_jit(BehaviorCloning.epoch)


def plan_actions(
    table: PlanTable, worlds: World
) -> tuple[Int[np.ndarray, "*states 2"], Float[np.ndarray, "*states"]]:
    """The actions of the plan in states, and the best possible returns from them.

    **Arguments:**

    - `table`: the plan.
    - `worlds`: states before the end of an episode, such as states of `Played`.
    """
    shape = np.shape(worlds.time)
    flat = jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[len(shape) :]), worlds)
    states = table.model.locate_all(flat)
    actions, values = table.choose(table.horizon - flat.time.astype(np.int64), states)
    return actions.reshape(*shape, 2), values.reshape(shape)


def plan_teacher(table: PlanTable) -> Teacher:
    """A teacher that returns the actions of the plan."""
    return lambda worlds: plan_actions(table, worlds)[0]


def repeat(world: World, number: int) -> World:
    """A state, repeated along a new leading axis, for several games that start in it."""
    return jax.tree.map(lambda x: jnp.repeat(x[None], number, axis=0), world)


def sharpened(network: AbstractNetwork, factor: float) -> AbstractNetwork:
    """A network whose logits are multiplied by a factor. With a large factor, sampled actions are
    nearly always the most probable ones.

    **Arguments:**

    - `network`: a network with linear `layers`, such as an `MLP`, of which the last is scaled.
    - `factor`: the factor.
    """
    return eqx.tree_at(
        lambda x: x.layers[-1],
        network,
        replace_fn=lambda layer: jax.tree.map(lambda x: factor * x, layer),
    )


@final
@dataclasses.dataclass(frozen=True)
class Comparison:
    """Returns of a network, to compare with the best possible returns.

    - `greedy`: the return of the most probable actions from the initial state.
    - `sampled`: the returns of sampled actions.
    - `noisy`: the returns of sampled actions, of which a share is replaced by random actions.
    - `plan_noisy`: the returns of the plan with the same share of random actions.
    - `returns`: the returns of the most probable actions from states of games with many random
        actions.
    - `possible`: the best possible returns from the same states.
    """

    greedy: float
    sampled: Float[np.ndarray, " games"]
    noisy: Float[np.ndarray, " games"]
    plan_noisy: Float[np.ndarray, " games"]
    returns: Float[np.ndarray, " states"]
    possible: Float[np.ndarray, " states"]

    @property
    def share(self) -> float:
        """The return of the network from noisy states, as a share of the best possible return."""
        return float(self.returns.sum() / max(self.possible.sum(), 1e-6))


def compare_with_plan(
    env: AbstractGridWorld,
    table: PlanTable,
    network: AbstractNetwork,
    key: PRNGKeyArray,
    games: int = 256,
    states: int = 1000,
    noise: float = 0.1,
) -> tuple[Comparison, Played]:
    """Compares a network with the plan that taught it.

    **Arguments:**

    - `env`, `network`: as in `Distillation.teach`.
    - `table`: the plan.
    - `key`: the source of randomness.
    - `games`: the number of games with sampled actions.
    - `states`: the number of states of `Comparison.returns`. They are at random times in the first
        nine tenths of games in which 40% of the actions are random.
    - `noise`: the share of random actions in `Comparison.noisy` and `Comparison.plan_noisy`.

    **Returns:** the returns, and the game of the most probable actions.
    """
    keys, steps = jax.random.split(key, 5), table.horizon
    starts, none = repeat(env.reset(key)[1], games), jnp.zeros(games)
    best = play_from(env, network, repeat(env.reset(key)[1], 1), none[:1], keys[0], steps, True)
    sampled = play_from(env, network, starts, none, keys[1], steps).rewards.sum(axis=-1)
    noisy = play_from(env, network, starts, none + noise, keys[2], steps).rewards.sum(axis=-1)
    off_plan = play_from(env, network, starts, none + _LEVELS[-1], keys[3], steps)
    rng = np.random.default_rng(1)
    game, time = rng.integers(games, size=states), rng.integers(steps * 9 // 10, size=states)
    worlds = jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[game, time]), off_plan.worlds)
    possible = plan_actions(table, worlds)[1]
    rewards = play_from(env, network, worlds, jnp.zeros(states), keys[4], steps, True).rewards
    before_end = np.arange(steps) < (steps - time)[:, None]
    returns = np.where(before_end, np.asarray(rewards), 0).sum(axis=1)
    plan_games = play_teacher(env, plan_teacher(table), starts, noise)
    plan_noisy = np.sum([reward for *_, reward in plan_games], axis=0)
    comparison = Comparison(
        greedy=float(best.rewards.sum()),
        sampled=np.asarray(sampled),
        noisy=np.asarray(noisy),
        plan_noisy=plan_noisy,
        returns=returns,
        possible=possible,
    )
    return comparison, best


def play_teacher(
    env: AbstractGridWorld, teacher: Teacher, worlds: World, noise: float = 0.0
) -> Iterator[tuple[World, Int[np.ndarray, "games agents"], Float[np.ndarray, " games"]]]:
    """Plays games in which the teacher acts, with a share of random actions.

    **Returns:** for each step, the states before it, the teacher's actions, and the mean rewards of
    the agents.
    """
    assert isinstance(env.action_space, Discrete)
    rng, num_actions = np.random.default_rng(2), env.action_space.n
    for _ in range(int(env.horizon)):
        taught = teacher(worlds)
        random = rng.integers(0, num_actions, size=taught.shape)
        action = np.where(rng.random(taught.shape) < noise, random, taught)
        after, reward = _advance(env, worlds, jnp.asarray(action, jnp.int32))
        yield worlds, taught, np.asarray(reward)
        worlds = after


@eqx.filter_jit
def _observe(env: AbstractEnv, worlds: World) -> Float[Array, "games agents features"]:
    return jax.vmap(env.observe)(worlds)


@eqx.filter_jit
def _advance(
    env: AbstractEnv, worlds: World, action: Int[Array, "games agents"]
) -> tuple[World, Float[Array, " games"]]:
    def one(world: World, action: Int[Array, " agents"]) -> tuple[World, Float[Array, ""]]:
        timestep, after = env.step(jax.random.key(0), world, action)
        return after, timestep.reward.mean()

    return jax.vmap(one)(worlds, action)


def write_taught(
    folder: Path,
    command: Sequence[str],
    kitchen: Kitchen,
    network: AbstractNetwork,
    width: int,
    numbers: Mapping[str, object],
    about: Mapping[str, object],
    video: tuple[AbstractGridWorld, Played] | None,
) -> list[Path]:
    """Writes the results of a script that teaches a network: a policy file, a JSON file with
    numbers, and a video. All commands read the policy like a policy of `ippo.py`.

    **Arguments:**

    - `folder`: the folder of the results.
    - `command`: the script, and the arguments of its command line.
    - `kitchen`: the settings of the world, with the observation of the network.
    - `network`: the network of all agents, an `MLP`.
    - `width`: the size of its hidden layers.
    - `numbers`: the content of the JSON file, which has the name of the script.
    - `about`: further metadata of the policy.
    - `video`: the world and the games, of which the first is drawn; `None` for no video.

    **Returns:** the files.
    """
    paths = [folder / "policy.safetensors", folder / Path(command[0]).with_suffix(".json").name]
    settings = default_settings(shipped_script("ippo"), kitchen)
    assert isinstance(settings, Experiment)
    settings = dataclasses.replace(settings, width=width)
    envs = settings.eval_env(kitchen.build(train=False), 1)
    policy = actor_critic(envs, jax.random.key(0))
    actor = SharedParameters(network=network, num_agents=envs.num_agents)
    # The critic is untrained. With parameters of 0, its values are 0.
    critic = jax.tree.map(lambda x: 0 * x if eqx.is_array(x) else x, policy.critic)
    policy = eqx.tree_at(lambda policy: (policy.actor, policy.critic), policy, (actor, critic))
    save_policy(paths[0], trained_policy(policy, envs), {"run": to_table(settings), **about})
    write_json(paths[1], {"command": shlex.join(["python", *command]), **numbers})
    if video is not None:
        world, played = video
        states, last = jax.tree.map(lambda x: x[0], (played.worlds, played.last))
        scores = running_return(np.asarray(played.rewards)[0])
        paths.append(folder / "episode.gif")
        write_atomic(paths[-1], kitchen.draw(world, with_last(states, last), scores))
    return paths
