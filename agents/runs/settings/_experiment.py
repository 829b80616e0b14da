"""An experiment: settings, and methods that build the parts of a run from them."""

import abc
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

import tyro
from jaxtyping import PRNGKeyArray
from msgspec import Meta

from agents import PPO, ActorCritic
from agents.runs.display._loggers import LoggerName
from agents.runs.worlds._world_config import AbstractWorldConfig
from agents.runs.worlds._worlds import Kitchen
from eqgrid import AbstractEnv, AbstractVectorEnv

from ._limits import Seed
from ._training_partners import PartnerSettings

_Steps: TypeAlias = Annotated[int, Meta(ge=1, le=10**15)]
_Episodes: TypeAlias = Annotated[int, Meta(ge=1, le=2**20)]
_Positive: TypeAlias = Annotated[float, Meta(gt=0)]


@dataclasses.dataclass(frozen=True)
class Experiment(abc.ABC):
    """The settings of an experiment, which are its flags, and the parts that it builds from them.

    A page such as `experiments/ippo.py` is a subclass: it adds settings of its own as fields, and
    methods that build the environments, the networks and the learner. `run_experiment` runs it.
    """

    algorithm: ClassVar[str]
    """Its name, for people and for files."""
    in_one_program: ClassVar[tuple[str, ...]] = ()
    """Settings that are numbers in the arrays of the training environments: runs that differ in
    nothing else are trained by one compiled program, and each stage of a curriculum may have its
    own."""

    env: AbstractWorldConfig = dataclasses.field(default_factory=Kitchen)
    ppo: PPO = dataclasses.field(default_factory=PPO)
    partners: PartnerSettings = dataclasses.field(default_factory=PartnerSettings)
    seed: Seed = 0
    """Seed of everything that is random."""
    num_seeds: Annotated[int, Meta(ge=1, le=1024)] = 1
    """Runs with this and the following seeds, trained at once."""
    candidates: Annotated[int, Meta(ge=1, le=1024)] = 1
    """Agents that learn at first; the best one goes on."""
    candidate_steps: _Steps = 600_000
    """Environment steps of each of them, at most half of the run."""
    total_steps: _Steps = 4_000_000
    """Length of training, in environment steps."""
    num_envs: Annotated[int, Meta(ge=1, le=2**24)] = 64
    """Environments side by side."""
    devices: Annotated[int, Meta(ge=1, le=2**20)] | Literal["all"] = 1
    """Devices that environments are spread over, or all."""
    distributed: bool = False
    """Train with all devices of several processes or hosts."""
    eval_every: _Steps = 100_000
    """Environment steps between two evaluations."""
    eval_episodes: _Episodes = 64
    """Episodes in a periodic evaluation."""
    final_episodes: _Episodes = 256
    """Episodes in the evaluation at the end."""
    stop_at_return: float | None = None
    """End when an evaluation reaches this mean return."""
    patience: Annotated[int, Meta(ge=1, le=10**9)] | None = None
    """End when so many evaluations in a row were no better."""
    max_kl: _Positive | None = None
    """End when a block of updates moves further, in nats."""
    checkpoint_every: _Steps | None = None
    """Environment steps between two checkpoints that stay."""
    log: tuple[LoggerName, ...] = ()
    """Write the log in these forms, too."""
    max_hours: _Positive | None = None
    """Save and end after so long; --resume goes on."""
    profile: bool = False
    """Write a trace of one block, for Perfetto."""
    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE.toml|tuned")] = None
    """Settings file, or those that were found for the kitchen; flags replace what it says."""
    curriculum: Annotated[Path | None, tyro.conf.arg(metavar="FILE.toml")] = None
    """File with stages, one world after another."""
    stage: Annotated[tuple[dict[str, Any], ...], tyro.conf.Fixed, tyro.conf.Suppress] = ()
    """The tables of the stages, in settings files."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the run; a new one in runs/ if none."""
    overwrite: bool = False
    """Replace an older run in the folder."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Folder of a run to go on with."""
    sweep: Annotated[Path | None, tyro.conf.arg(metavar="FILE.toml")] = None
    """Train with every combination of settings in a file."""
    sweep_index: Annotated[
        Annotated[int, Meta(ge=0, le=10**6)] | None, tyro.conf.arg(name="sweep.index")
    ] = None
    """Train only this point of the sweep, counted from 0."""

    @abc.abstractmethod
    def observe(self, world: AbstractEnv) -> AbstractEnv:
        """The world with the observations of agents, without what only critics see."""

    @abc.abstractmethod
    def train_env(self) -> AbstractVectorEnv:
        """The environments that agents learn in; they reset themselves.

        **Raises:** `ValueError` when there is no such world.
        """

    @abc.abstractmethod
    def eval_env(
        self, world: AbstractEnv, num_envs: int, totals: Sequence[str] = ()
    ) -> AbstractVectorEnv:
        """The environments of evaluations, with the reward of the game alone.

        **Arguments:**

        - `world`: what `env.build(train=False)` gave, or another layout of it.
        - `num_envs`: how many episodes are played at once.
        - `totals`: the entries of `info` that are summed over each episode.
        """

    @abc.abstractmethod
    def policy(self, env: AbstractVectorEnv, key: PRNGKeyArray) -> ActorCritic:
        """The networks of actor and critic, drawn anew, and what the critic sees."""

    def learner(self) -> PPO:
        """The algorithm: PPO with the settings of the run; a page may replace parts of it."""
        return self.ppo

    def check(self) -> None:  # noqa: B027 (most pages need none)
        """**Raises:** `ValueError` with one sentence when its own settings cannot go together."""


E = TypeVar("E", bound=Experiment)


def default_settings(experiment: type[E], env: AbstractWorldConfig | None = None) -> E:
    """The default settings of a run.

    **Arguments:**

    - `experiment`: what is run.
    - `env`: the world, if not the default one of the experiment. Its `run_settings` replace the
        experiment's defaults, where the experiment has such a setting.
    """
    world: Any = experiment().env if env is None else env
    names = {field.name for field in dataclasses.fields(experiment)}
    own = {name: value for name, value in world.run_settings.items() if name in names}
    return experiment(env=world, **own)
