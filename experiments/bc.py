"""Behaviour cloning of people: supervised learning of their actions in recorded games.

python experiments/bc.py --env.layout cramped

The protocol is from Carroll et al. 2019, "On the Utility of Learning about Humans for Human-AI
Coordination". `BC` has the settings, the observation and the network of the model: edit them here,
or the loop over the epochs in `main`. The loss and the optimiser are in `BehaviorCloning`.
"""

import dataclasses
import functools
from typing import Annotated, Literal

from eqgrid_lab import Kitchen, WorldSettings, parse
from eqgrid_lab.cloning import Cloning, as_clones, networks_of, open_cloning_run
import equinox as eqx
from jaxtyping import PRNGKeyArray
from msgspec import Meta

from agents import CNN, GRU, MLP, ActorCritic, BehaviorCloning, actor_critic
from agents.cloning import clone_epoch
from agents.training import stack_runs
from eqgrid import AbstractEnv, AbstractVectorEnv, Vectorize


@dataclasses.dataclass(frozen=True)
class BC(Cloning):
    """Trains models of people, and writes results, plots and policies into a folder."""

    algorithm = "bc"

    # Every field is a flag. `Cloning` has --split, --games, --held-out and --stuck-steps.
    # The models of 2019 observed the 96 features of the reference implementation.
    env: WorldSettings = dataclasses.field(
        default_factory=lambda: Kitchen(observation="features96")
    )
    network: Literal["mlp", "cnn", "gru", "cnn-gru"] = "mlp"
    """Network of the model. Networks with a gru remember the game so far."""
    width: Annotated[int, Meta(ge=1, le=2**16)] = 64
    """Units per hidden layer."""
    cloning: BehaviorCloning = dataclasses.field(default_factory=BehaviorCloning)

    def observe(self, world: AbstractEnv) -> AbstractEnv:
        return world

    def policy(self, env: AbstractVectorEnv, key: PRNGKeyArray) -> ActorCritic:
        kind = CNN if "cnn" in self.network else MLP
        network = functools.partial(kind, width=self.width)
        if "gru" in self.network:
            network = functools.partial(GRU, width=self.width, encoder=network)
        return actor_critic(env, key, network=network)

    def learner(self) -> BehaviorCloning:
        # It minimises the cross-entropy with Adam. Its hyperparameters are flags, such as
        # --cloning.num-epochs.
        return self.cloning

    def check(self) -> None:
        super().check()
        if self.network in ("cnn", "cnn-gru") and not self.env.has_images:
            raise ValueError(
                f"--network {self.network} reads images: add --env.observation planes."
            )


def main(config: BC) -> None:
    with open_cloning_run(config) as run:
        world = config.observe(config.env.build(train=False))
        envs, learner = Vectorize(world, 1), config.learner()
        policies = [config.policy(envs, key) for key in run.network_keys]  # one for each seed
        networks = networks_of(policies)
        games = run.read_games(world)
        shown = games.shown(held_out=False, length=learner.length_for(networks[0]))
        held_out = games.shown(held_out=True)

        # All seeds are trained together: the arrays of their states have a leading axis of them.
        states = eqx.filter_vmap(learner.init)(stack_runs(networks), run.epoch_keys)
        for epoch in run.epochs():
            states, loss, score = clone_epoch(learner, states, shown, held_out)
            run.log(epoch, loss, score)

        # Plays the models of the last epoch with themselves, and writes all files. For an earlier
        # epoch, such as the best one in metrics.csv, set --cloning.num-epochs.
        run.finish(world, as_clones(policies, states.network, envs))


if __name__ == "__main__":
    main(parse(BC))
