"""`PolicySettings`: what all pages have in common, and what a policy needs in order to be used."""

import abc
import dataclasses
from pathlib import Path
from typing import Annotated, ClassVar

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
    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE.toml|tuned")] = None
    """Settings file, or the tuned settings of the kitchen; flags override it."""
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
