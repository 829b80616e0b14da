"""Kick-starting (Schmitt et al. 2018): agents learn by PPO and, at first, also from a teacher.

python experiments/policies/kick_start.py --env.layout ring
    --teacher experiments/policies/plan-ring.safetensors

The loss has an additional term, the cross-entropy of the teacher's and the agent's action
probabilities. Its weight decreases with the entropy bonus. The teacher is a policy without memory
that has the same observations, such as the policies plan-KITCHEN.safetensors.
"""

import dataclasses
import functools
import sys
from collections.abc import Sequence
from typing import Annotated, Any, final

from eqgrid_lab import Experiment, Kitchen, Run, WorldSettings, parse
import equinox as eqx
import jax
import tyro
from jaxtyping import Array, Float, PRNGKeyArray
from msgspec import Meta

from agents import (
    MLP,
    PPO,
    ActorCritic,
    CheckpointError,
    Minibatch,
    TrainedPolicy,
    TrainState,
    actor_critic,
    load_policy,
    loss_of_choices,
    mean_over,
    replay,
)
from eqgrid import AbstractEnv, AbstractVectorEnv, AutoReset, LogEpisodes, Vectorize


@dataclasses.dataclass(frozen=True)
class KickStart(Experiment):
    """Trains agents with PPO and a teacher, and writes results into a folder."""

    algorithm = "kick-start"

    env: WorldSettings = dataclasses.field(
        default_factory=lambda: Kitchen(observation="timed_features")
    )
    total_steps: Annotated[int, Meta(ge=1, le=10**15)] = 2_000_000
    """Total environment steps of training."""
    teacher: Annotated[str, tyro.conf.arg(metavar="FILE")] = ""
    """Policy file of the teacher."""
    teacher_weight: Annotated[float, Meta(ge=0)] = 1.0
    """Initial weight of the teacher's term. It decreases in proportion to the entropy bonus."""
    width: Annotated[int, Meta(ge=1, le=2**16)] = 128
    """Units per hidden layer."""

    def observe(self, world: AbstractEnv) -> AbstractEnv:
        return world

    def train_env(self) -> AbstractVectorEnv:
        world = self.with_partners(self.env.build(train=True))
        env = self.anneal_partners(AutoReset(LogEpisodes(world, self.log_info)))
        return Vectorize(env, self.num_envs)

    def eval_env(
        self, world: AbstractEnv, num_envs: int, totals: Sequence[str] = ()
    ) -> AbstractVectorEnv:
        return Vectorize(AutoReset(LogEpisodes(world, totals)), num_envs)

    def policy(self, env: AbstractVectorEnv, key: PRNGKeyArray) -> ActorCritic:
        return actor_critic(env, key, network=functools.partial(MLP, width=self.width))

    def learner(self) -> PPO:
        loss = KickStartLoss(_read_teacher(self.teacher).actor_critic, self.teacher_weight)
        return dataclasses.replace(self.ppo, loss=loss)

    def check(self) -> None:
        if not self.teacher:
            raise ValueError("Name the policy file of a teacher with --teacher.")
        if not self.ppo.entropy_coefficient:
            raise ValueError(
                "The teacher's weight decreases with the entropy bonus: give "
                "--ppo.entropy-coefficient a number above 0."
            )
        if self.env.normalize_observation:
            raise ValueError(
                "The teacher needs observations that are not normalised: leave "
                "--env.normalize-observation out."
            )
        try:
            teacher = _read_teacher(self.teacher)
        except CheckpointError as error:
            raise ValueError(f"--teacher: {error}") from error
        if teacher.initial_carry() is not None:
            raise ValueError("The teacher has a memory: choose a --teacher without memory.")
        theirs = teacher.observation
        own = eqx.filter_eval_shape(self.env.build(train=False).reset, jax.random.key(0))[0]
        if theirs.shape != own.shape:
            raise ValueError(
                f"The teacher observes {theirs.shape}, but the agents observe {own.shape}: choose "
                "another --env.observation or --teacher."
            )


@functools.cache  # runs with one teacher share its arrays
def _read_teacher(file: str) -> TrainedPolicy:
    return load_policy(file)


@final
class KickStartLoss(eqx.Module):
    """The loss of PPO, plus the weighted cross-entropy of the teacher's and the agent's action
    probabilities.
    """

    teacher: ActorCritic
    weight: float | Float[Array, ""]

    def __call__(
        self,
        policy: ActorCritic,
        batch: Minibatch,
        ppo: PPO,
        entropy_coefficient: float | Float[Array, ""],
        /,
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        distribution, value = replay(policy, batch)
        loss, parts = loss_of_choices(policy, distribution, value, batch, ppo, entropy_coefficient)
        teacher_distribution: Any = replay(self.teacher, batch)[0]
        cross_entropy = teacher_distribution.cross_entropy(distribution)
        teacher_loss = mean_over(cross_entropy, batch.rollout.active)
        # `entropy_coefficient` decreases during training; `ppo.entropy_coefficient` is its start.
        weight = self.weight * entropy_coefficient / ppo.entropy_coefficient
        return loss + weight * teacher_loss, {**parts, "teacher_loss": teacher_loss}


def main(config: KickStart) -> int:
    with Run(config) as run:  # the folder with its log and checkpoints, progress and signals
        ppo, envs = config.learner(), config.train_env()
        block = run.block(ppo, envs)  # makes updates of all seeds in one compiled program
        evaluation = run.evaluation(envs)  # plays episodes in `eval_env`

        def init(envs: AbstractVectorEnv, key: PRNGKeyArray) -> TrainState:  # of one seed
            policy_key, run_key = jax.random.split(key)
            return ppo.init(config.policy(envs, policy_key), envs, run_key)

        state = run.start(init, block, evaluation)  # a new state, or that of the last checkpoint
        for count in run.blocks():  # the updates until the next evaluation
            state, metrics = block(state, count)  # metrics: NumPy, of each update and seed
            result = evaluation(state)
            run.log(metrics, result)  # an entry that you add to `result` becomes a column
            run.save(state, result)  # writes every few seconds; `break` after it ends the run
        run.finish(state)  # the final evaluation, policies, plots and a GIF
    return run.exit_code


if __name__ == "__main__":
    sys.exit(main(parse(KickStart)))
