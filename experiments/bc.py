"""Behaviour cloning of people: supervised learning of their actions in recorded games.

python experiments/bc.py --env.layout cramped

The protocol is from Carroll et al. 2019, "On the Utility of Learning about Humans for Human-AI
Coordination". This script defines the settings, observation, network and learner of the model.
`run_cloning` reads the games, trains, evaluates the model on games of other people and in games
with itself, and writes a policy file.
"""

import dataclasses
import functools
from typing import Annotated, Literal

from eqgrid_lab import Kitchen, WorldSettings
from eqgrid_lab.cloning import Cloning, run_cloning
from jaxtyping import PRNGKeyArray
from msgspec import Meta

from agents import CNN, GRU, MLP, ActorCritic, BehaviorCloning, actor_critic
from eqgrid import AbstractEnv, AbstractVectorEnv


@dataclasses.dataclass(frozen=True)
class BC(Cloning):
    """Trains models of people, and writes results, plots and policies into a folder."""

    algorithm = "bc"

    # Every field is a flag. `Cloning` has --split, --games, --held-out, --keep and --stuck-steps.
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


if __name__ == "__main__":
    run_cloning(BC)
