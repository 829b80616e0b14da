"""`Experiment`: the settings of a run, and methods that build its parts from them."""

import abc
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import tyro
from jaxtyping import PRNGKeyArray
from msgspec import Meta

from agents import PPO, AbstractAlgorithm, ActorCritic
from eqgrid import (
    AbstractEnv,
    AbstractVectorEnv,
    AbstractWrapper,
    LinearSchedule,
    Scheduled,
    VectorEnvironment,
    Vectorize,
    WithPartner,
    contains_wrapper,
    unwrap,
)

from ..base import DIFFERENT, Table, UsageError
from ..partners import Parts, parts_in
from ..show import LoggerName
from ..worlds import columns_of
from ._policy_settings import PolicySettings
from ._training_partners import PartnerSettings, share_of_partners


def check_shaping(config: Any) -> None:
    """Checks the settings `shaping` and `shaping_steps` of a script.

    **Arguments:**

    - `config`: the settings of the script, an `Experiment` with these two fields.

    **Raises:** `ValueError` when the world has no shaped reward, or there are too many steps.
    """
    for name in ("shaping", "shaping_steps"):
        changed = getattr(config, name) != getattr(type(config), name)
        if changed and not config.env.has_shaped_reward:
            raise ValueError(
                f"--{name.replace('_', '-')} weights a shaped reward, which --env.name "
                f"{config.env.name} does not have: leave it out."
            )
    if config.shaping_steps // config.num_envs > 2**31 - 1:
        raise ValueError("--shaping-steps is too large: lower it.")


_Steps: TypeAlias = Annotated[int, Meta(ge=1, le=10**15)]
_Episodes: TypeAlias = Annotated[int, Meta(ge=1, le=2**20)]


@dataclasses.dataclass(frozen=True)
class Experiment(PolicySettings):
    """The settings of a run, and the methods that build its environments, networks and learner.

    Every field is a flag. A script such as `experiments/ippo.py` defines a subclass with further
    fields and with these methods.
    """

    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE.toml|tuned|people")] = None
    """Settings file, `tuned` for the tuned settings of the kitchen, or `people` for the settings
    for human partners."""
    ppo: PPO = dataclasses.field(default_factory=PPO)
    partners: PartnerSettings = dataclasses.field(default_factory=PartnerSettings)
    total_steps: _Steps = 4_000_000
    """Environment steps of training, of each seed; rounded up to whole updates, which have
    --num-envs times --ppo.rollout-length steps."""
    num_envs: Annotated[int, Meta(ge=1, le=2**24)] = 64
    """Number of parallel environments."""
    devices: Annotated[int, Meta(ge=1, le=2**20)] | Literal["all"] | None = None
    """Number of devices, or all, that share the environments or seeds; one by default, but on a
    CPU, each core is a device for --num-seeds."""
    eval_every: _Steps | None = None
    """Environment steps between two evaluations; by default 100,000 steps, or 10 updates if that is
    longer. In a short run, the 10 updates are a twentieth of it."""
    eval_episodes: _Episodes = 64
    """Episodes of each evaluation during training; the final evaluation has four times as many."""
    log: Annotated[tuple[LoggerName, ...], DIFFERENT] = ()
    """Loggers in addition to metrics.csv."""
    log_info: Annotated[tuple[str, ...], DIFFERENT] = ()
    """Entries of info to sum over the episodes of training and of evaluations, and to plot."""
    resume: bool = False
    """Continue the run in --out with its settings if it has a checkpoint, and start it otherwise. A
    complete run stays as it is, so a job can repeat the same command."""
    resume_changed: bool = False
    """Resume even if settings or the file of your own world have changed."""

    @abc.abstractmethod
    def train_env(self) -> AbstractVectorEnv:
        """The training environments: `num_envs` of them, which reset themselves.

        **Raises:** `ValueError` when the settings of the world are invalid.
        """

    @abc.abstractmethod
    def eval_env(
        self, world: AbstractEnv, num_envs: int, totals: Sequence[str] = ()
    ) -> AbstractVectorEnv:
        """The evaluation environments, whose reward is neither shaped nor normalised.

        **Arguments:**

        - `world`: the world that `env.build(train=False)` returns, or the same world in another
            layout.
        - `num_envs`: the number of environments, each of which plays one episode at a time.
        - `totals`: the entries of `info` that are summed over each episode.
        """

    @abc.abstractmethod
    def policy(self, env: AbstractVectorEnv, key: PRNGKeyArray) -> ActorCritic:
        """Initialises a policy: the networks of actor and critic, and the critic's input.

        **Arguments:**

        - `env`: the environments, which determine the shapes of observations and actions.
        - `key`: the source of randomness.
        """

    def with_partners(self, world: AbstractEnv) -> AbstractEnv:
        """Wraps a world in `WithPartner`, if the settings have partners.

        The policies of partners may use networks, action heads and critic inputs that the module of
        the script defines or imports.

        **Arguments:**

        - `world`: one environment with the observations of the agents, before they are normalised.

        **Raises:** `UsageError` when the world has only one agent or a policy does not fit into it,
        and `CheckpointError` when a policy cannot be read.
        """
        if self.partners.is_unused:
            return world
        place = dataclasses.replace(self.place(), world=unwrap(world), env=world)
        return self.partners.around(place, self._parts())

    def partner_marks(self) -> list[Table]:
        """Identifies the policies that are partners in training, for policy files."""
        if self.partners.is_unused:
            return []
        return self.partners.marks(self.env.title, self._parts(), self.env.name)

    def _parts(self) -> Parts:
        return parts_in(sys.modules[type(self).__module__])

    def anneal_partners(self, env: AbstractEnv) -> AbstractEnv:
        """Wraps an environment in `Scheduled`, which changes the share of episodes with partners
        over the steps of training, if `--partners.share-steps` is set.

        **Arguments:**

        - `env`: one environment that resets itself, around the result of `with_partners`.
        """
        partners = self.partners
        if partners.share_steps == 0:
            return env
        # Each environment counts only its own steps.
        steps = max(1, partners.share_steps // self.num_envs)
        share = LinearSchedule(0.0, partners.share, steps)
        return Scheduled(env, share_of_partners, share)

    def check_partners(self, train_env: VectorEnvironment) -> None:
        """Checks that `train_env` has the wrappers that the settings of partners need.

        **Raises:** `UsageError` when it has not.
        """
        batch = unwrap(train_env)

        def has(wrapper: type[AbstractWrapper]) -> bool:
            return isinstance(batch, Vectorize) and contains_wrapper(batch.env, wrapper)

        if self.partners.share_steps > 0 and not has(Scheduled):
            raise UsageError(
                "--partners.share-steps has no effect in this script: call self.anneal_partners on "
                "AutoReset in train_env, or leave it out."
            )
        if self.partners != PartnerSettings() and not has(WithPartner):
            raise UsageError(
                "--partners.share has no effect in this script, which trains without partners: "
                "call self.with_partners on the world in train_env, or leave out --partners and "
                "settings files with partners."
            )

    def learner(self) -> AbstractAlgorithm[Any]:
        """The learner of the policy: by default, PPO with the settings of the run."""
        return self.ppo

    def totals(self, world: AbstractEnv) -> dict[str, tuple[str, ...]]:
        """The entries of `info` that are summed over evaluation episodes: entries of the world and
        of `--log-info`. The entries of `--log-info` are also summed over training episodes.

        **Arguments:**

        - `world`: as `env.build` returns it.

        **Returns:** for each entry, the columns of the log for its numbers. The log contains sums
        over the agents.

        **Raises:** `ValueError` when the world has no such entry.
        """
        known = self.env.totals(world)
        return known | {x: columns_of(world, x) for x in self.log_info if x not in known}
