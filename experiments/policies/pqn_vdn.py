"""PQN-VDN (Gallici et al. 2025): Q-learning of a team, with the sum of its agents' values.

python experiments/policies/pqn_vdn.py --env.layout ring

Each agent takes its most valuable action, or sometimes a random one. There is no replay buffer:
agents learn from a few steps in many environments, and layer normalisation keeps this stable. Edit
any part of the experiment here.
"""

import dataclasses
import functools
import math
import sys
from collections.abc import Sequence
from typing import Annotated, final

from eqgrid_lab import Experiment, Run, check_shaping, parse
from eqgrid_lab.base import UsageError
import distrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped
from msgspec import Meta

from agents import (
    PPO,
    AbstractActionHead,
    AbstractCheckedAlgorithm,
    AbstractNetwork,
    ActorCritic,
    CategoricalHead,
    Metrics,
    Minibatch,
    Rollout,
    SharedParameters,
    TrainState,
    actor_critic,
    mean_over,
)
from eqgrid import (
    AbstractEnv,
    AbstractVectorEnv,
    AutoReset,
    Discrete,
    LinearSchedule,
    LogEpisodes,
    NormalizeObservation,
    NormalizeReward,
    ShapedReward,
    VectorEnvironment,
    Vectorize,
    split_mask,
)


@final
class QNetwork(AbstractNetwork):
    """The value of each action of an agent, or only the largest value. Layer normalisation (Ba et
    al. 2016) precedes the activations of both hidden layers.

    **Arguments:**

    - `in_shape`: the shape of one agent's input.
    - `out_size`: the number of actions to return the values of all actions, as an actor. 1 to
        return only the largest value, as a critic.
    - `choices`: the number of actions.
    - `width`: the size of the hidden layers.
    - `final_scale`: the factor of the last layer's parameters.
    - `key`: the source of randomness.
    """

    layers: tuple[eqx.nn.Linear, ...]
    norms: tuple[eqx.nn.LayerNorm, ...]
    best: bool = eqx.field(static=True)
    choices: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    def __init__(
        self,
        in_shape: tuple[int, ...],
        out_size: int,
        *,
        choices: int = 6,
        width: int = 128,
        final_scale: float = 1.0,
        key: PRNGKeyArray,
    ):
        keys = jax.random.split(key, 3)
        first = eqx.nn.Linear(math.prod(in_shape), width, key=keys[0])
        second = eqx.nn.Linear(width, width, key=keys[1])
        last = eqx.nn.Linear(width, choices, key=keys[2])
        last = jax.tree.map(lambda x: final_scale * x, last)
        self.layers = (first, second, last)
        self.norms = (eqx.nn.LayerNorm(width), eqx.nn.LayerNorm(width))
        self.best, self.choices, self.width = out_size < choices, choices, width

    def initial_carry(self) -> None:
        return None

    def __call__(self, x: Shaped[Array, "..."], carry: None) -> tuple[Float[Array, " out"], None]:
        h = x.reshape(-1).astype(float)
        for layer, norm in zip(self.layers[:-1], self.norms, strict=True):
            h = jax.nn.relu(norm(layer(h)))
        values = self.layers[-1](h)
        return values.max(keepdims=True) if self.best else values, None


@final
class EpsilonGreedy(AbstractActionHead):
    """Takes the action with the largest value, and sometimes a random action.

    **Arguments:**

    - `epsilon`: the probability of a random action.
    """

    epsilon: Float[Array, ""]

    def __init__(self, space: Discrete | None = None, epsilon: float = 1.0):
        self.epsilon = jnp.asarray(epsilon)

    def out_size(self, space: Discrete) -> int:
        return space.n

    def distribution(self, output: Float[Array, "agents out"]) -> distrax.Categorical:
        best = jax.nn.one_hot(output.argmax(axis=-1), output.shape[-1])
        probability = (1 - self.epsilon) * best + self.epsilon / output.shape[-1]
        return distrax.Categorical(logits=jnp.log(probability))

    def noise(
        self, key: PRNGKeyArray, space: Discrete, shape: tuple[int, ...]
    ) -> Float[Array, "..."]:
        return CategoricalHead().noise(key, space, shape)

    def sample(
        self, distribution: distrax.Categorical, noise: Float[Array, "*batch"]
    ) -> Int[Array, "*batch"]:
        return CategoricalHead().sample(distribution, noise)

    def most_probable(self, distribution: distrax.Categorical) -> Int[Array, "*batch"]:
        return CategoricalHead().most_probable(distribution)

    def action(self, raw_action: Int[Array, "*batch"], space: Discrete) -> Int[Array, "*batch"]:
        return raw_action

    def entropy(self, distribution: distrax.Categorical) -> Float[Array, "*batch"]:
        return CategoricalHead().entropy(distribution)


def team_loss(
    policy: ActorCritic, batch: Minibatch, ppo: PPO, entropy_coefficient: float | Float[Array, ""]
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """The squared error of the value of the joint action, which is the sum of the values of the
    agents' actions (value decomposition, Sunehag et al. 2018).
    """
    steps = batch.rollout
    values = jax.vmap(jax.vmap(lambda seen: policy.actor(seen, None)[0]))(steps.observation)
    chosen = jnp.take_along_axis(values, steps.raw_action[..., None], axis=-1)[..., 0]
    # After `as_team`, the target is the same for all agents.
    error = jnp.sum(chosen, axis=-1, where=steps.active) - batch.target[..., 0]
    loss = 0.5 * mean_over(jnp.square(error), steps.active.any(axis=-1))
    return loss, {"value_loss": loss}


@final
class PQN(AbstractCheckedAlgorithm[TrainState]):
    """Parallelised Q-learning of a team, with the rollouts and the optimiser of `ppo`.

    At the start of an update, the critic gets the parameters of the actor, and returns the largest
    value of an action. The targets of PPO's critic are then the targets of Peng's Q(lambda), where
    lambda is `ppo.gae_lambda`.

    **Arguments:**

    - `ppo`: collects rollouts, and computes targets and gradient steps.
    - `last_epsilon`: the final probability of a random action, which decreases linearly from 1.
    - `exploration`: the share of the updates in which this probability decreases.
    """

    ppo: PPO
    last_epsilon: float | Float[Array, ""]
    exploration: float | Float[Array, ""]

    def init(self, policy: ActorCritic, env: VectorEnvironment, key: PRNGKeyArray) -> TrainState:
        return self.ppo.init(_with_epsilon(policy, jnp.ones(())), env, key)

    def update(
        self, env: VectorEnvironment, state: TrainState, *, num_updates: int | Int[Array, ""]
    ) -> tuple[TrainState, Metrics]:
        share = state.updates.astype(float) / jnp.asarray(num_updates).astype(float)
        epsilon = jnp.maximum(
            self.last_epsilon, 1 - (1 - self.last_epsilon) * share / self.exploration
        )
        ppo = dataclasses.replace(self.ppo, loss=team_loss)
        state = dataclasses.replace(state, policy=_with_epsilon(state.policy, epsilon))
        state, rollout, key = ppo.collect(env, state)
        state, metrics = ppo.learn(state, as_team(rollout), key, num_updates=num_updates)
        # Between updates, policies are evaluated and saved without random actions.
        state = dataclasses.replace(state, policy=_with_epsilon(state.policy, jnp.zeros(())))
        return state, metrics.with_scalars(epsilon=epsilon)

    def steps_per_update(self, env: VectorEnvironment) -> int:
        return self.ppo.steps_per_update(env)

    def check(self, env: VectorEnvironment, policy: ActorCritic) -> None:
        self.ppo.check(env, policy)


def as_team(rollout: Rollout) -> Rollout:
    """Gives every agent of a rollout the reward and the values of the team. The reward is the mean
    over agents. The value is the sum over agents that have not terminated.
    """

    def for_all(x: Shaped[Array, "time envs"]) -> Shaped[Array, "time envs agents"]:
        return jnp.broadcast_to(x[..., None], rollout.active.shape)

    active = rollout.active
    return dataclasses.replace(
        rollout,
        reward=for_all(jnp.where(active, rollout.reward, 0.0).mean(axis=-1)),
        value=for_all(jnp.sum(rollout.value, axis=-1, where=active)),
        next_value=for_all(jnp.sum(rollout.next_value, axis=-1, where=~rollout.terminated)),
        terminated=for_all(rollout.terminated.all(axis=-1)),
    )


def _with_epsilon(policy: ActorCritic, epsilon: Float[Array, ""]) -> ActorCritic:
    """Copies the actor's parameters to the critic, and sets the probability of random actions."""
    assert isinstance(policy.actor, SharedParameters)
    network = policy.actor.network
    assert isinstance(network, QNetwork)
    policy = eqx.tree_at(
        lambda x: (x.critic.network.layers, x.critic.network.norms),
        policy,
        (network.layers, network.norms),
    )
    return eqx.tree_at(lambda x: x.head.epsilon, policy, epsilon)


@dataclasses.dataclass(frozen=True)
class PQNVDN(Experiment):
    """Trains agents with PQN-VDN, and writes results, plots and checkpoints into a folder. The
    flags of PPO for clipping and for the entropy bonus have no effect.
    """

    algorithm = "pqn-vdn"

    # Every field is a flag. `Experiment` has the flags of the world, PPO and the run.
    ppo: PPO = dataclasses.field(
        default_factory=lambda: PPO(
            rollout_length=16,
            num_epochs=4,
            num_minibatches=8,
            learning_rate=5e-4,
            gae_lambda=0.5,
            max_grad_norm=10.0,
        )
    )
    num_envs: Annotated[int, Meta(ge=1, le=2**24)] = 128
    """Number of parallel environments."""
    total_steps: Annotated[int, Meta(ge=1, le=10**15)] = 3_000_000
    """Total environment steps of training."""
    width: Annotated[int, Meta(ge=1, le=2**16)] = 128
    """Units per hidden layer."""
    last_epsilon: Annotated[float, Meta(ge=0, le=1)] = 0.05
    """Final probability of a random action, which decreases from 1."""
    exploration: Annotated[float, Meta(gt=0, le=1)] = 0.2
    """Share of the training in which the probability of a random action decreases."""
    shaping: Annotated[float, Meta(ge=0)] = 2.0
    """Initial weight of the shaped reward."""
    shaping_steps: Annotated[int, Meta(ge=0, le=10**15)] = 3_000_000
    """Environment steps over which the weight of the shaped reward decreases to 0."""

    def observe(self, world: AbstractEnv) -> AbstractEnv:
        seen, _ = eqx.filter_eval_shape(world.reset, jax.random.key(0))
        if not isinstance(world.action_space, Discrete) or split_mask(seen)[1] is not None:
            raise UsageError(
                "PQN-VDN needs Discrete actions without action masks: use another world, or "
                "ippo.py."
            )
        return world

    def train_env(self) -> AbstractVectorEnv:
        world = self.observe(self.env.build(train=True))
        env = AutoReset(LogEpisodes(world, self.log_info), lazy=self.env.has_slow_resets)
        if self.env.has_shaped_reward:  # outside of LogEpisodes, so that returns are unshaped
            steps = max(1, self.shaping_steps // self.num_envs)
            env = ShapedReward(env, LinearSchedule(self.shaping, 0.0, steps))
        envs = Vectorize(env, self.num_envs)
        if self.env.normalize_observation:
            envs = NormalizeObservation(envs)
        return NormalizeReward(envs, self.ppo.gamma) if self.env.normalize_reward else envs

    def eval_env(
        self, world: AbstractEnv, num_envs: int, totals: Sequence[str] = ()
    ) -> AbstractVectorEnv:
        return Vectorize(AutoReset(LogEpisodes(self.observe(world), totals)), num_envs)

    def policy(self, env: AbstractVectorEnv, key: PRNGKeyArray) -> ActorCritic:
        assert isinstance(env.action_space, Discrete)
        network = functools.partial(QNetwork, choices=env.action_space.n, width=self.width)
        return actor_critic(env, key, network=network, head=EpsilonGreedy)

    def learner(self) -> PQN:
        return PQN(self.ppo, self.last_epsilon, self.exploration)

    def check(self) -> None:
        check_shaping(self)


def main(config: PQNVDN) -> int:
    with Run(config) as run:  # the folder with its log and checkpoints, progress and signals
        pqn, envs = config.learner(), config.train_env()
        block = run.block(pqn, envs)  # makes updates of all seeds in one compiled program
        evaluation = run.evaluation(envs)  # plays episodes in `eval_env`

        def init(envs: AbstractVectorEnv, key: PRNGKeyArray) -> TrainState:  # of one seed
            policy_key, run_key = jax.random.split(key)
            return pqn.init(config.policy(envs, policy_key), envs, run_key)

        state = run.start(init, block, evaluation)  # a new state, or that of the last checkpoint
        for count in run.blocks():  # the updates until the next evaluation
            state, metrics = block(state, count)  # metrics: NumPy, of each update and seed
            result = evaluation(state)
            run.log(metrics, result)  # an entry that you add to `result` becomes a column
            run.save(state, result)  # writes every few seconds; `break` after it ends the run
        run.finish(state)  # the final evaluation, policies, plots and a GIF
    return run.exit_code


if __name__ == "__main__":
    sys.exit(main(parse(PQNVDN)))
