"""The settings of a page that clones people, such as `experiments/bc.py`."""

import abc
import dataclasses
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import tyro
from jaxtyping import PRNGKeyArray
from msgspec import Meta

from agents import ActorCritic, BehaviorCloning, PolicyPartner, StuckRule
from eqgrid import AbstractPartner, AbstractVectorEnv
from eqgrid.envs.overcooked import KITCHENS
from eqgrid.grid import poses

from ..base import UsageError, as_usage_error
from ..settings import (
    LARGEST_SEED,
    PolicySettings,
    at_home,
    check_limits,
    check_network,
    cli,
    command_of,
    default_settings,
    load,
    value_after,
    with_network,
)
from ..worlds import Kitchen

C = TypeVar("C", bound="Cloning")


@dataclasses.dataclass(frozen=True)
class Cloning(PolicySettings):
    """The settings of behaviour cloning: whose games, and how the model is trained and played."""

    of_one_layout = True

    split: Literal["train", "test"] = "train"
    """Half of the human games to clone: clones learn from the first half, proxies from the
    second."""
    games: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None
    """Table of recorded games, instead of Overcooked-AI's games."""
    held_out: Annotated[float, Meta(gt=0, lt=1)] = 0.15
    """Share of the games that are held out, with all games of the same people."""
    keep: Literal["last", "best"] = "last"
    """Keep the network of the last epoch, or of the best one on the held-out games."""
    stuck_steps: Annotated[int, Meta(ge=0, le=100)] = 3
    """When played, take another action after this many steps in one place (0: never)."""
    episodes: Annotated[int, Meta(ge=2, le=2**14)] = 128
    """Episodes of the model with itself at the end."""

    @abc.abstractmethod
    def policy(self, env: AbstractVectorEnv, key: PRNGKeyArray) -> ActorCritic:
        """Initialises a model, whose agents share their parameters.

        **Arguments:**

        - `env`: the environments, which determine the shapes of observations and actions.
        - `key`: the source of randomness.
        """

    @abc.abstractmethod
    def learner(self) -> BehaviorCloning:
        """The learner of the model."""

    def as_played(self, partner: PolicyPartner) -> AbstractPartner:
        """The partner with the stuck rule, unless its steps are 0."""
        return StuckRule(partner, poses, self.stuck_steps) if self.stuck_steps else partner

    def check(self) -> None:
        env = self.env
        if not isinstance(env, Kitchen) or env.layout not in KITCHENS:
            raise UsageError(
                f"Games of people are cloned in one kitchen: choose --env.layout among "
                f"{', '.join(KITCHENS)}."
            )
        if env.dynamics != "classic":
            raise UsageError("The human games use the classic rules: leave out --env.dynamics.")
        if env.normalize_observation:
            raise UsageError(
                "Human models use observations without normalisation: omit "
                "--env.normalize-observation."
            )
        if self.seed + self.num_seeds - 1 > LARGEST_SEED:
            raise UsageError(f"--seed {self.seed} is too large for --num-seeds {self.num_seeds}.")


def parse_cloning(page: type[C], args: Sequence[str]) -> C:
    """Parses the command line of a page that clones people.

    **Arguments:**

    - `page`: the class that the page defines.
    - `args`: the command line.

    **Returns:** the checked settings.

    **Raises:** `UsageError` when a setting is unknown, malformed or out of range.
    """
    args = at_home(args)
    network, file = value_after("--network", args), value_after("--config", args)
    if file is not None:
        default = load(Path(file), page, network=network)
    else:
        default = with_network(default_settings(page), network)
    config = cli(default, args, command_of(page), inspect.cleandoc(page.__doc__ or ""))
    check_limits(config)
    check_network(config)
    with as_usage_error():
        config.env.check()
        config.check()
    return config
