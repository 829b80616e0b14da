"""Networks that are taught what to do in a kitchen, by a plan for all its states or by a search,
and their files.
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
    write_whole,
)
from eqgrid import AbstractEnv, Discrete
from eqgrid.envs.overcooked.plans import PlanTable
from eqgrid.grid import AbstractGridWorld, World

from ..folders import write_json
from ..settings import Experiment, default_settings, shipped_script, to_table
from ..show import running_return, with_last
from ..worlds import Kitchen

Teacher: TypeAlias = Callable[[World], Int[np.ndarray, "*states agents"]]
"""The actions to learn in states."""

_LEVELS = (0.0, 0.05, 0.15, 0.4)
"""The shares of random actions in the games from which a network learns."""
_LATE, _LATE_RATE = 0.7, 0.1
"""After which share of the rounds the learning rate is lower, and by which factor."""
_RECITED = 8
"""One of so many examples is from the game of the plan itself."""


@final
class Played(NamedTuple):
    """Games that are played from given states by two cooks with one network.

    - `observations`: what both cooks see before each step.
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
    - `greedy`: take the most probable actions instead of sampling them.
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
    own_key, random_key, level_key, env_key = jax.random.split(key, 4)
    seen = env.observe(world)
    logits = jax.vmap(lambda x: network(x, None)[0])(seen)
    own = logits.argmax(axis=-1) if greedy else jax.random.categorical(own_key, logits)
    drawn = jax.random.randint(random_key, own.shape, 0, logits.shape[-1], own.dtype)
    action = jnp.where(jax.random.bernoulli(level_key, level, own.shape), drawn, own)
    timestep, after = env.step(env_key, world, action.astype(jnp.int32))
    return after, (seen, world, timestep.reward.mean())


@final
@dataclasses.dataclass(frozen=True)
class Distillation:
    """Teaches a network the actions of a teacher, in the states to which its own mistakes and
    random actions lead (Ross et al. 2011, "A Reduction of Imitation Learning and Structured
    Prediction to No-Regret Online Learning").

    - `rounds`: how often games are played and learned from, with all games before.
    - `games`: the number of games of a round, a quarter of them without random actions.
    - `examples`: the actions from which a round learns: some are from the teacher's own game,
        in which a single mistake may cost a soup, and the others are drawn from all games so far.
    - `learner`: the settings of supervised learning.
    """

    rounds: int = 40
    games: int = 64
    examples: int = 2**19
    learner: BehaviorCloning = dataclasses.field(
        default_factory=lambda: BehaviorCloning(batch_size=2048)
    )

    def teach(
        self,
        env: AbstractGridWorld,
        teacher: Teacher,
        network: AbstractNetwork,
        key: PRNGKeyArray,
        on_round: Callable[[int, float, float], None] = lambda number, loss, earned: None,
    ) -> AbstractNetwork:
        """Teaches a network.

        **Arguments:**

        - `env`: the kitchen, with the observation of the network.
        - `teacher`: returns the actions to learn.
        - `network`: a network without memory.
        - `key`: the source of randomness.
        - `on_round`: called after each round with its number from 1, the loss in nats, and the mean
            return of the games without random actions.

        **Returns:** of the networks after each of the last rounds, the one whose most probable
        actions have the highest return; the latest of several.
        """
        learn_key, key = jax.random.split(key)
        horizon = int(env.horizon)
        state, rng = self.learner.init(network, learn_key), np.random.default_rng(0)
        observation, start = env.reset(key)
        one, starts = repeat(start, 1), repeat(start, self.games)
        levels = jnp.repeat(jnp.asarray(_LEVELS), self.games // len(_LEVELS))
        own_game = env.num_agents * horizon  # the first examples are of the teacher's own game
        steps = self.games * own_game  # of all agents in a round
        seen = np.empty((own_game + self.rounds * steps, observation.shape[-1]), np.float32)
        done = np.empty(len(seen), np.int32)
        for time, (worlds, said, _) in enumerate(recite(env, teacher, one)):
            own = slice(env.num_agents * time, env.num_agents * (time + 1))
            seen[own], done[own] = np.asarray(_observe(env, worlds))[0], said[0]
        best, most = state.network, -np.inf
        for number in range(1, self.rounds + 1):
            key, own = jax.random.split(key)
            played = play_from(env, state.network, starts, levels, own, horizon)
            new = slice(own_game + (number - 1) * steps, own_game + number * steps)
            seen[new] = np.asarray(played.observations).reshape(steps, -1)
            done[new] = teacher(played.worlds).reshape(-1)
            drawn = rng.integers(new.stop, size=self.examples)
            drawn[: self.examples // _RECITED] %= own_game
            shown = Demonstrations(  # of single steps
                jnp.asarray(seen[drawn][:, None]),
                jnp.asarray(done[drawn][:, None]),
                jnp.ones((len(drawn), 1), bool),
            )
            late = number > _LATE * self.rounds
            rate = self.learner.learning_rate * (_LATE_RATE if late else 1.0)
            learner = dataclasses.replace(self.learner, learning_rate=rate)
            state, loss = _epoch(learner, state, shown)
            earned = played.rewards[: self.games // len(_LEVELS)].sum(axis=-1).mean()
            on_round(number, float(loss), float(earned))
            if late:
                game = play_from(env, state.network, one, levels[:1], own, horizon, True)
                if (value := float(game.rewards.sum())) >= most:
                    best, most = state.network, value
        return best


_epoch = eqx.filter_jit(BehaviorCloning.epoch)


def label(
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


def follows(table: PlanTable) -> Teacher:
    """A teacher that returns the actions of the plan."""
    return lambda worlds: label(table, worlds)[0]


def repeat(world: World, number: int) -> World:
    """A state, for many games that begin with it."""
    return jax.tree.map(lambda x: jnp.repeat(x[None], number, axis=0), world)


def sharpened(network: AbstractNetwork, factor: float) -> AbstractNetwork:
    """A network whose outputs are multiplied by a factor, so that its sampled actions are nearly
    always the most probable ones.

    **Arguments:**

    - `network`: a network whose last layer is the last one of `layers`, such as an `MLP`.
    - `factor`: the factor.
    """
    return eqx.tree_at(
        lambda x: x.layers[-1],
        network,
        replace_fn=lambda layer: jax.tree.map(lambda x: factor * x, layer),
    )


@final
@dataclasses.dataclass(frozen=True)
class Judged:
    """How close a network comes to the best possible return.

    - `greedy`: the return of the most probable actions from the initial state.
    - `sampled`: the returns of sampled actions.
    - `noisy`: the returns of sampled actions, of which some are replaced by random ones.
    - `plan_noisy`: the returns of the table itself with the same share of random actions.
    - `earned`, `possible`: the returns of the network, and the best possible returns, from states
        of games with many random actions.
    """

    greedy: float
    sampled: Float[np.ndarray, " games"]
    noisy: Float[np.ndarray, " games"]
    plan_noisy: Float[np.ndarray, " games"]
    earned: Float[np.ndarray, " states"]
    possible: Float[np.ndarray, " states"]

    @property
    def share(self) -> float:
        """The return of the network off the plan, as a share of the best possible return."""
        return float(self.earned.sum() / max(self.possible.sum(), 1e-6))


def judge(
    env: AbstractGridWorld,
    table: PlanTable,
    network: AbstractNetwork,
    key: PRNGKeyArray,
    games: int = 256,
    states: int = 1000,
    noise: float = 0.1,
) -> tuple[Judged, Played]:
    """Judges a network by the table that taught it.

    **Arguments:**

    - `env`, `table`, `network`: as in `Distillation.teach`.
    - `key`: the source of randomness.
    - `games`: the number of games with sampled actions.
    - `states`: the number of states off the plan, from games in which 40% of the actions are
        random, at random times in the first nine tenths of an episode.
    - `noise`: the share of random actions.

    **Returns:** the numbers, and the game of the most probable actions.
    """
    keys, steps = jax.random.split(key, 5), table.horizon
    starts, none = repeat(env.reset(key)[1], games), jnp.zeros(games)
    best = play_from(env, network, repeat(env.reset(key)[1], 1), none[:1], keys[0], steps, True)
    sampled = play_from(env, network, starts, none, keys[1], steps).rewards.sum(axis=-1)
    noisy = play_from(env, network, starts, none + noise, keys[2], steps).rewards.sum(axis=-1)
    away = play_from(env, network, starts, none + _LEVELS[-1], keys[3], steps)
    rng = np.random.default_rng(1)
    game, time = rng.integers(games, size=states), rng.integers(steps * 9 // 10, size=states)
    worlds = jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[game, time]), away.worlds)
    possible = label(table, worlds)[1]
    later = play_from(env, network, worlds, jnp.zeros(states), keys[4], steps, True).rewards
    counted = np.arange(steps) < (steps - time)[:, None]
    earned = np.where(counted, np.asarray(later), 0).sum(axis=1)
    own = recite(env, follows(table), starts, noise)
    plan_noisy = np.sum([reward for *_, reward in own], axis=0)
    found = (float(best.rewards.sum()), np.asarray(sampled), np.asarray(noisy))
    return Judged(*found, plan_noisy, earned, possible), best


def recite(
    env: AbstractGridWorld, teacher: Teacher, worlds: World, noise: float = 0.0
) -> Iterator[tuple[World, Int[np.ndarray, "games agents"], Float[np.ndarray, " games"]]]:
    """Plays games of a teacher itself, with a share of random actions.

    **Returns:** the states before each step, the teacher's actions in them, and the rewards.
    """
    assert isinstance(env.action_space, Discrete)
    rng, choices = np.random.default_rng(2), env.action_space.n
    for _ in range(int(env.horizon)):
        now = teacher(worlds)
        drawn = rng.integers(0, choices, size=now.shape)
        action = np.where(rng.random(now.shape) < noise, drawn, now)
        after, reward = _advance(env, worlds, jnp.asarray(action, jnp.int32))
        yield worlds, now, np.asarray(reward)
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
    """Writes the results of a script that teaches a network: a policy file, which all commands read
    like the policy of a run of `ippo.py`, the numbers, and a video.

    **Arguments:**

    - `folder`: the folder of the results.
    - `command`: the script, and the arguments of its command line.
    - `kitchen`: the settings of the world, with the observation of the network.
    - `network`, `width`: the network of every cook, an `MLP`, and the size of its hidden layers.
    - `numbers`: what is written next to the policy, in a file that is called as the script.
    - `about`: further metadata of the policy.
    - `video`: the world, and games of which the first one is drawn, if any.

    **Returns:** the files.
    """
    paths = [folder / "policy.safetensors", folder / Path(command[0]).with_suffix(".json").name]
    settings = default_settings(shipped_script("ippo"), kitchen)
    assert isinstance(settings, Experiment)
    settings = dataclasses.replace(settings, width=width)
    envs = settings.eval_env(kitchen.build(train=False), 1)
    policy = actor_critic(envs, jax.random.key(0))
    actor = SharedParameters(network=network, num_agents=envs.num_agents)
    # The critic was not trained, so it returns 0.
    silent = jax.tree.map(lambda x: 0 * x if eqx.is_array(x) else x, policy.critic)
    policy = eqx.tree_at(lambda policy: (policy.actor, policy.critic), policy, (actor, silent))
    save_policy(paths[0], trained_policy(policy, envs), {"run": to_table(settings), **about})
    write_json(paths[1], {"command": shlex.join(["python", *command]), **numbers})
    if video is not None:
        world, played = video
        states, last = jax.tree.map(lambda x: x[0], (played.worlds, played.last))
        scores = running_return(np.asarray(played.rewards)[0])
        paths.append(folder / "episode.gif")
        write_whole(paths[-1], kitchen.draw(world, with_last(states, last), scores))
    return paths
