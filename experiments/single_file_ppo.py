"""PPO for Overcooked in one file: settings, network, rollout, advantages, loss and training loop.

    python experiments/single_file_ppo.py --layout cramped

It uses the worlds and wrappers of eqgrid, but not `agents`. Unlike `ippo.py`, it has no normalised
values, random starts, checkpoints, recurrent networks, many seeds or plots. All cooks share
parameters, and act on their own observations. Source: Schulman et al. 2017, arXiv:1707.06347.
"""

import dataclasses
import time
from typing import Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import tyro
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from eqgrid import AutoReset, LinearSchedule, LogEpisodes, ShapedReward, Vectorize, make


@dataclasses.dataclass(frozen=True)
class Args:
    """Trains cooks with PPO, and prints their returns."""

    layout: Literal["cramped", "asymmetric", "ring", "forced", "circuit"] = "cramped"
    """Layout of the kitchen."""
    seed: int = 0
    """Random seed."""
    total_steps: int = 2_000_000
    """Total environment steps of training."""
    num_envs: int = 64
    """Number of parallel environments."""
    rollout_length: int = 128
    """Steps of each environment per update."""
    num_epochs: int = 4
    """Passes over each rollout."""
    num_minibatches: int = 8
    """Gradient steps per pass."""
    learning_rate: float = 1e-3
    """Initial step size of Adam, which decreases linearly to 0."""
    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """Lambda of generalised advantage estimation."""
    clip_epsilon: float = 0.2
    """Clipping range of the probability ratio around 1."""
    entropy_coefficient: float = 0.01
    """Weight of the entropy bonus."""
    value_coefficient: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Maximum global norm of the gradient."""
    advantage_std_offset: float = 1.0
    """Added to the standard deviation by which advantages are divided, in units of reward."""
    width: int = 64
    """Units per hidden layer."""
    shaping_steps: int = 1_000_000
    """Environment steps over which the weight of the shaped reward decreases to 0."""

    @property
    def num_updates(self) -> int:
        return -(-self.total_steps // (self.num_envs * self.rollout_length))


@final
class ActorCritic(eqx.Module):
    """Actor and critic of one cook: the logits of its actions, and the value of its observation."""

    actor: eqx.nn.MLP
    critic: eqx.nn.MLP

    def __init__(self, num_features: int, num_actions: int, width: int, key: PRNGKeyArray):
        actor_key, critic_key = jax.random.split(key)
        actor = eqx.nn.MLP(num_features, num_actions, width, 2, jnp.tanh, key=actor_key)
        last_weight = 0.01 * actor.layers[-1].weight  # the initial policy is close to uniform
        self.actor = eqx.tree_at(lambda actor: actor.layers[-1].weight, actor, last_weight)
        self.critic = eqx.nn.MLP(num_features, "scalar", width, 2, jnp.tanh, key=critic_key)

    def __call__(self, observation: Float[Array, " features"]) -> tuple[Array, Array]:
        return self.actor(observation), self.critic(observation)


@final
class Transition(eqx.Module):
    """One step of all cooks. `next_value` is the value of the next observation before any reset."""

    observation: Float[Array, "*batch features"]
    action: Int[Array, "*batch"]
    log_prob: Float[Array, "*batch"]
    value: Float[Array, "*batch"]
    next_value: Float[Array, "*batch"]
    reward: Float[Array, "*batch"]
    terminated: Bool[Array, "*batch"]
    done: Bool[Array, "*batch"]


@final
class TrainState(eqx.Module):
    """Everything that changes from one update to the next."""

    policy: ActorCritic
    opt_state: PyTree
    env_state: PyTree
    observation: Float[Array, "envs agents features"]
    key: PRNGKeyArray


def make_env(args: Args) -> Vectorize:
    """Vectorised kitchens with a shaped reward, whose weight decreases linearly to 0."""
    kitchen = AutoReset(LogEpisodes(make("overcooked", layout=args.layout, observation="features")))
    # Each kitchen counts only its own steps.
    weight = LinearSchedule(1.0, 0.0, max(1, args.shaping_steps // args.num_envs))
    return Vectorize(ShapedReward(kitchen, weight), args.num_envs)


def make_optimiser(args: Args) -> optax.GradientTransformation:
    """Adam with clipping by the global norm, and a learning rate that decreases linearly to 0."""
    num_steps = args.num_updates * args.num_epochs * args.num_minibatches
    schedule = optax.linear_schedule(args.learning_rate, 0.0, num_steps)
    clip = optax.clip_by_global_norm(args.max_grad_norm)
    return optax.chain(clip, optax.adam(schedule, eps=1e-5))


def rollout(
    args: Args, env: Vectorize, state: TrainState
) -> tuple[TrainState, Transition, dict[str, Array]]:
    """Collects a rollout. Returns the next state, all steps, and returns of finished episodes."""
    policy = jax.vmap(jax.vmap(state.policy))

    def step(carry: tuple, key: PRNGKeyArray) -> tuple[tuple, tuple]:
        observation, env_state = carry
        action_key, env_key = jax.random.split(key)
        logits, value = policy(observation)
        action = jax.random.categorical(action_key, logits)
        timestep, env_state = env.step(env_key, env_state, action)
        transition = Transition(
            observation=observation,
            action=action,
            log_prob=_log_prob(logits, action),
            value=value,
            next_value=policy(timestep.final_observation)[1],
            reward=timestep.reward,
            terminated=timestep.terminated,
            done=jnp.broadcast_to(timestep.done[:, None], action.shape),
        )
        ends = {name: timestep.info[name] for name in ("episode_done", "episode_return")}
        return (timestep.observation, env_state), (transition, ends)

    key, rollout_key = jax.random.split(state.key)
    keys = jax.random.split(rollout_key, args.rollout_length)
    start = (state.observation, state.env_state)
    (observation, env_state), (transitions, ends) = jax.lax.scan(step, start, keys)
    state = TrainState(state.policy, state.opt_state, env_state, observation, key)
    return state, transitions, ends


def advantages(args: Args, steps: Transition) -> Float[Array, "time envs agents"]:
    """Generalised advantage estimation (Schulman et al. 2016). The value after a termination is 0.
    The value after a truncation is the value of the final observation.
    """

    def step(advantage: Array, now: Transition) -> tuple[Array, Array]:
        next_value = jnp.where(now.terminated, 0.0, now.next_value)
        error = now.reward + args.gamma * next_value - now.value
        advantage = jnp.where(now.done | now.terminated, 0.0, advantage)  # of the next step
        advantage = error + args.gamma * args.gae_lambda * advantage
        return advantage, advantage

    return jax.lax.scan(step, jnp.zeros_like(steps.value[0]), steps, reverse=True)[1]


def loss(
    policy: ActorCritic, args: Args, batch: tuple[Transition, Float[Array, " batch"]]
) -> Float[Array, ""]:
    """The clipped loss of PPO, plus the squared error of the critic, minus the entropy bonus."""
    steps, advantage = batch
    logits, value = jax.vmap(policy)(steps.observation)
    value_loss = 0.5 * jnp.mean(jnp.square(value - (advantage + steps.value)))
    advantage = (advantage - advantage.mean()) / (advantage.std() + args.advantage_std_offset)
    ratio = jnp.exp(_log_prob(logits, steps.action) - steps.log_prob)
    clipped = jnp.clip(ratio, 1 - args.clip_epsilon, 1 + args.clip_epsilon)
    policy_loss = -jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))
    log_probs = jax.nn.log_softmax(logits)
    entropy = -jnp.mean(jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1))
    return policy_loss + args.value_coefficient * value_loss - args.entropy_coefficient * entropy


def _log_prob(
    logits: Float[Array, "*batch actions"], action: Int[Array, "*batch"]
) -> Float[Array, "*batch"]:
    return jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], axis=-1)[..., 0]


@eqx.filter_jit(donate="all-except-first")
def update(settings: tuple[Args, Vectorize], state: TrainState) -> tuple[TrainState, dict]:
    """One update: collects a rollout, and takes all gradient steps on it."""
    args, env = settings
    state, steps, ends = rollout(args, env, state)
    data = (steps, advantages(args, steps))  # leading axes: time, envs, agents
    data = jax.tree.map(lambda x: x.reshape(-1, *x.shape[3:]), data)
    optimiser = make_optimiser(args)
    parameters, static = eqx.partition(state.policy, eqx.is_array)

    def learn(carry: tuple, rows: Int[Array, " minibatch"]) -> tuple[tuple, None]:
        parameters, opt_state = carry
        batch = jax.tree.map(lambda x: x[rows], data)
        gradient = jax.grad(lambda x: loss(eqx.combine(x, static), args, batch))(parameters)
        change, opt_state = optimiser.update(gradient, opt_state)
        return (eqx.apply_updates(parameters, change), opt_state), None

    key, *keys = jax.random.split(state.key, args.num_epochs + 1)
    shuffled = jnp.stack([jax.random.permutation(key, len(data[1])) for key in keys])
    rows = shuffled.reshape(args.num_epochs * args.num_minibatches, -1)
    (parameters, opt_state), _ = jax.lax.scan(learn, (parameters, state.opt_state), rows)
    policy = eqx.combine(parameters, static)
    return TrainState(policy, opt_state, state.env_state, state.observation, key), ends


@eqx.filter_jit
def init(args: Args, env: Vectorize, key: PRNGKeyArray) -> TrainState:
    """Initialises the policy and the optimiser, and resets all kitchens."""
    policy_key, env_key, key = jax.random.split(key, 3)
    observation, env_state = env.reset(env_key)
    num_actions = env.action_space.n  # pyright: ignore[reportAttributeAccessIssue]
    policy = ActorCritic(observation.shape[-1], num_actions, args.width, policy_key)
    opt_state = make_optimiser(args).init(eqx.filter(policy, eqx.is_array))
    return TrainState(policy, opt_state, env_state, observation, key)


def train(args: Args) -> tuple[ActorCritic, float]:
    """Trains a policy, and returns it with the mean unshaped return of the latest episodes."""
    env = make_env(args)
    state = init(args, env, jax.random.key(args.seed))
    steps_per_update, mean_return = args.num_envs * args.rollout_length, float("nan")
    for i in range(args.num_updates):
        begin = time.perf_counter()
        state, ends = update((args, env), state)
        if ends["episode_done"].any():
            mean_return = float(ends["episode_return"][ends["episode_done"]].mean())
        speed = steps_per_update / (time.perf_counter() - begin)
        steps = f"{(i + 1) * steps_per_update:>11,} steps {speed:>9,.0f} steps/s"
        print(f"{steps}  return {mean_return:6.1f}")
    return state.policy, mean_return


if __name__ == "__main__":
    train(tyro.cli(Args))
