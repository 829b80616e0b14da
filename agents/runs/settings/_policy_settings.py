"""`PolicySettings`: what all pages have in common, and what a policy needs in order to be used."""

import abc
import dataclasses
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import tyro
from msgspec import Meta

from agents.runs.worlds._world_config import AbstractWorldConfig
from agents.runs.worlds._worlds import Kitchen
from eqgrid import AbstractEnv

from ._limits import Seed


@dataclasses.dataclass(frozen=True)
class PolicySettings(abc.ABC):
    """The settings of a command that makes policies: their world, what they observe, and seeds.

    A policy file stores them, so that the policy can be played without further flags.
    """

    algorithm: ClassVar[str]
    """The name of the algorithm, in messages and names of files."""

    env: AbstractWorldConfig = dataclasses.field(default_factory=Kitchen)
    seed: Seed = 0
    """Random seed of the run."""
    num_seeds: Annotated[int, Meta(ge=1, le=1024)] = 1
    """Number of runs, with consecutive seeds, that are trained together."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of the run; by default, a new one in runs/."""
    overwrite: bool = False
    """Replace an older run in the folder of --out."""

    @abc.abstractmethod
    def observe(self, world: AbstractEnv) -> AbstractEnv:
        """Wraps a world so that it returns the observations of actors, without those of critics.

        **Arguments:**

        - `world`: as `env.build` returns it.
        """

    def check(self) -> None:  # noqa: B027 (most pages need none)
        """Checks the settings that a page adds; does nothing by default.

        **Raises:** `ValueError` with one sentence when settings contradict one another.
        """


E = TypeVar("E", bound=PolicySettings)


def default_settings(experiment: type[E], env: AbstractWorldConfig | None = None) -> E:
    """The default settings of a run in a world.

    **Arguments:**

    - `experiment`: the class that a page defines.
    - `env`: the settings of the world, by default those of the experiment's default world. Their
        `run_settings` replace the experiment's defaults, if it has such a setting.
    """
    world: Any = experiment().env if env is None else env
    names = {field.name for field in dataclasses.fields(experiment)}
    own = {name: value for name, value in world.run_settings.items() if name in names}
    return experiment(env=world, **own)
